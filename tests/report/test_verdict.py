"""Each reason can bring about each verdict it stands for, at its stated threshold."""

import dataclasses
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.data import DataWarning
from svidag.posterior import DrawnGraphs, Posterior
from svidag.report import Level, judge, verdict

TABLES = {
    "status": "converged", "settled": True, "outside": 0.0, "left_out": 0.0, "searched_again": 1,
    "searches_agree": True,
}  # fmt: skip
CHAINS = {"method": "svi-dag", "preset": "default", "mechanism": "linear", **TABLES}


@pytest.fixture(scope="module")
def exact():
    example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    return svidag.exact.posterior(example.data)


def with_facts(posterior, **facts):
    return dataclasses.replace(posterior, diagnostics=MappingProxyType(facts))


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
def test_halves_of_the_chains_decide(exact, difference, level):
    found = judge(with_facts(exact, **CHAINS, half_disagreement=difference))
    assert found.level is level


@pytest.mark.parametrize(
    ("facts", "level", "word"),
    [
        ({}, Level.TRUST, "a fresh one found no possible parents"),
        ({"settled": False}, Level.NOT, "arrows are missing"),
        ({"outside": 0.05}, Level.TRUST, "a fresh one found no possible parents"),
        ({"outside": 0.2}, Level.NOT, "up to 20%"),
        ({"searched_again": 0}, Level.NOT, "before a fresh search could look"),
        ({"searches_agree": False}, Level.NOT, "Only one of several independent searches"),
        ({"status": "time"}, Level.CAREFUL, "Time ran out"),
        ({"left_out": 0.05}, Level.TRUST, "a fresh one found no possible parents"),
        ({"left_out": 0.07}, Level.CAREFUL, "Up to 7%"),
    ],
)
def test_what_tables_may_lack_decides(exact, facts, level, word):
    found = judge(with_facts(exact, **{**CHAINS, "half_disagreement": 0.0, **facts}))
    assert found.level is level
    assert any(word in reason.text for reason in found.reasons)


def test_a_sum_over_all_orders_is_trusted_like_any_exact_posterior(exact):
    found = judge(svidag.fit(exact.problem.data, mechanism="linear", progress=False))
    assert found.level is Level.TRUST
    assert "nothing is sampled" in found.reasons[0].text


@pytest.mark.parametrize(
    ("ess", "level"), [(400, "trust"), (399, "be careful"), (99, "do not trust")]
)
def test_effective_draws_decide(exact, ess, level):
    facts = {**CHAINS, "half_disagreement": 0.0, "structure_ess": ess}
    assert judge(with_facts(exact, **facts)).level == level


def paper(exact, bound, rejected=0):
    trace = {"bound": np.asarray(bound, dtype=float)}
    return with_facts(
        exact,
        preset="paper",
        mechanism="mlp",
        steps=len(bound),
        trace=trace,
        rejected_steps=rejected,
    )


LEVELLED = -100 * np.exp(-np.arange(1000) / 50)


def test_the_published_preset_is_never_simply_trusted(exact):
    found = judge(paper(exact, LEVELLED))
    assert found.level is Level.CAREFUL
    assert any("levelled off" in reason.text for reason in found.reasons)


@pytest.mark.parametrize(("rejected", "level"), [(1, Level.CAREFUL), (51, Level.NOT)])
def test_rejected_steps_are_told(exact, rejected, level):
    found = judge(paper(exact, LEVELLED, rejected))
    assert found.level is level
    assert any(f"{rejected} of 1000 steps" in reason.text for reason in found.reasons)


def test_a_bound_that_still_rises_is_told(exact):
    found = judge(paper(exact, np.linspace(-100, 0, 1000)))
    assert any("still rising" in reason.text for reason in found.reasons)


@pytest.mark.parametrize("bound", [-LEVELLED, np.full(1000, np.nan), np.zeros(5)])
def test_a_bound_that_taught_nothing_is_not_trusted(exact, bound):
    assert judge(paper(exact, bound)).level is Level.NOT


def test_a_close_choice_of_mechanism_calls_for_care(exact):
    facts = {**CHAINS, "half_disagreement": 0.0}
    assert judge(with_facts(exact, **facts, mechanism_margin=2.9)).level is Level.CAREFUL
    assert judge(with_facts(exact, **facts, mechanism_margin=3.1)).level is Level.TRUST


def test_unknown_origin_calls_for_care():
    graphs = np.zeros((1, 2, 2), dtype=np.uint8)
    found = judge(Posterior(("a", "b"), DrawnGraphs(graphs, np.ones(1))))
    assert found.level is Level.CAREFUL
    assert [reason.text.split(",")[0] for reason in found.reasons] == [
        "Nothing is recorded about how these graphs were computed.",
        "The data are not at hand",
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
    other = with_facts(posterior, **{**CHAINS, "mechanism": "nonlinear"}, half_disagreement=0.0)
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


def test_few_effective_orders_call_for_care(exact):
    facts = {**CHAINS, "half_disagreement": 0.0}
    assert judge(with_facts(exact, **facts, effective_orders=99.0)).level is Level.CAREFUL
    assert judge(with_facts(exact, **facts, effective_orders=100.0)).level is Level.TRUST


def test_the_worst_reason_comes_first_and_decides(exact):
    found = judge(with_facts(exact, half_disagreement=0.5, **TABLES))
    assert found.level is Level.NOT
    assert [reason.level for reason in found.reasons] == [Level.NOT, Level.TRUST]


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
        (3.0, 0.1, Level.CAREFUL, "3.0 nats"),
        (0.2, 9.0, Level.CAREFUL, "shun"),
        (float("nan"), 0.1, Level.CAREFUL, "stick"),
        (None, None, Level.CAREFUL, "not corrected"),
    ],
)
def test_guides_are_judged_by_what_they_know(exact, spread, missing, level, word):
    facts = {"method": "svi-dag", "preset": "default", "mechanism": "linear"}
    facts |= {"half_disagreement": 0.0, "estimate_spread": spread, "kept_missing": missing}
    found = judge(with_facts(exact, **facts))
    assert found.level is level
    assert any(word in reason.text for reason in found.reasons)
