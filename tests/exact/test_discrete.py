"""BDeu against brute force, its equivalence of graphs, and its parameters."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import svidag
from svidag.data import Dataset
from svidag.graph import members
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.discrete_parameters import DiscreteParameters

SIZES = (2, 3, 2, 4)


def table(rows: int = 50, seed: int = 0) -> pd.DataFrame:
    """a → b → c, and d by itself."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, rows)
    b = (a + (rng.random(rows) < 0.3) * rng.integers(0, 3, rows)) % 3
    c = np.where(rng.random(rows) < 0.8, b > 0, rng.integers(0, 2, rows)).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": np.arange(rows) % 4})


def tables(frame: pd.DataFrame, **more) -> DiscreteTables:
    return DiscreteTables.of(Dataset.from_any(frame, kinds="categorical", **more))


def by_hand(frame, node, parents, rows=None, sample_size=1.0) -> float:
    """Dirichlet-multinomial sums over every configuration, seen or not."""
    values = frame.to_numpy()[slice(None) if rows is None else rows]
    q, r = int(np.prod([SIZES[i] for i in parents])), SIZES[node]
    total = 0.0
    for setting in itertools.product(*(range(SIZES[i]) for i in parents)):
        here = values[(values[:, list(parents)] == np.array(setting)).all(axis=1), node]
        total += gammaln(sample_size / q) - gammaln(sample_size / q + len(here))
        for k in range(r):
            alpha = sample_size / (q * r)
            total += gammaln(alpha + (here == k).sum()) - gammaln(alpha)
    return total


def every_family():
    for node in range(4):
        others = [i for i in range(4) if i != node]
        for size in range(4):
            for parents in itertools.combinations(others, size):
                yield node, parents


def test_bdeu_is_the_sum_by_hand():
    frame = table()
    model, subsets = tables(frame), tables(frame).score_tables()
    for node, parents in every_family():
        mask = np.isin(np.arange(4), parents)
        expected = by_hand(frame, node, parents)
        assert model.family_scores(np.array([node]), mask[None])[0] == pytest.approx(expected)
        assert subsets[node, sum(1 << i for i in parents)] == pytest.approx(expected)


def test_rows_set_from_outside_are_left_out_of_their_own_node():
    frame = table()
    mask = np.zeros((len(frame), 4), dtype=bool)
    mask[:20, 1] = True
    model = tables(frame, interventions=mask)
    assert model.family_scores(np.array([1]), np.array([[True, False, False, False]]))[0] == (
        pytest.approx(by_hand(frame, 1, (0,), slice(20, None)))
    )


def test_members_of_a_class_have_the_same_evidence():
    model = tables(table())
    graph = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.uint8)
    totals = [
        model.family_scores(np.arange(4), other.T.astype(bool)).sum() for other in members(graph)
    ]
    assert len(totals) > 2
    np.testing.assert_allclose(totals, totals[0])


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")
def test_the_default_call_is_exact_and_chains_agree_with_it():
    frame = table(200)
    exact = svidag.fit(frame, kinds="categorical", method="exact", progress=False)
    assert exact.mechanism == "discrete"
    default = svidag.fit(frame, kinds="categorical", progress=False)
    np.testing.assert_array_equal(default.edge_probabilities(), exact.edge_probabilities())
    chains = svidag.methods.OrderMCMC(exact=False, orders=200)
    found = svidag.fit(frame, kinds="categorical", method=chains, progress=False)
    assert abs(found.edge_probabilities() - exact.edge_probabilities()).to_numpy().max() < 0.05


def test_drawn_probabilities_have_the_mean_of_their_dirichlet():
    model = tables(table(40))
    graph = np.zeros((4, 4), dtype=np.uint8)
    graph[0, 1] = 1
    drawn = DiscreteParameters(model).parameters(graph, 4000, 0)["1"]
    alpha = 1 / 6 + model.counts(1, np.array([0]))
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.01)
    log_p = DiscreteParameters(model).centre(graph[None]).log_likelihood(np.zeros((1, 4)))
    others = [by_hand_mean(model, j) for j in (0, 2, 3)]
    assert log_p[0, 0] == pytest.approx(np.log(mean[0, 0] * np.prod(others)))


def by_hand_mean(model: DiscreteTables, j: int) -> float:
    counts = model.counts(j, np.array([], dtype=int))[0] + 1 / SIZES[j]
    return counts[0] / counts.sum()
