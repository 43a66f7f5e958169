"""Searches over orders against every parent set, with and without an approximation."""

from functools import cache

import numpy as np
import pytest
from complete_tables import complete_node, weight
from scipy.special import gammaln

from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores
from svidag.mechanisms.wide import WideNetwork
from svidag.prior import Prior
from svidag.scores import Weigher
from svidag.search.batched_search import BatchedScores, search_in_batches
from svidag.search.order_search import search_orders
from svidag.search.parent_climbing import (
    LEAST_GAIN,
    block_weights,
    empty_memory,
    useless_bits,
    work_space,
)

NAMES = tuple("abcdef")
PRIORS = {
    "plain": Prior(p=0.3),
    "beliefs": Prior(p=0.3, beliefs={("a", "c"): 0.9, ("d", "b"): 0.8, ("f", "e"): 0.05}),
    "hard": Prior(p=0.3, required=[("f", "a"), ("c", "b")], forbidden=[("a", "d"), ("d", "a")]),
}
POWERS = np.concatenate([np.geomspace(0.05, 1.0, 10), np.ones(10)])


def sample(n=150, m=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    for j in range(1, m):
        x[:, j] += x[:, :j] @ rng.choice([0.0, -0.7, 0.6], size=j)
    x[:, m - 1] += np.abs(x[:, 0])
    return (x - x.mean(axis=0)) / x.std(axis=0)


def intervened(x):
    """Two variables set from outside, each in rows of its own."""
    mask = np.zeros(x.shape, dtype=bool)
    mask[:30, 1] = mask[20:60, 3] = True
    return mask


class Additive:
    """Bayesian regression on ½, ½x and ½max(0, x) of the parents, by dense algebra."""

    def __init__(self, x, mask):
        self.x, self.mask = x, mask
        self.single = cache(self.regression)

    def family_scores(self, nodes, parents):
        return np.array(
            [self.single(j, tuple(np.flatnonzero(s))) for j, s in zip(nodes, parents, strict=True)]
        )

    def regression(self, j, parents):
        """A multivariate t: y ~ N(0, σ²(I + ΦΦᵀ)), σ² ~ InvGamma(1, 1)."""
        rows = self.x[~self.mask[:, j]]
        y, n = rows[:, j], len(rows)
        bends = [part for i in parents for part in (rows[:, i], np.maximum(0, rows[:, i]))]
        features = 0.5 * np.stack([np.ones(n), *bends], axis=1)
        shape = np.eye(n) + features @ features.T
        _, log_determinant = np.linalg.slogdet(shape)
        quadratic = y @ np.linalg.solve(shape, y)
        return (
            gammaln(1 + n / 2)
            - n / 2 * np.log(2 * np.pi)
            - 0.5 * log_determinant
            - (1 + n / 2) * np.log(1 + quadratic / 2)
        )


def block_weight(blocks, prior, node, parents):
    """w_j(S) by the formula that searches use."""
    inner, outer, own, constant, power = blocks.arrays(len(parents))
    group, k = blocks.group[node], len(parents)
    at = [i * blocks.size + e for i in parents for e in range(blocks.size)]
    A, C = inner[group][np.ix_(at, at)], outer[group][node, at]
    _, log_determinant = np.linalg.slogdet(A)
    left = own[group, node] - C @ np.linalg.solve(A, C)
    score = constant[group, k] - 0.5 * log_determinant - power[group, k] * np.log(left)
    odds = sum(prior.logit[i, node] for i in parents if not prior.required[i, node])
    return score + odds


def cases(kind, seed=0):
    """The blocks and the model that they stand for, with interventions."""
    x = sample(n=150 if kind == "linear" else 80, seed=seed)
    mask = intervened(x)
    if kind == "linear":
        model = LinearGaussian.from_values(x, mask)
        return GaussianBlocks.linear(model), model
    return GaussianBlocks.additive(x, mask), Additive(x, mask)


@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_weights_of_blocks_are_those_of_the_model(kind):
    blocks, model = cases(kind)
    prior = PRIORS["hard"].bind(NAMES)
    for j in (0, 1, 3, 5):
        for parents in ((), (2,), (2, 4), tuple(i for i in range(6) if i != j)):
            expected = weight(model, prior, j, parents)
            assert block_weight(blocks, prior, j, parents) == pytest.approx(expected, abs=1e-7)


def best_weight(model, prior, order):
    """Σ_j max_S w_j(S) over all sets that the order allows, with the prior's factors."""
    total = 0.0
    for t, j in enumerate(order):
        table = complete_node(model, prior, j)
        bit = {int(i): 1 << b for b, i in enumerate(table.candidates)}
        before = sum(bit.get(i, 0) for i in order[:t])
        inside = table.masks & ~before == 0
        total += table.weights[inside].max()
        total += sum(np.log1p(-prior.marginal[i, j]) for i in order[:t] if prior.free[i, j])
    return total


def respects(result, prior):
    """Whether the order and every set keep hard knowledge."""
    rank = np.argsort(result.order)
    late = rank[:, None] > rank[None, :]
    kept = (result.parents >= prior.required.T[result.nodes]).all()
    return (
        kept
        and not (result.parents & ~prior.allowed.T[result.nodes]).any()
        and not (late & prior.required).any()
    )


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_a_search_ends_with_the_best_sets_of_its_order(kind, prior):
    bound = prior.bind(NAMES)
    for seed in range(2):
        blocks, model = cases(kind, seed)
        rng = np.random.default_rng(seed)
        found = search_orders(blocks, bound, powers=POWERS, rng=rng)
        assert sorted(found.order) == list(range(6))
        assert respects(found, bound)
        expected = best_weight(model, bound, found.order.tolist())
        assert found.log_weight == pytest.approx(expected, abs=1e-6)
        start = search_orders(blocks, bound, powers=np.empty(0), rng=np.random.default_rng(seed))
        assert found.log_weight > start.log_weight


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_a_search_begins_with_sets_that_no_single_change_improves(kind, prior):
    bound = prior.bind(NAMES)
    for seed in range(3):
        blocks, model = cases(kind, seed)
        rng = np.random.default_rng(seed)
        start = search_orders(blocks, bound, powers=np.empty(0), rng=rng)
        assert respects(start, bound)
        order = start.order.tolist()
        assert start.nodes.tolist() == order
        total = 0.0
        for t, (j, row) in enumerate(zip(order, start.parents, strict=True)):
            chosen = set(np.flatnonzero(row).tolist())
            own = weight(model, bound, j, chosen)
            total += own
            total += sum(np.log1p(-bound.marginal[i, j]) for i in order[:t] if bound.free[i, j])
            assert chosen <= set(order[:t])
            open_to = [i for i in order[:t] if bound.free[i, j]]
            single = [chosen ^ {i} for i in open_to]
            inside = [i for i in open_to if i in chosen]
            exchanged = [chosen - {r} | {i} for i in open_to if i not in chosen for r in inside]
            for other in (*single, *exchanged):
                assert weight(model, bound, j, other) <= own + 1e-6
        assert start.log_weight == pytest.approx(total, abs=1e-6)


def test_every_recorded_set_is_the_best_given_some_predecessors():
    blocks, model = cases("linear")
    prior = PRIORS["beliefs"].bind(NAMES)
    found = search_orders(blocks, prior, powers=POWERS, rng=np.random.default_rng(1))
    recorded = set()
    for j in range(6):
        table = complete_node(model, prior, j)
        weights = dict(zip(table.masks.tolist(), table.weights, strict=True))
        best = set()
        for mask in range(32):
            best.add(max((s for s in weights if s & ~mask == 0), key=weights.__getitem__))
        own = found.parents[found.nodes == j][:, table.candidates] @ (1 << np.arange(5))
        assert set(own.tolist()) <= best
        recorded |= {(j, mask) for mask in own.tolist()}
    assert len(recorded) == len(found.nodes)  # each once
    assert len(recorded) > 6


def test_the_best_order_of_all_is_found():
    blocks, model = cases("linear")
    prior = PRIORS["hard"].bind(NAMES)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(6).tolist() for _ in range(300)]
    possible = [
        order
        for order in orders
        if order.index(5) < order.index(0) and order.index(2) < order.index(1)
    ]
    found = max(
        search_orders(blocks, prior, powers=POWERS, rng=np.random.default_rng(s)).log_weight
        for s in range(3)
    )
    assert found >= max(best_weight(model, prior, order) for order in possible) - 1e-9


