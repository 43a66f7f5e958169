"""Prior: the numbers it binds to, and every contradiction it refuses."""

import pickle
import re
import time

import numpy as np
import pandas as pd
import pytest

from svidag.prior import BeliefWarning, EdgePrior, Prior

NAMES = ("a", "b", "c", "d")


def frame(values: list[list[float]], names: str = "abc") -> pd.DataFrame:
    return pd.DataFrame(values, index=list(names), columns=list(names))


# Numbers


def test_base_belief_gives_the_expected_number_of_parents():
    assert Prior().base_belief(21) == pytest.approx(0.04)
    assert Prior(expected_parents=3).base_belief(21) == pytest.approx(0.3)
    assert Prior(expected_parents=1).base_belief(3) == 0.5
    assert Prior().base_belief(1) == 0.5
    assert Prior(p=0.2).base_belief(21) == 0.2


def test_paper_rule_on_every_pair():
    edges = Prior(p=0.2, shrink_to=0.5).bind(NAMES)
    nu = 1 + 500 * 0.3**2
    off = ~np.eye(4, dtype=bool)
    assert edges.names == NAMES
    assert np.allclose(edges.concentration, nu)
    assert np.allclose(edges.alpha, nu * 0.2 + 1)
    assert np.allclose(edges.beta, nu * 0.8 + 1)
    assert np.array_equal(edges.allowed, off)
    assert not edges.required.any()
    assert np.allclose(edges.marginal, np.where(off, (nu * 0.2 + 1) / (nu + 2), 0))
    assert np.allclose(edges.logit[off], np.log(edges.alpha / edges.beta)[off])
    assert (edges.logit[~off] == -np.inf).all()


def test_beliefs_override_single_pairs_from_cause_to_effect():
    edges = Prior(p=0.2, beliefs={("a", "b"): 0.9}).bind(NAMES)
    assert edges.belief[0, 1] == 0.9
    assert edges.belief[1, 0] == 0.2
    assert edges.concentration[0, 1] == pytest.approx(1 + 500 * 0.4**2)


def test_one_confidence_is_that_of_the_beliefs_and_not_of_the_base():
    edges = Prior(p=0.2, beliefs={("a", "b"): 0.9}, confidence=7).bind(NAMES)
    assert edges.concentration[0, 1] == 7
    assert edges.concentration[1, 0] == pytest.approx(46)


def test_without_beliefs_confidence_is_that_of_the_base():
    edges = Prior(p=0.05, confidence=1, shrink_to=0.5).bind(NAMES)
    assert edges.marginal[0, 1] == pytest.approx(0.35)


@pytest.mark.parametrize("m", [2, 11, 1000])
def test_pairs_without_a_statement_have_the_base_belief_at_any_size(m):
    prior = Prior()
    edges = prior.bind([f"v{k}" for k in range(m)])
    assert edges.marginal[0, 1] == pytest.approx(prior.base_belief(m))


def test_low_confidence_pulls_to_the_base():
    prior = Prior(p=0.1, beliefs={("a", "b"): 0.9, ("b", "c"): 0.02}, confidence=1)
    marginal = prior.bind(NAMES).marginal
    assert marginal[0, 1] == pytest.approx((0.9 + 2 * 0.1) / 3)
    assert marginal[1, 2] == pytest.approx((0.02 + 2 * 0.1) / 3)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_base_belief_of_none_or_all_stays_soft(p):
    marginal = Prior(p=p).bind(NAMES).marginal[0, 1]
    assert 0 < marginal < 1
    assert marginal == pytest.approx(p, abs=1e-4)


def test_confidence_of_each_belief():
    beliefs = {("a", "b"): 0.9, ("b", "c"): 0.9}
    edges = Prior(p=0.2, beliefs=beliefs, confidence={("a", "b"): 3}).bind(NAMES)
    assert edges.concentration[0, 1] == 3
    assert edges.concentration[1, 2] == pytest.approx(81)


def test_shrink_to_moves_what_low_confidence_means():
    edges = Prior(p=0.05, confidence=1, shrink_to=0.05).bind(NAMES)
    assert edges.alpha[0, 1] == pytest.approx(0.05 + 0.1)
    assert edges.beta[0, 1] == pytest.approx(0.95 + 1.9)
    assert edges.marginal[0, 1] == pytest.approx(0.05)


