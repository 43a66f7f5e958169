"""Text and HTML of results: short, complete, and safe with any name."""

import html
import re

import numpy as np
import pytest

import svidag
from svidag.effects.effect import Effect
from svidag.effects.levels import LevelWords
from svidag.methods.mechanism_choice import integrate
from svidag.posterior import DrawnGraphs, Posterior
from svidag.problem import Problem
from svidag.report.summary import summarise

NAMES = ("smoke", "tar", "<b>cancer</b>")


def graph(*edges):
    A = np.zeros((3, 3), dtype=np.uint8)
    for i, j in edges:
        A[i, j] = 1
    return A


@pytest.fixture
def posterior():
    graphs = np.stack([graph((0, 1), (1, 2)), graph((0, 2), (1, 2)), graph((2, 1))])
    return Posterior(NAMES, DrawnGraphs(graphs, np.array([0.5, 0.3, 0.2])))


@pytest.fixture(scope="module")
def fitted():
    example = svidag.datasets.synthetic(m=12, edges=14, n=200, seed=2)
    return svidag.fit(example.data, mechanism="linear", progress=False)


def test_the_text_of_a_posterior_is_short_and_asks_for_no_draws(fitted, monkeypatch):
    monkeypatch.setattr(type(fitted.graphs), "sample", lambda *_: pytest.fail("it draws"))
    text = repr(fitted)
    assert len(text) < 200
    assert "12 variables" in text
    assert "200 rows" in text
    assert "linear" in text


def test_ranked_graphs_name_their_arrows(posterior):
    text = repr(posterior.top_graphs(1)[0])
    assert "probability 0.500" in text
    assert "smoke → tar" in text
    assert "uint8" not in text


def test_classes_name_arrows_and_links(posterior):
    first = posterior.top_classes(1)[0]
    assert "smoke — tar" in repr(first)
    assert "smoke — tar" in repr(posterior.cpdag())


def test_the_consensus_says_what_gave_way_to_a_cycle():
    cycle = np.stack([graph((0, 1), (1, 2)), graph((1, 2), (2, 0)), graph((2, 0), (0, 1))])
    text = repr(Posterior(NAMES, DrawnGraphs(cycle, np.array([0.4, 0.3, 0.3]))).consensus())
    assert "2 arrows" in text
    assert "left out, to avoid a cycle: <b>cancer</b> → smoke (0.60)" in text


def test_a_comparison_names_what_changed(posterior):
    other = Posterior(NAMES, DrawnGraphs(posterior.graphs.graphs[2:], np.ones(1)))
    text = repr(svidag.compare(posterior, other))
    assert "1 reversed" in text
    assert "tar → <b>cancer</b>: 0.80 to 0" in text
    assert "uint8" not in text


def test_a_long_graph_is_cut():
    order = np.triu(np.ones((20, 20), dtype=np.uint8), 1)[None]
    names = tuple(f"x{k}" for k in range(20))
    text = repr(Posterior(names, DrawnGraphs(order, np.ones(1))).top_graphs(1)[0])
    assert "190 arrows" in text
    assert text.endswith("and 150 more")


def test_the_summary_says_what_the_frame_says(fitted):
    text, frame = str(fitted.summary()), fitted.decided()
    for cause, effect, status in zip(frame["cause"], frame["effect"], frame["status"], strict=True):
        (line,) = [
            line
            for line in text.splitlines()
            if line.startswith((f"{cause} → {effect} ", f"{cause} — {effect} "))
        ]
        assert status in line
    assert "Mechanisms: linear." in text
    assert "Verdict: " in text
    counts = frame["status"].value_counts()
    assert f"{counts.get('favoured arrow', 0)} favoured" in text


