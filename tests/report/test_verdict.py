"""Each reason can bring about each verdict it stands for, at its stated threshold."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.data import DataWarning
from svidag.methods.chain_diagnostics import ChainDiagnostics, chain_values, judge_chains
from svidag.methods.gradient_diagnostics import GradientDiagnostics
from svidag.methods.search_diagnostics import SearchDiagnostics, judge_search
from svidag.methods.svi_dag_chains import GuideDiagnostics, _judge_guide
from svidag.methods.svi_dag_particles import _judge as judge_published
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior.diagnostics import Level, Reason
from svidag.posterior.fit_check import FitCheck
from svidag.posterior.sensitivity import Sensitivity
from svidag.posterior.structure_weights import _judge as judge_weights
from svidag.report import judge, verdict
from svidag.run.status import Status

ORDERS = np.tile(np.arange(4), (2, 5, 1))
CHAINS = {
    **chain_values(np.zeros((2, 4, 4)), ORDERS, np.zeros((2, 5))), "half_disagreement": 0.0,
    "effective_orders": 1000.0,
}  # fmt: skip
SEARCH = {
    **CHAINS, "sweeps": 10, "moved": np.ones(2), "exchanged": np.ones(1), "scored_sets": 32,
    "listed_sets": 32, "table_bytes": 1, "candidates": (3, 3, 3, 3), "left_out": 0.0,
    "missed": (0.0, 0.0), "search_gaps": (0.0, 0.0), "searches_agree": True, "searched_again": 1,
    "outside": 0.0, "growth_ended": True, "sketched_share": 0.0, "rounds": (),
}  # fmt: skip
GUIDE = {
    **CHAINS, "sweeps": 10, "accepted": np.ones(2), "graphs": 10, "kept_sets": 32,
    "scored_sets": None, "estimate_spread": 0.2, "kept_share": 1.0, "kept_missing": 0.1,
    "bound_trace": np.zeros(3),
}  # fmt: skip


@pytest.fixture(scope="module")
def exact():
    example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    return svidag.exact.posterior(example.data)


def with_facts(posterior, **facts):
    changed = dataclasses.replace(posterior.diagnostics, **facts)
    return dataclasses.replace(posterior, diagnostics=changed)


def with_reasons(posterior, *reasons):
    return with_facts(posterior, reasons=reasons)


def worst(reasons):
    return max((reason.level for reason in reasons), key=verdict.SEVERITY.index)


def of_chains(status=Status.CONVERGED, **changes):
    return list(judge_chains(ChainDiagnostics(**{**CHAINS, **changes}), status, budget="orders"))


def test_an_exact_posterior_is_trusted_and_its_assumptions_are_told(exact):
    found = judge(exact)
    assert found.level is Level.TRUST
    assert "assumptions" in found.headline
    assert any("linear" in text for text in found.assumptions)
    assert any("common cause" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("difference", "level"),
    [
        (0.05, Level.TRUST),
        (0.051, Level.CAREFUL),
        (0.15, Level.CAREFUL),
        (0.151, Level.NOT),
        (float("nan"), Level.CAREFUL),
    ],
)
def test_halves_of_the_chains_decide(difference, level):
    (only,) = of_chains(half_disagreement=difference)
    assert only.level is level
    assert "single chain" in only.text if np.isnan(difference) else f"{difference:.3f}" in only.text


@pytest.mark.parametrize(
    ("facts", "level", "word"),
    [
        ({}, Level.TRUST, "a fresh one found no possible parents"),
        ({"growth_ended": False}, Level.NOT, "arrows may be missing"),
        ({"outside": 0.05}, Level.TRUST, "a fresh one found no possible parents"),
        ({"outside": 0.2}, Level.NOT, "up to 20%"),
        ({"searched_again": 0}, Level.NOT, "before a fresh search could look"),
        ({"searches_agree": False}, Level.NOT, "Only one of several independent searches"),
        ({"left_out": 0.05}, Level.TRUST, "a fresh one found no possible parents"),
        ({"left_out": 0.07}, Level.CAREFUL, "Up to 7%"),
    ],
)
def test_what_tables_may_lack_decides(facts, level, word):
    found = list(judge_search(SearchDiagnostics(**{**SEARCH, **facts})))
    assert worst(found) is level
    assert any(word in reason.text for reason in found)


@pytest.mark.parametrize("status", Status)
def test_chains_that_were_cut_short_call_for_care(status):
    found = of_chains(status)
    over = status is Status.TIME
    assert worst(found) is (Level.CAREFUL if over else Level.TRUST)
    assert any("The time was over" in reason.text for reason in found) == over


def test_a_sum_over_all_orders_is_trusted_like_any_exact_posterior(exact):
    found = judge(svidag.fit(exact.problem.data, mechanism="linear", progress=False))
    assert found.level is Level.TRUST
    assert "nothing is sampled" in found.reasons[0].text


@pytest.mark.parametrize(
    ("effective", "level"),
    [
        (400, Level.TRUST),
        (399, Level.CAREFUL),
        (100, Level.CAREFUL),
        (99, Level.NOT),
    ],
)
def test_effective_draws_decide(effective, level):
    found = judge_weights(float(effective))
    assert found.level is level
    assert f"leaves {effective} effective draws" in found.text


def of_published(bound, rejected=0):
    trace = {"bound": np.asarray(bound, dtype=float)}
    steps = len(trace["bound"])
    return list(judge_published(GradientDiagnostics(steps, rejected, 1.0, 1.0, trace)))


LEVELLED = -100 * np.exp(-np.arange(1000) / 50)


def test_algorithm_1_is_never_simply_trusted():
    found = of_published(LEVELLED)
    assert worst(found) is Level.CAREFUL
    assert any("levelled off" in reason.text for reason in found)


@pytest.mark.parametrize(
    ("rejected", "level"), [(1, Level.CAREFUL), (50, Level.CAREFUL), (51, Level.NOT)]
)
def test_rejected_steps_are_told(rejected, level):
    found = of_published(LEVELLED, rejected)
    (reason,) = [reason for reason in found if f"{rejected} of 1000 steps" in reason.text]
    assert reason.level is worst(found) is level


def test_a_bound_that_still_rises_is_told():
    found = of_published(np.linspace(-100, 0, 1000))
    (reason,) = [reason for reason in found if "still rising" in reason.text]
    assert reason.level is Level.CAREFUL
    assert "by 10.0 in the last tenth" in reason.text


@pytest.mark.parametrize(
    ("bound", "word"),
    [
        (-LEVELLED, "did not rise"),
        (np.full(1000, np.nan), "did not rise"),
        (np.zeros(5), "5 steps are too few"),
        (np.linspace(-100, 0, 19), "19 steps are too few"),
    ],
)
def test_a_bound_that_taught_nothing_is_not_trusted(bound, word):
    found = of_published(bound)
    (reason,) = [reason for reason in found if reason.level is Level.NOT]
    assert word in reason.text


def test_a_close_choice_of_mechanism_calls_for_care(exact):
    close = judge(with_facts(exact, mechanism_margin=2.9, mechanism_runner_up="nonlinear"))
    assert close.level is Level.CAREFUL
    assert "Linear and nonlinear mechanisms explain" in close.reasons[0].text
    assert "linear was chosen" in close.reasons[0].text
    assert judge(with_facts(exact, mechanism_margin=3.1)).level is Level.TRUST


def test_unknown_origin_calls_for_care():
    graphs = np.zeros((1, 2, 2), dtype=np.uint8)
    found = judge(Posterior(("a", "b"), DrawnGraphs(graphs, np.ones(1))))
    assert found.level is Level.CAREFUL
    assert [reason.text.split(",")[0] for reason in found.reasons] == [
        "Nothing is recorded about how these graphs were computed.",
        "This posterior does not carry its data",
    ]


def judged(frame, **options):
    with pytest.warns(DataWarning):
        return judge(svidag.exact.posterior(frame, **options))


@pytest.fixture
def table():
    values = np.random.default_rng(0).standard_normal((300, 4))
    return pd.DataFrame(values, columns=list("abcd"))


def test_skewed_columns_call_for_care_and_are_gathered(table):
    one = judged(table.assign(a=np.exp(2 * table["a"])))
    assert one.level is Level.CAREFUL
    assert "column 'a' is heavily skewed" in one.reasons[0].text.lower()
    all_four = judged(np.exp(2 * table))
    skewed = [reason for reason in all_four.reasons if "skewed" in reason.text]
    assert len(skewed) == 1
    assert "4 columns" in skewed[0].text


def test_near_copies_call_for_care(table):
    assert judged(table.assign(d=table["a"] + 1e-3 * table["d"])).level is Level.CAREFUL


def test_units_matter_only_without_standardising(table):
    frame = table.assign(a=100 * table["a"])
    assert judge(svidag.exact.posterior(frame)).level is Level.TRUST
    assert judged(frame, standardise=False).level is Level.CAREFUL


def test_two_values_call_for_care(table):
    found = judge(svidag.exact.posterior(table.assign(a=(table["a"] > 0).astype(float))))
    assert found.level is Level.CAREFUL
    assert "‘a’" in found.reasons[0].text


def test_noise_that_is_not_gaussian_calls_for_care(table):
    rng = np.random.default_rng(1)
    heavy = table.assign(b=table["a"] + rng.standard_t(3, size=300))
    found = judge(svidag.exact.posterior(heavy))
    assert found.level is Level.CAREFUL
    assert "noise of ‘b’" in found.reasons[0].text


def test_noise_around_a_curve_is_judged_by_its_equations(table):
    rng = np.random.default_rng(1)
    curve = table[["a", "c"]].assign(b=2 * np.tanh(2 * table["a"]) + 0.3 * table["b"])
    assert judge(svidag.exact.posterior(curve, mechanism="nonlinear")).level is Level.TRUST
    heavy = curve.assign(b=curve["b"] + 0.3 * rng.standard_t(2, size=300))
    found = judge(svidag.exact.posterior(heavy, mechanism="nonlinear"))
    assert any("noise of ‘b’" in reason.text for reason in found.reasons)


def test_a_bent_relation_calls_for_care_of_linear_mechanisms_only(table):
    posterior = svidag.exact.posterior(table.assign(b=table["b"] + table["a"] + table["a"] ** 2))
    assert any("‘b’" in r.text and "straight" in r.text for r in judge(posterior).reasons)
    other = with_facts(posterior, mechanism="nonlinear")
    assert not any("straight" in reason.text for reason in judge(other).reasons)


@pytest.mark.parametrize("seed", range(8))
def test_linear_gaussian_data_are_not_suspected(seed):
    example = svidag.datasets.synthetic(m=6, edges=8, n=200, seed=seed)
    assert judge(svidag.exact.posterior(example.data)).level is Level.TRUST


@pytest.mark.parametrize("knowledge", [{"required": [("a", "b")]}, {"forbidden": [("b", "a")]}])
def test_broken_knowledge_is_not_trusted(table, knowledge):
    posterior = svidag.exact.posterior(table, prior=svidag.Prior(**knowledge))
    assert judge(posterior).level is Level.TRUST
    backward = np.zeros((1, 4, 4), dtype=np.uint8)
    backward[0, 1, 0] = 1
    broken = dataclasses.replace(posterior, graphs=DrawnGraphs(backward, np.ones(1)))
    assert judge(broken).level is Level.NOT
    assert "the fit is wrong" in judge(broken).reasons[0].text


def test_few_effective_orders_call_for_care():
    few = of_chains(effective_orders=99.0)
    assert worst(few) is Level.CAREFUL
    assert any("worth 99 independent orders" in reason.text for reason in few)
    assert worst(of_chains(effective_orders=100.0)) is Level.TRUST


def test_every_reason_of_the_fit_counts_and_the_worst_comes_first(exact):
    reasons = [Reason(level, f"this is: {level}") for level in Level]
    for reason in reasons:
        found = judge(with_reasons(exact, reason))
        assert found.level is reason.level
        assert reason in found.reasons
    found = judge(with_reasons(exact, *reasons))
    assert found.level is Level.NOT
    assert found.reasons == tuple(reversed(reasons))
    assert "not the posterior" in found.headline


def test_what_the_fit_says_does_not_hide_what_the_data_say(table):
    posterior = svidag.exact.posterior(table.assign(a=(table["a"] > 0).astype(float)))
    found = judge(with_reasons(posterior, Reason(Level.NOT, "the chains disagree")))
    assert [reason.level for reason in found.reasons] == [Level.NOT, Level.CAREFUL]
    assert "‘a’" in found.reasons[1].text


def test_interventions_add_their_assumption():
    example = svidag.datasets.synthetic(m=3, edges=2, n=50, seed=1)
    mask = np.zeros((50, 3), dtype=bool)
    mask[:10, 0] = True
    found = judge(svidag.exact.posterior(example.data, interventions=mask))
    assert any("intervention" in text for text in found.assumptions)


def test_many_names_are_cut():
    assert verdict._some("abcdef") == "‘a’, ‘b’, ‘c’, ‘d’ and 2 more"


@pytest.mark.parametrize(
    ("spread", "missing", "level", "word"),
    [
        (0.2, 0.1, Level.TRUST, "well enough"),
        (1.5, 2.0, Level.TRUST, "well enough"),
        (3.0, 0.1, Level.CAREFUL, "a standard deviation of 3.0"),
        (0.2, 9.0, Level.CAREFUL, "lack up to 9.0"),
        (float("nan"), 0.1, Level.CAREFUL, "hardly move"),
        (None, None, Level.CAREFUL, "not corrected"),
    ],
)
def test_guides_are_judged_by_what_they_know(spread, missing, level, word):
    facts = {**GUIDE, "estimate_spread": spread, "kept_missing": missing}
    (only,) = _judge_guide(GuideDiagnostics(**facts))
    assert only.level is level
    assert word in only.text


def test_a_guide_that_is_noisy_and_lacks_evidence_has_two_reasons():
    facts = {**GUIDE, "estimate_spread": 3.0, "kept_missing": 9.0}
    found = list(_judge_guide(GuideDiagnostics(**facts)))
    assert [reason.level for reason in found] == [Level.CAREFUL, Level.CAREFUL]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (FitCheck(1e-6, ("x1", "x3"), 0.2, 0.5, 0.0), "‘x1’ and ‘x3’ may have a common cause"),
        (FitCheck(0.5, ("x1", "x3"), 0.0, 1e-9, 0.5), "fewer independent ones (33 of 100)"),
    ],
)
def test_residuals_hint_at_hidden_causes_and_dependent_rows(exact, check, words):
    edges = exact.graphs.edge_probabilities()
    found = Sensitivity(exact.names, edges, (), (), np.zeros((0, 4, 4)), check=check)
    judged = judge(with_facts(exact, sensitivity=found))
    assert judged.level is Level.CAREFUL
    assert sum(words in reason.text for reason in judged.reasons) == 1
    passed = dataclasses.replace(check, p_value=0.5, neighbour_p_value=0.5)
    calm = judge(with_facts(exact, sensitivity=dataclasses.replace(found, check=passed)))
    assert not any("A hint" in reason.text for reason in calm.reasons)