def test_constants_of_the_rule_are_settings():
    assert Prior(p=0.0, nu_min=2, kappa=8, eta=3).bind(NAMES).concentration[0, 1] == 3.0


def test_beliefs_of_zero_and_one_stay_soft():
    edges = Prior(p=0.0, beliefs={("a", "b"): 1}, shrink_to=0.5).bind(NAMES)
    assert edges.marginal[0, 1] == pytest.approx(127 / 128)
    assert edges.marginal[1, 0] == pytest.approx(1 / 128)


def test_a_frame_states_its_cells_and_only_those():
    nan = np.nan
    beliefs = frame([[0, 0.9, nan], [nan, nan, 0.3], [nan, nan, 0]])
    prior = Prior(beliefs=beliefs, confidence=frame([[nan, 4, nan], [nan] * 3, [nan] * 3]))
    assert prior.beliefs == {("a", "b"): 0.9, ("b", "c"): 0.3}
    assert prior.confidence == {("a", "b"): 4.0}


def test_hard_knowledge_becomes_masks():
    edges = Prior(
        required=[("a", "b")], forbidden=[("c", "d")], tiers=[["a"], ["b", "c"]], closed_tiers=[1]
    ).bind(NAMES)
    deleted = {("c", "d"), ("b", "a"), ("c", "a"), ("b", "c"), ("c", "b")}
    for i, cause in enumerate(NAMES):
        for j, effect in enumerate(NAMES):
            assert edges.allowed[i, j] == (i != j and (cause, effect) not in deleted)
    assert np.argwhere(edges.required).tolist() == [[0, 1]]
    assert edges.marginal[1, 0] == 0
    assert edges.marginal[0, 1] > 0
    assert np.array_equal(edges.free, edges.allowed & ~edges.required)


def test_search_space_deletes_all_other_pairs():
    edges = Prior(search_space=[("a", "b"), ("c", "a")]).bind(NAMES)
    assert np.argwhere(edges.allowed).tolist() == [[0, 1], [2, 0]]


def test_column_order_does_not_change_what_is_believed():
    prior = Prior(beliefs={("a", "b"): 0.9}, required=[("c", "b")], tiers=[["a"], ["d"]])
    one, other = prior.bind(NAMES), prior.bind(NAMES[::-1])
    for name in ("alpha", "beta", "allowed", "required", "marginal"):
        assert np.array_equal(getattr(one, name), getattr(other, name)[::-1, ::-1])


def test_one_column_has_no_edges():
    edges = Prior().bind(["a"])
    assert edges.marginal.tolist() == [[0.0]]
    assert edges.sample(3).shape == (3, 1, 1)


