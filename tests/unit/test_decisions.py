"""What counts as decided, favoured, connected and open, on distributions that are known."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior.decisions import Direction, Ground, PairStatus, decisions

NAMES = ("a", "b", "c")


def graph(*edges):
    A = np.zeros((3, 3), dtype=np.uint8)
    for i, j in edges:
        A[i, j] = 1
    return A


def found(graphs, weights):
    posterior = Posterior(NAMES, DrawnGraphs(np.stack(graphs), np.array(weights)))
    listed = decisions(posterior).pairs
    assert len(listed) == 3
    return {frozenset((pair.cause, pair.effect)): pair for pair in listed}


def test_a_collider_is_decided():
    pair = found([graph((0, 2), (1, 2))], [1.0])[frozenset((0, 2))]
    assert (pair.cause, pair.effect) == (0, 2)
    assert pair.status is PairStatus.DECIDED
    assert pair.basis == "conditional independences"
    assert pair.compelled == 1


def test_a_chain_is_at_most_favoured():
    one_way = found([graph((0, 1), (1, 2))], [1.0])
    assert one_way[frozenset((0, 1))].status is PairStatus.FAVOURED
    assert one_way[frozenset((0, 2))].status is PairStatus.ABSENT
    both = found([graph((0, 1), (1, 2)), graph((1, 0), (2, 1))], [0.5, 0.5])
    pair = both[frozenset((0, 1))]
    assert pair.status is PairStatus.CONNECTED
    assert pair.direction is Direction.OPEN
    assert pair.connected == pytest.approx(1.0)


def test_a_doubtful_collider_is_open_but_its_direction_is_not():
    listed = found([graph((0, 2), (1, 2)), graph()], [0.5, 0.5])
    pair = listed[frozenset((0, 2))]
    assert pair.status is PairStatus.OPEN
    assert pair.direction is Direction.DECIDED
    assert pair.forward == pytest.approx(0.5)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    a = rng.standard_normal(400)
    return pd.DataFrame({"a": a, "b": a + 0.5 * rng.standard_normal(400)})


def only(posterior):
    (pair,) = decisions(posterior).pairs
    return pair


def test_two_variables_stay_open_without_knowledge(line):
    assert only(svidag.exact.posterior(line)).status is PairStatus.CONNECTED


@pytest.mark.parametrize("knowledge", [{"required": [("a", "b")]}, {"forbidden": [("b", "a")]}])
def test_hard_knowledge_decides(line, knowledge):
    pair = only(svidag.exact.posterior(line, prior=svidag.Prior(**knowledge)))
    assert (pair.cause, pair.effect, pair.status) == (0, 1, PairStatus.DECIDED)
    assert pair.basis == "hard knowledge"


def test_an_intervention_on_one_of_two_decides():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 400))
    b[:200] += 2 * a[:200]  # the other half: b was set from outside, and a took no notice
    mask = np.zeros((400, 2), dtype=bool)
    mask[200:, 1] = True
    pair = only(svidag.exact.posterior(pd.DataFrame({"a": a, "b": b}), interventions=mask))
    assert (pair.cause, pair.effect, pair.status) == (0, 1, PairStatus.DECIDED)
    assert pair.basis == "interventions"


def test_what_follows_from_an_intervention_is_decided_too():
    rng = np.random.default_rng(2)
    a, b, c = rng.standard_normal((3, 600))
    b += 2 * a
    c += 2 * b
    mask = np.zeros((600, 3), dtype=bool)
    mask[300:, 0] = True  # tells a → b; then b → c, since a — b — c is no collider
    frame, prior = pd.DataFrame({"a": a, "b": b, "c": c}), svidag.Prior(p=0.02)
    posterior = svidag.exact.posterior(frame, interventions=mask, prior=prior)
    found = {(p.cause, p.effect): p for p in decisions(posterior).pairs}
    assert found[0, 1].basis == "interventions"
    assert found[1, 2].status is PairStatus.DECIDED
    assert found[1, 2].basis == "what follows from decided arrows"


def test_a_belief_favours_and_does_not_decide(line):
    beliefs = {("a", "b"): 0.999, ("b", "a"): 0.001}
    pair = only(svidag.exact.posterior(line, prior=svidag.Prior(beliefs=beliefs)))
    assert (pair.cause, pair.effect, pair.status) == (0, 1, PairStatus.FAVOURED)
    assert "beliefs" in pair.basis
    assert pair.ground is Ground.BELIEFS


@pytest.mark.slow  # compiles the mechanism
def test_the_form_of_the_mechanism_favours_and_does_not_decide():
    rng = np.random.default_rng(3)
    a = rng.exponential(size=400)
    frame = pd.DataFrame({"a": a, "b": a + rng.exponential(size=400)})
    posterior = svidag.exact.posterior(frame, mechanism="flexible")
    pair = only(posterior)
    assert (pair.cause, pair.effect, pair.status) == (0, 1, PairStatus.FAVOURED)
    assert pair.ground is Ground.FORM
    assert posterior.cpdag().directed.loc["a", "b"] == 0


def test_an_arrow_is_decided_or_favoured_only_if_it_is_sure():
    """0.96 · 0.96 is below 0.95: connected and directed, each surely, is not a sure arrow."""
    both = [graph((0, 1), (1, 2)), graph((1, 0), (1, 2)), graph((1, 2))]
    pair = found(both, [0.92, 0.04, 0.04])[frozenset((0, 1))]
    assert pair.connected > 0.95
    assert pair.direction is Direction.FAVOURED
    assert pair.status is PairStatus.CONNECTED
    sure = found(both, [0.96, 0.02, 0.02])[frozenset((0, 1))]
    assert sure.status is PairStatus.FAVOURED


def test_interventions_and_knowledge_count_in_the_classes_too(line):
    plain = svidag.exact.posterior(line)
    told = svidag.exact.posterior(line, prior=svidag.Prior(forbidden=[("b", "a")]))
    assert plain.cpdag().directed.loc["a", "b"] == 0
    assert told.cpdag().directed.loc["a", "b"] == 1
    assert told.cpdag(observational=True).directed.loc["a", "b"] == 0
    assert told.cpdag(observational=True).undirected.loc["a", "b"] == 1


def test_the_frame_has_a_ground_for_each_pair_and_no_hardly_connected_one():
    posterior = Posterior(
        NAMES, DrawnGraphs(np.stack([graph((0, 2), (1, 2)), graph((0, 1))]), np.array([0.97, 0.03]))
    )
    frame = posterior.decided()
    assert list(zip(frame["cause"], frame["effect"], strict=True)) == [("a", "c"), ("b", "c")]
    assert set(frame["ground"]) == {str(Ground.INDEPENDENCES)}
    assert set(frame["status"]) == {"decided arrow"}
    assert len(posterior.decided(least=0.0)) == 3