FIVE = NAMES[:5]
HARD = Prior(p=0.3, required=[("e", "a")], forbidden=[("a", "d"), ("d", "a")])


@pytest.fixture(scope="module")
def networks():
    """A network with few units, and one with fewer to stand in for it."""
    x = sample(n=80, m=5)
    mask = intervened(x)
    return [WideNetwork.from_values(x, FIVE, mask, units=units) for units in (8, 3)]


class Counted:
    """A weigher that notes what it was asked."""

    def __init__(self, scores, prior):
        self.weigher, self.asked = Weigher(CachedScores(scores), prior), []

    def __call__(self, nodes, parents):
        self.asked += [
            (int(j), tuple(np.flatnonzero(s))) for j, s in zip(nodes, parents, strict=True)
        ]
        return self.weigher.weigh(nodes, parents)


@pytest.mark.parametrize("prior", [Prior(p=0.3), HARD], ids=["plain", "hard"])
@pytest.mark.parametrize("stand_in", [False, True])
def test_searches_in_batches_end_with_the_best_sets_of_their_orders(networks, stand_in, prior):
    model, sketch = networks
    bound = prior.bind(FIVE)
    weigh, powers = (Counted(model, bound),), (np.geomspace(0.1, 1.0, 4),)
    if stand_in:
        weigh, powers = (Counted(sketch, bound), *weigh), (*powers, np.geomspace(0.5, 1.0, 3))
    starts = np.array([[4, 3, 2, 1, 0], [2, 4, 0, 1, 3]])
    told = []
    results = search_in_batches(
        weigh, bound, starts, powers=powers, rng=np.random.default_rng(0),
        stop=lambda: False, report=told.append,
    )  # fmt: skip
    assert told == list(range(1, 1 + sum(map(len, powers))))
    for result, start in zip(results, starts.tolist(), strict=True):
        assert respects(result, bound)
        best = best_weight(model, bound, result.order.tolist())
        assert result.log_weight == pytest.approx(best, abs=1e-6)
        assert result.log_weight >= best_weight(model, bound, start) - 1e-9
    for asked in weigh:
        assert 5 < len(asked.asked) == len(set(asked.asked))  # nothing twice


