"""A flip is the difference of two scores, whichever way it is computed."""

import numpy as np
import pytest

from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores
from svidag.mechanisms.wide import WideNetwork


def problem(n, m, intervened, seed=0, build=LinearGaussian.from_values):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m)) @ (np.eye(m) + 0.5 * np.triu(rng.standard_normal((m, m)), 1))
    mask = (rng.random((n, m)) < 0.3) & (rng.random(m) < 0.5) if intervened else None
    return build(x, mask)


def network(x, mask):
    return WideNetwork.from_values(x, [f"x{j}" for j in range(x.shape[1])], mask, units=12)


def families(m, seed=1, count=60):
    rng = np.random.default_rng(seed)
    nodes = rng.integers(m, size=count)
    parents = rng.random((count, m)) < rng.random((count, 1))
    parents[0], parents[1] = False, True
    parents[np.arange(count), nodes] = False
    return nodes, parents


def code(parents):
    return int(parents @ (1 << np.arange(len(parents))))


def by_differences(model, nodes, parents):
    delta, table = np.zeros(parents.shape), model.score_tables()
    for b, (j, row) in enumerate(zip(nodes, parents, strict=True)):
        for i in set(range(len(row))) - {j}:
            with_i, without_i = row.copy(), row.copy()
            with_i[i], without_i[i] = True, False
            delta[b, i] = table[j, code(with_i)] - table[j, code(without_i)]
    return delta


@pytest.mark.parametrize(("n", "intervened"), [(40, False), (2000, False), (60, True)])
def test_one_factorisation_gives_every_flip(n, intervened):
    m = 7
    model, (nodes, parents) = problem(n, m, intervened), families(m)
    scores, delta = model.flips(nodes, parents, np.ones(parents.shape, dtype=bool))
    table = model.score_tables()
    single = [table[j, code(row)] for j, row in zip(nodes, parents, strict=True)]
    np.testing.assert_allclose(scores, single, atol=1e-8)
    np.testing.assert_allclose(model.family_scores(nodes, parents), single, atol=1e-8)
    np.testing.assert_allclose(delta, by_differences(model, nodes, parents), atol=1e-6)


@pytest.mark.parametrize("intervened", [False, True])
def test_flips_of_a_network_are_differences_of_two_full_scores(intervened):
    m = 5
    model = problem(30, m, intervened, build=network)
    nodes, parents = families(m, count=20)
    assert parents[0].sum() == 0
    assert parents[1].sum() == m - 1
    wanted = np.ones(parents.shape, dtype=bool)
    wanted[np.arange(len(nodes)), nodes] = False
    scores, delta = CachedScores(model).flips(nodes, parents, wanted)
    for b in range(len(nodes)):
        alone = model.family_scores(nodes[b : b + 1], parents[b : b + 1])[0]
        assert scores[b] == pytest.approx(alone, abs=1e-6)
    np.testing.assert_allclose(delta, by_differences(model, nodes, parents), atol=1e-6)
    assert (delta[wanted] != 0).all()


def test_cached_flips_are_the_same_and_wanted_ones_only():
    m = 6
    model, (nodes, parents) = problem(80, m, True), families(m)
    wanted = np.random.default_rng(2).random(parents.shape) < 0.5
    wanted[np.arange(len(nodes)), nodes] = False
    cached = CachedScores(model)
    for _ in range(2):
        for ours, theirs in zip(
            cached.flips(nodes, parents, wanted), model.flips(nodes, parents, wanted), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-8)
    assert (cached.flips(nodes, parents, wanted)[1][~wanted] == 0).all()


def test_a_full_cache_starts_afresh_and_still_answers():
    model, (nodes, parents) = problem(50, 5, False), families(5)
    cached = CachedScores(model, capacity=20)
    for part in np.array_split(np.arange(len(nodes)), 6):
        np.testing.assert_allclose(
            cached.family_scores(nodes[part], parents[part]),
            model.family_scores(nodes[part], parents[part]),
        )
    assert len(cached) <= 20


def test_own_parent_is_refused():
    model = problem(20, 3, False)
    with pytest.raises(ValueError, match="node 1 is among its own parents"):
        model.flips(np.array([1]), np.ones((1, 3), dtype=bool), np.ones((1, 3), dtype=bool))
