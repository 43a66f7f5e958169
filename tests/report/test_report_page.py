"""The page in a browser: quiet, operable, safe and legible."""

import time

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.posterior.decisions import Direction
from svidag.report.content import content
from svidag.report.render import render

LAPTOP = {"width": 1366, "height": 800}
PHONE = {"width": 390, "height": 844}
HOSTILE = (
    "<img src=x onerror=window.hit=1>",
    "</script><script>window.hit=1</script>",
    "quote\"'`&amp;${window.hit=1}",
    "emoji 🧬👩‍🔬",
    "שלום עולם‮ gnisrever",
    "long" * 50,
    "{{ 7 * 7 }}",
    "javascript:window.hit=1",
)


@pytest.fixture(scope="module")
def eleven():
    example = svidag.datasets.synthetic(m=11, edges=14, n=300, seed=4)
    return svidag.exact.posterior(example.data)


@pytest.fixture(scope="module")
def hostile():
    values = np.random.default_rng(0).standard_normal((200, len(HOSTILE)))
    values[:, 1:] += 0.8 * values[:, :-1]
    return svidag.exact.posterior(pd.DataFrame(values, columns=list(HOSTILE)))


@pytest.fixture(scope="module")
def contents(eleven, fifty, hostile):
    made = {"eleven": eleven, "fifty": fifty, "hostile": hostile}
    return {name: content(posterior) for name, posterior in made.items()}


@pytest.fixture(scope="module")
def reports(contents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, found in contents.items():
        (folder / f"{name}.html").write_text(render(found), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in contents}


@pytest.fixture
def visit(browser, reports):
    """Open a report; at the end nothing may have been complained about or asked for."""
    contexts, complaints = [], []

    def open_page(name, viewport=LAPTOP, **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        home = reports[name].as_uri()
        context.route(
            "**/*", lambda route: route.continue_() if route.request.url == home else route.abort()
        )
        page.on(
            "request",
            lambda request: (
                None if request.url in (home, "data:,") else complaints.append(request.url)
            ),
        )
        page.goto(home)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def drawn(page):
    return page.locator("#drawing .link").count()


def expected(found, threshold):
    """How many pairs are drawn: arrows by their probability, links by that of being connected."""
    probabilities = [
        pair.connected if pair.direction is Direction.OPEN else pair.forward
        for pair in found.decisions.pairs
    ]
    return sum(round(p, 4) >= threshold for p in probabilities)


@pytest.mark.parametrize("name", ["eleven", "fifty"])
def test_it_opens_quickly_and_draws_everything(visit, name, contents):
    seconds = []
    while min(seconds, default=9) > 3 and len(seconds) < 3:  # the machine may be busy elsewhere
        started = time.perf_counter()
        page = visit(name)
        page.wait_for_selector("#drawing .node")
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 3
    m = len(contents[name].names)
    assert page.locator("#drawing .node").count() == m
    assert page.locator(".matrix tbody td").count() == m * m
    assert drawn(page) == expected(contents[name], 0.5)


def test_the_slider_by_keyboard_and_mouse(visit, contents):
    eleven = contents["eleven"]
    page = visit("eleven")
    slider = page.locator("#threshold")
    slider.focus()
    page.keyboard.press("Home")
    assert drawn(page) == expected(eleven, 0.05)
    most = drawn(page)
    page.keyboard.press("ArrowRight")
    assert page.text_content("#threshold-value") == "0.06"
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + box["height"] / 2)
    threshold = float(slider.input_value())
    assert threshold > 0.9
    assert drawn(page) == expected(eleven, threshold) < most
    assert page.text_content("#count").startswith(f"{drawn(page)} connection")


def test_decided_and_open_are_drawn_differently(visit):
    page = visit("eleven")
    solid = page.locator("#drawing .edge:not(.open)")
    dashed = page.locator("#drawing .edge.open")
    assert solid.count() > 0
    assert dashed.count() > 0
    assert solid.first.get_attribute("stroke-dasharray") is None
    assert dashed.first.get_attribute("stroke-dasharray")
    widths = page.eval_on_selector_all(
        "#drawing .edge", "all => all.map(e => +e.getAttribute('stroke-width'))"
    )
    assert widths == sorted(widths)  # the most probable on top
    page.focus("#threshold")
    page.keyboard.press("Home")
    assert (
        page.locator("#drawing .edge").evaluate_all(
            "all => new Set(all.map(e => getComputedStyle(e).stroke)).size"
        )
        > 2
    )


def test_variables_by_keyboard(visit, fifty):
    page = visit("fifty")
    page.focus('#drawing .node[tabindex="0"]')
    first = page.evaluate("document.activeElement.dataset.node")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.node")
    assert first != second
    page.keyboard.press("Enter")
    assert page.locator("#drawing .node.chosen").get_attribute("data-node") == second
    assert page.evaluate("document.activeElement.dataset.node") == second
    edges = fifty.edge_probabilities().to_numpy()
    k = int(second)
    near = ((edges + edges.T)[k] >= 0.5).sum()
    assert abs(page.locator("#drawing .node").count() - 1 - near) <= 1
    assert fifty.names[k] in page.text_content("#neighbours")
    page.keyboard.press("Escape")
    assert page.locator("#drawing .node").count() == 50
    before = page.get_attribute("#drawing", "viewBox")
    page.keyboard.press("+")
    assert page.get_attribute("#drawing", "viewBox") != before
    page.keyboard.press("0")
    assert page.get_attribute("#drawing", "viewBox") == before


def test_variables_by_mouse_and_pan(visit):
    page = visit("fifty")
    page.locator("#drawing").scroll_into_view_if_needed()
    page.locator("#drawing .node").nth(5).click()
    assert page.locator("#drawing .node.chosen").count() == 1
    page.get_by_role("button", name="Show all variables").click()
    assert page.locator("#drawing .node").count() == 50
    before = page.get_attribute("#drawing", "viewBox")
    box = page.locator("#drawing").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] - 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + box["height"] - 60, steps=4)
    page.mouse.up()
    assert page.get_attribute("#drawing", "viewBox") != before