def test_matrices_cannot_be_changed():
    edges = Prior(required=[("a", "b")]).bind(NAMES)
    for name in ("belief", "concentration", "alpha", "beta", "allowed", "required"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(edges, name)[0, 0] = 1


def test_priors_pickle_and_compare():
    prior = Prior(p=0.2, beliefs={("a", "b"): 0.9}, tiers=[{"b", "a"}])
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert prior != Prior(p=0.2)
    assert prior.tiers == (("a", "b"),)


def test_iterators_are_read_once_and_repeats_dropped():
    prior = Prior(required=iter([["a", "b"], ("a", "b")]), forbidden={("d", "c"), ("b", "a")})
    assert prior.required == (("a", "b"),)
    assert prior.forbidden == (("b", "a"), ("d", "c"))


# Contradictions

CONTRADICTIONS = [
    (
        {"required": [("a", "b")], "forbidden": [("a", "b")]},
        "required lists 'a' → 'b', but forbidden lists it",
    ),
    ({"required": [("b", "a"), ("a", "b")]}, "cycle: 'a' → 'b' → 'a'"),
    ({"required": [("c", "a"), ("a", "b"), ("b", "c")]}, "cycle: 'a' → 'b' → 'c' → 'a'"),
    (
        {"required": [("b", "a")], "tiers": [["a"], ["b"]]},
        "required lists 'b' → 'a', but 'b' is in tiers[1], later than 'a' in tiers[0]",
    ),
    (
        {"required": [("b", "a")], "tiers": [["a", "b"]], "closed_tiers": [0]},
        "both are in tiers[0], which is closed",
    ),
    (
        {"required": [("b", "a")], "search_space": [("a", "b")]},
        "required lists 'b' → 'a', but search_space does not list it",
    ),
    ({"required": [("a", "a")]}, "required[0] is 'a' → 'a': a variable cannot cause itself"),
    ({"forbidden": [("a", "b"), ("c", "c")]}, "forbidden[1] is 'c' → 'c'"),
    ({"beliefs": {("a", "a"): 0.1}}, "'a' → 'a': a variable cannot cause itself"),
    ({"tiers": [["a", "b"], ["c"], ["b"]]}, "'b' is in tiers[0] and in tiers[2]"),
    (
        {"beliefs": {("a", "b"): 0.9}, "forbidden": [("a", "b")]},
        "beliefs give 'a' → 'b' 0.9, but forbidden lists it",
    ),
    (
        {"beliefs": {("b", "a"): 0.9}, "tiers": [["a"], ["b"]]},
        "beliefs give 'b' → 'a' 0.9, but 'b' is in tiers[1]",
    ),
    (
        {"beliefs": {("a", "b"): 0.1}, "required": [("a", "b")]},
        "beliefs give 'a' → 'b' 0.1, but required lists it",
    ),
    ({"p": 0.2, "expected_parents": 2}, "p and expected_parents both set the base belief"),
    ({"confidence": 5}, "neither p nor beliefs state anything"),
    (
        {"beliefs": {("a", "b"): 0.9}, "confidence": {("b", "a"): 5}},
        "confidence is given for 'b' → 'a', but no belief is",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), CONTRADICTIONS)
def test_contradictions_name_the_clashing_entries(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Prior(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 1.01}, "p must be a finite number between 0 and 1, got 1.01"),
        ({"p": float("nan")}, "p must be a finite number between 0 and 1, got nan"),
        ({"p": "half"}, "p must be a finite number between 0 and 1, got 'half'"),
        ({"p": True}, "got True"),
        ({"beliefs": {("a", "b"): -0.1}}, "beliefs['a' → 'b'] must be a finite number between"),
        ({"beliefs": {("a", "b"): np.nan}}, "beliefs['a' → 'b']"),
        ({"beliefs": {("a", "b"): None}}, "got None"),
        ({"beliefs": {"ab": 0.5}}, "a key of beliefs must be a pair (cause, effect), got 'ab'"),
        ({"beliefs": {("a", 1): 0.5}}, "must be a variable name, which is text; got 1"),
        ({"beliefs": [("a", "b")]}, "beliefs must map pairs"),
        ({"beliefs": frame([[0] * 3] * 3).rename_axis(index="effect")}, "transpose it"),
        ({"beliefs": frame([[0] * 3] * 3, "aba")}, "lists 'a' twice"),
        ({"beliefs": frame([[0.1, 0, 0]] * 3)}, "'a' → 'a'"),
        ({"p": 0.5, "confidence": -1}, "confidence must be a finite number at least 0, got -1"),
        ({"p": 0.5, "confidence": 10**400}, "confidence must be a finite number"),
        ({"beliefs": {("a", "b"): 0.5}, "confidence": {("a", "b"): -2}}, "confidence['a' → 'b']"),
        ({"expected_parents": float("inf")}, "expected_parents must be a finite number"),
        ({"shrink_to": 0}, "shrink_to must lie strictly between 0 and 1, got 0"),
        ({"shrink_to": 1.5}, "shrink_to must be a finite number between 0 and 1"),
        ({"kappa": -1}, "kappa"),
        ({"required": "ab"}, "required must be a list of pairs"),
        ({"required": ["ab"]}, "required[0] must be a pair (cause, effect), got 'ab'"),
        ({"required": [("a", "b", "c")]}, "required[0] must be a pair"),
        ({"required": {("a", "b"): 1}}, "required must be a list of pairs"),
        ({"forbidden": 3}, "forbidden must be a list of pairs"),
        ({"tiers": ["ab"]}, "tiers[0] must be a list of names, got 'ab'"),
        ({"tiers": [["a", 1]]}, "an entry of tiers[0] must be a variable name"),
        ({"tiers": 3}, "tiers must be a list of lists"),
        ({"tiers": [["a"]], "closed_tiers": [1]}, "closed_tiers lists 1"),
        ({"tiers": [["a"]], "closed_tiers": [True]}, "closed_tiers lists True"),
        ({"tiers": [["a"]], "closed_tiers": 0}, "closed_tiers must be a list"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Prior(**arguments)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (Prior(beliefs={("PKX", "Raf"): 0.9}), "beliefs names 'PKX', which is not a column"),
        (Prior(required=[("Raf", "PKX")]), "required names 'PKX', which is not a column; did you"),
        (Prior(forbidden=[("Raf", "PKX")]), "did you mean 'PKA'?"),
        (Prior(search_space=[("Raf", "zzz")]), "the columns are 'PKA', 'Raf'"),
        (Prior(tiers=[["Raf"], ["raf"]]), "tiers[1] names 'raf', which is not a column; did you"),
    ],
)
def test_unknown_columns_come_with_the_nearest_name(prior, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        prior.bind(["PKA", "Raf"])


@pytest.mark.parametrize(
    ("names", "message"),
    [((), "at least one column"), (("a", "b", "a"), "names lists 'a' twice, at places 0 and 2")],
)
def test_columns_must_be_distinct(names, message):
    with pytest.raises(ValueError, match=message):
        Prior().bind(names)


# Low confidence against its own direction


def test_warns_when_low_confidence_raises_a_low_belief():
    def prior(confidence):
        return Prior(p=0.1, beliefs={("a", "b"): 0.05}, confidence=confidence, shrink_to=0.5)

    with pytest.warns(
        BeliefWarning, match=r"'a' → 'b' \(belief 0.05, confidence 1: 0.35"
    ) as reported:
        prior(1).bind(NAMES)
    enough = float(re.search(r"confidence above (\S+) would", str(reported[0].message))[1])
    prior(1.01 * enough).bind(NAMES)
    with pytest.warns(BeliefWarning):
        prior(0.99 * enough).bind(NAMES)


def test_warns_when_low_confidence_lowers_a_high_belief():
    with pytest.warns(BeliefWarning, match="'a' → 'b'"):
        Prior(p=0.9, beliefs={("a", "b"): 0.95}, confidence=1, shrink_to=0.5).bind(NAMES)


def test_a_warning_names_five_pairs_and_counts_the_rest():
    beliefs = {("a", effect): 0.05 for effect in "bcdefgh"}
    with pytest.warns(BeliefWarning, match="'a' → 'f'.* and 2 more") as reported:
        Prior(p=0.1, beliefs=beliefs, confidence=1, shrink_to=0.5).bind("abcdefgh")
    assert len(reported) == 1


@pytest.mark.parametrize(
    "prior",
    [
        Prior(p=0.1, beliefs={("a", "b"): 0.05}),
        Prior(p=0.1, beliefs={("a", "b"): 0.11}),  # the rule itself pulls a little towards ½
        Prior(p=0.1, beliefs={("a", "b"): 0.9}, confidence=1),
        Prior(p=0.1, beliefs={("a", "b"): 0.05}, confidence=1),
        Prior(p=0.1, beliefs={("a", "b"): 0.05}, confidence=1, forbidden=[("a", "b")]),
    ],
)
def test_no_warning_where_the_belief_keeps_its_direction(prior):
    assert isinstance(prior.bind(NAMES), EdgePrior)


# Draws


def test_draws_are_labelled_by_seed_alone():
    edges = Prior(p=0.3, required=[("a", "b")]).bind(NAMES)
    assert np.array_equal(edges.sample(50, seed=3), edges.sample(50, seed=3))
    assert not np.array_equal(edges.sample(50, seed=3), edges.sample(50, seed=4))
    assert edges.sample(50).dtype == np.uint8


def test_edge_probabilities_are_labelled_cause_by_effect():
    table = Prior(p=0.5, forbidden=[("b", "a")]).bind(["a", "b"]).edge_probabilities()
    assert (table.index.name, table.columns.name) == ("cause", "effect")
    assert table.loc["a", "b"] == 0.25
    assert table.loc["b", "a"] == 0


def test_many_draws_of_fifty_variables_take_about_a_second():
    edges = Prior().bind([f"v{k}" for k in range(50)])
    start = time.process_time()
    assert edges.sample(10_000).shape == (10_000, 50, 50)
    assert time.process_time() - start < 5


def test_numbers_of_other_precision_are_compared_in_ours():
    assert Prior(p=np.float32(0.5)).p == 0.5
    assert Prior(nu_min=np.float32(3)).nu_min == 3.0
    with pytest.raises(ValueError, match="nu_min must be a finite number"):
        Prior(nu_min=10**400)
