"""Chains over orders against enumeration of all orders and parent sets."""

from itertools import permutations

import numpy as np
import pytest

from svidag.inference import relocate
from svidag.inference.chains import Schedule, draw_graphs, run_chains
from svidag.inference.tabulated import TableSettings, infer
from svidag.mechanisms.linear import LinearGaussian
from svidag.prior import Prior
from svidag.scores import NodeTable, ScoreTables, grow

NAMES = ("a", "b", "c", "d")
PRIORS = {
    "plain": Prior(p=0.4),
    "beliefs": Prior(p=0.3, beliefs={("a", "c"): 0.9, ("d", "b"): 0.8}),
    "hard": Prior(p=0.4, required=[("c", "b")], forbidden=[("a", "d")]),
}
LONG = Schedule(chains=2, burn_in=50, orders=1500, thin=4)


def sample(n=25, m=4, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    x[:, 1] += 0.5 * x[:, 0]
    x[:, 2] += 0.5 * x[:, 1]
    return x


def small_tables(prior):
    beliefs = prior.bind(NAMES)
    return beliefs, full_tables(LinearGaussian.from_values(sample()), beliefs)


def full_tables(model, beliefs):
    blank = [NodeTable.empty(np.flatnonzero(allowed)) for allowed in beliefs.allowed.T]
    return ScoreTables.assemble(grow(model, beliefs, blank, slack=np.inf), beliefs)


def order_probabilities(tables):
    orders = np.array(list(permutations(range(tables.m))))
    log = np.array([tables.log_evidence(order) for order in orders])
    p = np.exp(log - log.max())
    return orders, p / p.sum()


def conditional_edges(tables, order):
    """P(i → j | order) by summing over parent sets."""
    out = np.zeros((tables.m, tables.m))
    for t, j in enumerate(order.tolist()):
        before = tables.bits[order[:t], j].sum()
        weights = tables.nodes[j].weights
        masks = np.arange(len(weights))
        inside = (masks & ~before) == 0
        w = np.where(inside, np.exp(weights - weights[inside].max()), 0.0)
        for i in order[:t]:
            out[i, j] = w[masks & tables.bits[i, j] > 0].sum() / w.sum()
    return out


def exact_edges(tables):
    orders, p = order_probabilities(tables)
    possible = p > 0
    return sum(
        q * conditional_edges(tables, order)
        for order, q in zip(orders[possible], p[possible], strict=True)
    )


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_chains_visit_orders_and_edges_with_their_exact_probabilities(prior):
    beliefs, tables = small_tables(prior)
    orders, p = order_probabilities(tables)
    chains = run_chains(tables, beliefs, LONG, seed=0)
    index = {tuple(order): k for k, order in enumerate(orders)}
    visits = np.bincount([index[tuple(o)] for o in chains.orders.reshape(-1, 4)], minlength=24)
    # Kept orders are close to independent: a binomial standard error, five of them allowed.
    assert visits / 3000 == pytest.approx(p, abs=5 * np.sqrt(p.max() / 3000))
    exact = exact_edges(tables)
    assert chains.edges.mean(axis=0) == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_the_places_of_a_node_are_compared_as_by_scoring_whole_orders(prior):
    _, tables = small_tables(prior)
    order = np.array([2, 0, 1, 3])
    place, masks, scores = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4)
    shared = tables.sums, tables.offsets, tables.bits, tables.absent
    for i in range(4):
        relocate.locate(order, tables.bits, place, masks)
        relocate.compare_places(i, order, place, masks, *shared, scores)
        others = order[order != i]
        there = np.array([tables.log_evidence(np.insert(others, t, i)) for t in range(4)])
        assert scores == pytest.approx(there - tables.log_evidence(order), abs=1e-9)


def test_sliding_keeps_places_and_masks_in_step():
    _, tables = small_tables(PRIORS["plain"])
    order = np.array([2, 0, 1, 3])
    place, masks = np.empty(4, np.int64), np.empty(4, np.int64)
    relocate.locate(order, tables.bits, place, masks)
    for i, there in ((2, 3), (1, 0), (0, 0), (3, 1)):
        relocate.slide(i, there, order, place, masks, tables.bits)
        fresh_place, fresh_masks = np.empty(4, np.int64), np.empty(4, np.int64)
        relocate.locate(order, tables.bits, fresh_place, fresh_masks)
        assert order[there] == i
        assert place.tolist() == fresh_place.tolist()
        assert masks.tolist() == fresh_masks.tolist()