def test_the_chosen_mechanism_and_its_margin_are_in_the_summary():
    example = svidag.datasets.synthetic(m=4, edges=4, n=150, seed=2)
    found = svidag.fit(example.data, bags=None, progress=False)
    margin = found.diagnostics.mechanism_margin
    other = found.diagnostics.mechanism_runner_up
    assert found.mechanism == "linear"
    assert other in ("flexible", "nonlinear")
    assert f"over {other} ones by {margin:,.1f} in log evidence" in found.summary().mechanism


def test_beyond_what_flexible_mechanisms_can_take_the_choice_is_over_nonlinear_ones():
    example = svidag.datasets.synthetic(m=31, edges=5, n=40, seed=2)
    problem = Problem.build(example.data, prior=None, standardise=True)
    found = integrate(problem, "auto", units=8, sketch_units=8, seed=0, notes={})
    assert (found.name, found.runner_up) == ("linear", "nonlinear")


def test_a_notebook_shows_no_markup_from_names(posterior):
    page = posterior._repr_html_()
    assert "<b>cancer" not in page
    assert "&lt;b&gt;cancer" in page
    assert page.count("<svg") == page.count("</svg>") == 1


def _effect(names):
    words = LevelWords((f"{names[0]}0", f"{names[0]}1"), "<i>yes</i>", 0.3)
    draws, structure = np.array([[0.1, 0.2], [0.0, 0.0], [0.3, 0.2]]), np.array([1, 0, 1])
    return Effect(names[2], names[1], 1.0, 0.0, {names[2]: 2.0}, 0.9, draws, structure, 0.0,
                  cautions=(f"{names[2]} is far out",), words=words)  # fmt: skip


READABLE = {
    "graph": lambda posterior: posterior.top_graphs(1)[0],
    "class": lambda posterior: posterior.top_classes(1)[0],
    "classes": lambda posterior: posterior.cpdag(),
    "consensus": lambda posterior: posterior.consensus(0.1),  # leaves out an arrow, for a cycle
    "comparison": lambda posterior: svidag.compare(
        posterior, Posterior(NAMES, DrawnGraphs(posterior.graphs.graphs[2:], np.ones(1)))
    ),
    "effect": lambda posterior: _effect(NAMES),
}


@pytest.mark.parametrize("kind", READABLE)
def test_a_notebook_shows_what_a_terminal_does_and_no_markup_from_names(posterior, kind):
    result = READABLE[kind](posterior)
    page = result._repr_html_()
    assert "&lt;b&gt;cancer&lt;/b&gt;" in page
    assert set(re.findall(r"</?(\w+)", page)) == {"div", "p", "ul", "li"}
    title, *lines = repr(result).split("\n  ")
    assert html.unescape(re.findall("<p>(.*?)</p>", page)[0]) == title
    assert [html.unescape(line) for line in re.findall("<li>(.*?)</li>", page)] == lines


def test_the_summary_of_a_mixture_lists_its_specifications():
    example = svidag.datasets.synthetic(m=3, edges=2, n=80, seed=2)
    mixed = svidag.fit(example.data, mechanism="linear", bags=2, progress=False)
    assert "mixture of 2 fits of 80 rows" in summarise(mixed).mechanism


def test_the_markov_blanket_has_causes_effects_and_partners():
    collider = np.stack([graph((0, 2), (1, 2)), graph((0, 1))])
    found = Posterior(NAMES, DrawnGraphs(collider, np.array([0.75, 0.25]))).markov_blanket("smoke")
    share = found.loc[NAMES[2], "effect"]
    assert share == pytest.approx(0.75, abs=0.03)
    assert found.loc["tar", "partner"] == share
    assert found.loc["tar", "effect"] == pytest.approx(1 - share)  # in the other graph
    assert (found.loc["tar", "in_blanket"], found.loc["tar", "cause"]) == (1, 0)
    with pytest.raises(ValueError, match=r"'tarr' is not a variable.*nearest column is 'tar'"):
        Posterior(NAMES, DrawnGraphs(collider, np.ones(2) / 2)).markov_blanket("tarr")