def test_searches_end_when_time_is_up(networks):
    bound = HARD.bind(FIVE)
    told = []
    [result] = search_in_batches(
        (Counted(networks[0], bound),), bound, np.array([[4, 3, 2, 1, 0]]),
        powers=(np.ones(9),), rng=np.random.default_rng(0), stop=lambda: len(told) == 2,
        report=told.append,
    )  # fmt: skip
    assert told == [1, 2]
    best = best_weight(networks[0], bound, result.order.tolist())
    assert result.log_weight == pytest.approx(best, abs=1e-6)


def test_batches_ask_for_many_families_at_once():
    calls = []

    def weigh(nodes, parents):
        calls.append(len(nodes))
        return nodes + 10.0 * parents.sum(axis=1)

    def wanting(families):
        yield 0, families
        return sum(batches.known[0][family] for family in families)

    batches = BatchedScores((weigh,), 3)
    results = batches.run([wanting([(0, 0b110)]), wanting([(1, 0b001), (0, 0b110)])])
    assert results == [20.0, 31.0]
    assert calls == [2]


@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_a_variable_is_useless_if_no_addition_or_exchange_of_it_gains(kind):
    blocks, _ = cases(kind)
    m, prior = len(NAMES), Prior(p=0.3, forbidden=[("a", "b")]).bind(NAMES)
    weights, words = (
        block_weights(blocks, prior, m - 1),
        np.uint64(1) << np.arange(1, m + 1, dtype=np.uint64),
    )
    memory, work = empty_memory(m), work_space(m, m - 1, blocks.size)
    useful = 0
    for j in range(m):
        for k in range(4):
            parents = np.array(
                [i for i in range(m) if i != j and prior.free[i, j]][:k], dtype=np.int64
            )
            own = block_weight(blocks, prior, j, parents)
            bits = useless_bits(j, parents, len(parents), weights, blocks.group[j], words, memory,
                                work)  # fmt: skip
            for v in set(range(m)) - {j, *parents.tolist()}:
                changed = [[*np.delete(parents, r), v] for r in range(len(parents))]
                found = [block_weight(blocks, prior, j, s) for s in [[*parents, v], *changed]]
                gains = prior.free[v, j] and max(found) > own + LEAST_GAIN
                assert bool(bits[0] >> np.uint64(v) & np.uint64(1)) == (not gains)
                useful += gains
    assert useful > 5
