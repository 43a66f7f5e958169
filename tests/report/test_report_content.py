"""The report as data and as text: what is believed, measured, recorded; and that it escapes."""

import dataclasses
import importlib
import json
import re

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.methods import SVIDAG, OrderMCMC, PublishedSVIDAG
from svidag.methods.gradient_diagnostics import GradientDiagnostics
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior.diagnostics import Details, diagnostic
from svidag.report import sections
from svidag.report.content import content
from svidag.report.render import embedded, render
from svidag.run.status import Status


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(0)
    a = 10 + 3 * rng.standard_normal(300)
    b = a + rng.standard_normal(300)
    c = rng.standard_normal(300)
    mask = np.zeros((300, 3), dtype=bool)
    mask[:50, 2] = True
    prior = svidag.Prior(
        beliefs={("a", "c"): 0.95, ("c", "b"): 0.02}, required=[("a", "b")], forbidden=[("b", "c")]
    )
    frame = pd.DataFrame({"a": a, "b": b, "c": c})
    return svidag.exact.posterior(frame, prior=prior, interventions=mask)


def with_facts(posterior, **facts):
    changed = dataclasses.replace(posterior.diagnostics, **facts)
    return dataclasses.replace(posterior, diagnostics=changed)


def test_beliefs_are_set_against_the_prior_of_the_arrow(posterior):
    found = sections.beliefs(posterior)
    assert found is not None
    assert found.required == ((0, 1),)
    assert found.forbidden == ((1, 2),)
    rows = {(row.cause, row.effect): row for row in found.changes}
    assert (0, 1) not in rows  # certain before and after
    believed = rows[0, 2]
    assert believed.stated == 0.95
    prior = posterior.problem.prior.edge_probabilities().loc["a", "c"]
    assert believed.prior == pytest.approx(prior)
    assert believed.posterior == pytest.approx(posterior.edge_probabilities().loc["a", "c"])
    assert believed.contradicts
    assert not rows[2, 1].contradicts
    assert set(rows) == {(0, 2), (2, 1)}  # what was stated, and no more
    sizes = [abs(row.change) for row in found.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_the_data_are_shown_in_their_own_units(posterior):
    found = sections.data(posterior)
    assert found is not None
    a, _, c = found.columns
    assert a.mean == pytest.approx(10, abs=0.5)
    assert a.deviation == pytest.approx(3, abs=0.3)
    assert (a.intervened, c.intervened) == (0, 50)
    assert max(c.bars) == 1


def test_graphs_are_compared_with_the_first(posterior):
    first, second, *_ = sections.graphs(posterior)
    assert first.probability >= second.probability
    assert not first.gained
    assert not first.lost
    lost, gained = ({(i, j) for i, j, _ in marks} for marks in (second.lost, second.gained))
    assert set(first.arrows) - set(second.arrows) == lost
    assert set(second.arrows) - set(first.arrows) == gained


def test_a_class_has_links_once():
    graphs = np.array([[[0, 1], [0, 0]]], dtype=np.uint8)
    (only,) = sections.classes(Posterior(("a", "b"), DrawnGraphs(graphs, np.ones(1))))
    assert only.links == ((0, 1),)
    assert only.arrows == ()


def test_traces_become_lines(posterior):
    trace = {
        "bound": np.arange(1000.0),
        "edges": np.array([1.0, np.nan, 3.0]),
        "empty": np.zeros(0),
    }
    details = GradientDiagnostics(1000, 0, 1.0, 1.0, trace)
    bound, edges = sections.charts(with_facts(posterior, details=details))
    assert bound.name == "Bound (ELBO)"
    assert bound.lines[0][0] == (0.0, 0.0)
    assert bound.lines[0][-1] == (1.0, 1.0)
    assert len(bound.lines[0]) <= sections.POINTS
    assert edges.lines == (((0.0, 0.0), (1.0, 1.0)),)


@dataclasses.dataclass(frozen=True, eq=False)
class TwoChains(Details):
    evidence: np.ndarray = diagnostic("Log evidence", trace=True)
    nothing: np.ndarray | None = diagnostic("Not traced here", trace=True)


def test_every_chain_of_a_trace_has_a_line_on_one_scale(posterior):
    details = TwoChains(np.array([[0.0, 1.0], [0.5, 2.0]]), None)
    (evidence,) = sections.charts(with_facts(posterior, details=details))
    assert evidence.name == "Log evidence"
    assert evidence.lines == (((0.0, 0.0), (1.0, 0.5)), ((0.0, 0.25), (1.0, 1.0)))
    assert (evidence.low, evidence.high, evidence.last) == (0.0, 2.0, 1.5)


def test_provenance_names_seed_settings_and_checksum(posterior):
    fingerprint = {"svidag": "0.1", "seed": 7, "prior": "beef"}
    reported = with_facts(posterior, fingerprint=fingerprint, settings={"orders": 3})
    rows = dict(sections.provenance(reported))
    assert rows["Fitted by svidag"] == "0.1"
    assert rows["Seed"] == "7"
    assert rows["Data, SHA-256"] == posterior.problem.original_checksum
    assert rows["Setting: orders"] == "3"
    assert rows["Beliefs, SHA-256"] == "beef"


def test_the_page_is_one_deterministic_file_without_addresses(posterior, tmp_path):
    path = posterior.report(tmp_path / "report.html")
    assert [path] == list(tmp_path.iterdir())
    text = path.read_text(encoding="utf-8")
    assert text == render(content(posterior))
    assert set(re.findall(r"(?:src|href)\s*=\s*[\"']?(.)", text)) <= {"#", "d"}
    assert text.count('href="data:,"') == len(re.findall(r"(?:src|href)=.d", text))
    namespaces = {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= namespaces
    assert "default-src 'none'" in text.replace("&#39;", "'")


def test_embedded_data_cannot_leave_their_element():
    hostile = "</script><!--\u2028\u2029&amp;\ud800"
    text = embedded({"name": hostile})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["name"] == hostile


@pytest.mark.parametrize(
    ("path", "message"),
    [("x.txt", "must end in .html"), ("dir.html", "is a directory")],
)
def test_a_bad_path_is_told(posterior, tmp_path, path, message):
    (tmp_path / "dir.html").mkdir()
    with pytest.raises(ValueError, match=message):
        posterior.report(tmp_path / path)


def test_a_failed_report_leaves_the_old_one(posterior, tmp_path, monkeypatch):
    path = posterior.report(tmp_path / "report.html")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr("svidag.atomic.os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        posterior.report(path)
    assert path.read_bytes() == before
    assert [path] == list(tmp_path.iterdir())


def test_a_saved_posterior_gives_the_same_report(posterior, tmp_path):
    posterior.save(tmp_path / "run.svidag")
    again = svidag.load(tmp_path / "run.svidag")
    before = posterior.report(tmp_path / "before.html").read_bytes()
    assert again.report(tmp_path / "new" / "after.html").read_bytes() == before


def test_a_posterior_without_its_problem_is_reported(posterior, tmp_path):
    bare = Posterior(posterior.names, posterior.graphs)
    text = bare.report(tmp_path / "bare.html").read_text(encoding="utf-8")
    assert "Be careful" in text
    assert 'id="beliefs"' not in text
    assert 'id="data"' not in text


QUICK_GUIDE = SVIDAG(chains=2, iterations=4, covering=2, rounds=4, check_every=2, sweeps=2)
QUICK_NETWORKS = PublishedSVIDAG(iterations=3, guide="mean-field", hidden=(4,), hyper=(4,))
CHAIN_TRACE, GUIDE_TRACE = (
    "Log evidence of the orders, by chain",
    "Bound while the guide was trained",
)


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")
@pytest.mark.parametrize(
    ("method", "charts"),
    [
        (OrderMCMC(), []),
        (OrderMCMC(exact=False, orders=20, chains=2), [CHAIN_TRACE]),
        (QUICK_GUIDE, [CHAIN_TRACE, GUIDE_TRACE]),
        (QUICK_NETWORKS, ["Bound (ELBO)"]),
    ],
    ids=["all orders", "orders", "guide", "published"],
)
def test_every_diagnostic_of_a_fit_is_in_plain_words(method, charts):
    x = np.random.default_rng(0).standard_normal((40, 3))
    fitted = svidag.fit(x, method=method, progress=False)
    rows = sections.diagnostics(fitted)
    shown = dict(rows)
    assert len(shown) == len(rows)  # no label stands for two things
    assert shown["Method"] == method.name
    assert shown["How the fit ended"] in {status.description for status in Status}
    assert "–" not in shown.values()  # what is not there is left out
    details = fitted.diagnostics.details
    for field in () if details is None else dataclasses.fields(details):
        there = getattr(details, field.name) is not None
        assert (field.metadata["label"] in shown) == (there and not field.metadata["trace"])
    names = [chart.name for chart in sections.charts(fitted)]
    assert set(charts) <= set(names)
    assert not any("_" in text for text in [*shown, *names])  # words, not names of variables
    if details is None:
        assert names == []


def test_with_very_many_variables_the_page_has_no_table_of_all_pairs(
    posterior, tmp_path, monkeypatch
):
    for module in ("content", "effects"):
        found = importlib.import_module(f"svidag.report.{module}")
        monkeypatch.setattr(found, "MOST_VARIABLES", len(posterior.names) - 1)
    page = posterior.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'class="matrix' not in page
    assert "would be too large for a page" in page
    assert '"effects":null' in page