def test_drawn_parent_sets_follow_their_conditional():
    _, tables = small_tables(PRIORS["beliefs"])
    order = np.array([3, 0, 2, 1])
    graphs = draw_graphs(tables, np.tile(order, (4000, 1)), seed=0)
    assert graphs.mean(axis=0) == pytest.approx(conditional_edges(tables, order), abs=0.04)
    pair = (graphs[:, 0, 1] & graphs[:, 2, 1]).mean()
    weights = tables.nodes[1].weights
    masks = np.arange(len(weights))
    w = np.exp(weights - weights.max())
    both = tables.bits[0, 1] | tables.bits[2, 1]
    assert pair == pytest.approx(w[masks & both == both].sum() / w.sum(), abs=0.04)


def test_every_draw_obeys_hard_knowledge_and_its_order():
    beliefs, tables = small_tables(PRIORS["hard"])
    chains = run_chains(tables, beliefs, Schedule(chains=2, burn_in=10, orders=100), seed=3)
    orders = chains.orders.reshape(-1, 4)
    graphs = draw_graphs(tables, orders, seed=3)
    assert graphs[:, 2, 1].all()
    assert not graphs[:, 0, 3].any()
    rank = np.argsort(orders, axis=1)
    cause, effect = np.nonzero(graphs)[1:], np.nonzero(graphs)[0]
    assert (rank[effect, cause[0]] < rank[effect, cause[1]]).all()


def test_same_seed_same_chains():
    beliefs, tables = small_tables(PRIORS["plain"])
    short = Schedule(chains=2, burn_in=7, orders=5, thin=3)
    one, two = (run_chains(tables, beliefs, short, seed=5) for _ in range(2))
    assert (one.orders == two.orders).all()
    assert (one.edges == two.edges).all()
    assert (one.orders != run_chains(tables, beliefs, short, seed=6).orders).any()
    assert one.log_evidence[1, 2] == pytest.approx(tables.log_evidence(one.orders[1, 2]))


def test_a_parent_screened_out_comes_back():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    x[:, 3] += 0.5 * (x[:, 0] + x[:, 1] - x[:, 2])
    beliefs, model = Prior().bind(NAMES), LinearGaussian.from_values(x)
    full = exact_edges(full_tables(model, beliefs))
    tight = infer(
        model, beliefs, TableSettings(fewest=1, most=1, rounds=3), Schedule(orders=50), seed=0
    )
    assert tight.rounds[-1].pressing > 0
    assert np.abs(tight.chains.edges.mean(axis=0) - full).max() > 0.3
    nodes = [NodeTable.empty(np.array([int(j == 0)])) for j in range(4)]
    tables = ScoreTables.assemble(grow(model, beliefs, nodes, slack=6.0), beliefs)
    assert (tables.bits[:, 3] > 0).sum() == 1


class Noisy:
    """A stand-in that is wrong by a few nats, the same for the same question."""

    def __init__(self, model):
        self.model = model

    def family_scores(self, nodes, parents):
        code = parents @ (1 << np.arange(parents.shape[1])) + 100 * nodes
        noise = np.array([np.random.default_rng(c).normal(scale=2.0) for c in code.tolist()])
        return self.model.family_scores(nodes, parents) + noise


def test_with_a_noisy_sketch_the_posterior_is_that_of_the_mechanism():
    beliefs, tables = small_tables(PRIORS["plain"])
    model = LinearGaussian.from_values(sample())
    settings = TableSettings(powers=(0.3, 1.0))
    found = infer(model, beliefs, settings, LONG, sketch=Noisy(model), seed=0)
    assert found.sketched < 0.01
    assert found.rounds[-1].settled
    assert found.chains.edges.mean(axis=0) == pytest.approx(exact_edges(tables), abs=0.03)