def test_the_first_stop_skips_to_the_verdict(visit):
    page = visit("eleven")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "verdict"


def test_a_graph_of_the_ranking_can_be_drawn(visit, contents):
    page = visit("eleven")
    page.click('button[data-view="consensus"]')
    assert drawn(page) == len(contents["eleven"].consensus[0].arrows)
    page.click('button[data-view="graph 2"]')
    assert drawn(page) == len(contents["eleven"].graphs[1].arrows)
    assert page.locator("#threshold").is_disabled()


def test_tables_sort_filter_and_open(visit):
    page = visit("fifty")
    rows = page.locator("#pair-table tbody tr:visible")
    assert rows.count() == 20
    page.get_by_role("button", name="Show all").first.click()
    total = rows.count()
    assert total > 80
    page.get_by_role("button", name="P(connected)").click()
    values = page.eval_on_selector_all(
        "#pair-table tbody tr", "all => all.map(row => +row.cells[4].dataset.v)"
    )
    assert values == sorted(values, reverse=True)
    page.get_by_role("button", name="P(connected)").click()
    assert page.locator("#pair-table th").nth(4).get_attribute("aria-sort") == "ascending"
    page.fill("#pair-text", "gene_7")
    assert 0 < rows.count() < total
    assert all("gene_7" in text for text in rows.all_text_contents())
    page.fill("#pair-text", "")
    page.select_option("#pair-status", "decided arrow")
    assert page.text_content("#pair-count") == f"{rows.count()} pairs"


def test_the_matrix_tells_its_cells(visit, eleven):
    page = visit("eleven")
    page.focus('.matrix td[tabindex="0"]')
    page.keyboard.press("ArrowDown")
    cell = page.evaluate("({...document.activeElement.dataset})")
    i, j = int(cell["i"]), int(cell["j"])
    text = page.text_content("#readout")
    assert text.startswith(f"{eleven.names[i]} → {eleven.names[j]}: ")


def test_effects_follow_the_chosen_cause(visit, contents):
    found, names = contents["eleven"].effects, contents["eleven"].names
    page = visit("eleven")
    rows = page.locator("#effect-table tbody tr")
    for cause in (2, 7):
        page.select_option("#cause", str(cause))
        reported = {row.locator("bdi").text_content() for row in rows.all()}
        moved = (found.zero[cause] < 0.99).nonzero()[0]
        assert reported == {names[j] for j in moved if j != cause}
        assert names[cause] in page.text_content("#effect-note")
    page.select_option("#focus", "4")
    assert page.input_value("#cause") == "4"


def test_names_stay_text(visit):
    page = visit("hostile")
    page.focus("#threshold")
    page.keyboard.press("Home")
    for k in range(len(HOSTILE)):
        page.select_option("#focus", str(k))
        page.select_option("#cause", str(k))
    page.select_option("#focus", "")
    page.hover('.matrix td[data-i="0"][data-j="1"]')
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert HOSTILE[0] in page.text_content("#readout")
    titles = page.eval_on_selector_all("#drawing .node title", "all => all.map(e => e.textContent)")
    assert titles == list(HOSTILE)
    heads = page.eval_on_selector_all(".matrix tbody th", "all => all.map(e => e.title)")
    assert sorted(heads) == sorted(HOSTILE)
    columns = page.eval_on_selector_all("#data-table .name", "all => all.map(e => e.textContent)")
    assert columns == list(HOSTILE)
    labels = page.eval_on_selector_all(
        "#drawing .node",
        "all => all.map(e => ['text', 'rect'].map(tag => e.querySelector(tag).getBBox().width))",
    )
    assert all(text <= box for text, box in labels)


def test_the_policy_stops_scripts_that_are_not_ours(browser, reports):
    context = browser.new_context()
    page = context.new_page()
    page.goto(reports["eleven"].as_uri())
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
        "document.body.append(s); const i = new Image(); i.src = 'x.png'; document.body.append(i);"
    )
    assert page.evaluate("window.hit") is None
    assert page.evaluate("fetch('x.json').then(() => 'loaded', () => 'stopped')") == "stopped"
    context.close()


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = rgb(getComputedStyle(element).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return rgb("white");
  };
  const found = [];
  for (const element of document.querySelectorAll("main *:not(svg *)")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.disabled) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([ratio.toFixed(2), element.tagName, element.className]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(visit, scheme):
    page = visit("eleven", color_scheme=scheme)
    # Every step of the colour scale, whether the posterior has it or not.
    page.evaluate(
        "[...document.querySelectorAll('.matrix td[data-i]')].slice(0, 21)"
        ".forEach((cell, k) => { cell.className = 'h' + k; cell.textContent = '.50'; })"
    )
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, ground[4:-1].split(",")))
    assert brightness < 150 if scheme == "dark" else brightness > 650
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("name", ["eleven", "fifty", "hostile"])
def test_a_phone_scrolls_one_way_only(visit, name):
    page = visit(name, viewport=PHONE, is_mobile=True, has_touch=True, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.locator("#drawing .node").count() > 0


def test_printing_leaves_the_controls_out(visit):
    page = visit("eleven")
    page.emulate_media(media="print")
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("#verdict").is_visible()
    assert page.locator("#drawing").is_visible()


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE])
def test_the_next_experiment_is_a_table_with_the_best_first(visit, contents, viewport):
    page = visit("eleven", viewport)
    found = contents["eleven"].experiments
    rows = page.locator("#experiment-table tbody tr")
    assert rows.count() == 11
    assert rows.nth(0).text_content().startswith(found.names[0])
    assert f"{found.bits[0]:.2f}" in rows.nth(0).text_content()
    assert page.locator('nav a[href="#experiments"]').count() == 1


def test_tiles_count_what_the_table_lists(visit, contents):
    page, count = visit("eleven"), contents["eleven"].count
    shown = dict(
        zip(
            page.locator(".tiles dt").all_text_contents(),
            map(int, page.locator(".tiles dd").all_text_contents()),
            strict=True,
        )
    )
    assert shown["connected, direction open"] == count["connected, direction open"]
    assert sum(shown.values()) == 55
    listed = page.locator('#pair-table tr[data-status="decided arrow"]').count()
    assert listed == count["decided arrow"]
