"""Pseudo-marginal moves over orders against sums over all orders and all parent sets."""

import itertools

import jax
import numpy as np
import optax
import pytest

from svidag import Prior
from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores
from svidag.networks.flows import FlowSettings
from svidag.orders.permutation import (
    feasible,
    list_columns,
    possible_edges,
    relocate_or_swap,
)
from svidag.variational.evidence_estimate import GuideEstimator
from svidag.variational.guide_training import GuideTraining
from svidag.variational.kept_sets import KeptParentSets, KeptSetEstimator, ParentSetCollection
from svidag.variational.node_guide import stack_flows, stack_mean_fields
from svidag.variational.pseudo_marginal import PseudoMarginal

NAMES = "abcd"
LEVELS = {"kept ladder": 3}
POWERS = {1: np.ones(1), 3: np.array([0.2, 0.5, 1.0])}
FREE = Prior(p=0.3, beliefs={("a", "b"): 0.8, ("d", "c"): 0.1})
KNOWN = Prior(p=0.4, required=[("b", "d")], forbidden=[("a", "c")], tiers=[["a", "b", "c"], ["d"]])


class Case:
    def __init__(self, prior, n=40, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, 4))
        x[:, 1] += 0.8 * x[:, 0]
        x[:, 2] += 0.5 * x[:, 1] - 0.6 * x[:, 3]
        self.prior = prior.bind(NAMES)
        self.model = LinearGaussian.from_values(x)
        weights = parent_weights(self.model.score_tables(), self.prior)
        self.distribution = ExactOrders.build(weights, self.prior.required)
        orders = np.array(list(itertools.permutations(range(4))))
        bits = (1 << np.arange(4)) @ possible_edges(orders, np.ones((4, 4), dtype=bool))
        log_p = self.distribution.follow[np.arange(4), bits].sum(axis=1)
        self.order_log_evidence = dict(zip(map(tuple, orders.tolist()), log_p, strict=True))
        self.order_probability = np.exp(log_p - np.logaddexp.reduce(log_p))
        self.orders = orders


def poor_guide():
    """For the edges from a and c, against those from b and d, whatever the data say."""
    return stack_mean_fields(np.where(np.arange(4)[:, None] % 2 == 0, 1.5, -1.5) * np.ones((4, 4)))


def trained_guide(case):
    settings = FlowSettings(2, 8, 5.0, 8, 1)
    guides = stack_flows(jax.random.key(0), np.zeros((4, 4)), settings, "spline-coupling")
    training = GuideTraining(case.model, case.prior, draws=4, optimiser=optax.adam(0.05))
    state = training.start(guides)
    rng = np.random.default_rng(1)
    for t in range(150):
        possible = possible_edges(case.orders[rng.choice(24, 8)], case.prior.allowed)
        state, _ = training.step(state, jax.random.key(t), possible)
    return state.guides


@pytest.mark.parametrize("guide", ["poor", "trained"])
def test_estimates_are_unbiased(guide):
    case = Case(FREE)
    guides = poor_guide() if guide == "poor" else trained_guide(case)
    estimator = GuideEstimator(guides, CachedScores(case.model), case.prior, draws=4)
    column = np.array([[True, True, False, True]])
    exact = case.distribution.follow[2, column[0] @ (1 << np.arange(4))]
    drawn = estimator(jax.random.key(0), np.full(8000, 2), np.repeat(column, 8000, axis=0))
    ratio = np.exp(drawn.log_evidence - exact)
    # Five standard errors: fails once in two million runs, the weights being bounded.
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))


def sampler_of(kind, case):
    """Plain relocation with a poor or a trained guide, or a chain on few kept parent sets."""
    guides = trained_guide(case) if kind == "trained" else poor_guide()
    rest = GuideEstimator(guides, CachedScores(case.model), case.prior, draws=8)
    if "kept" not in kind:
        return PseudoMarginal(rest, case.prior)
    collection = ParentSetCollection(case.prior, case.model, capacity=3)
    training = GuideTraining(case.model, case.prior, draws=4, optimiser=optax.set_to_zero())
    orders = case.orders[feasible(case.orders, case.prior.required)]
    possible = possible_edges(orders[::3], case.prior.allowed)
    _, scored = training.step(training.start(poor_guide()), jax.random.key(3), possible)
    collection.add_draws(possible, scored)
    kept = collection.freeze()
    levels = LEVELS.get(kind, 1)
    return PseudoMarginal(
        KeptSetEstimator(kept, rest),
        case.prior,
        lambda replicas, rng: kept.walk(replicas, rng, powers=POWERS[levels], sweeps=levels),
    )


@pytest.mark.parametrize("kind", ["trained", "knowledge", "kept knowledge", "kept ladder"])
def test_chains_reproduce_the_exact_posterior_of_the_order(kind):
    case = Case(KNOWN if "knowledge" in kind else FREE)
    sampler = sampler_of(kind, case)
    possible = case.orders[feasible(case.orders, case.prior.required)]
    K, burn_in, steps = (64, 100, 300) if kind == "trained" else (256, 60, 200)
    start = possible[np.random.default_rng(0).choice(len(possible), (K, LEVELS.get(kind, 1)))]
    chains = sampler.start(jax.random.key(1), start)
    seen = np.zeros((K, 24))
    edges = np.zeros((K, 4, 4))
    graphs = np.zeros((K, 4, 4))
    code = {order: at for at, order in enumerate(case.order_log_evidence)}
    for t in range(burn_in + steps):
        chains, _ = sampler.step(chains, jax.random.fold_in(jax.random.key(2), t))
        assert (chains.graphs >= case.prior.required).all()
        assert not (chains.graphs & ~case.prior.allowed).any()
        assert feasible(chains.orders, case.prior.required).all()
        if t >= burn_in:
            seen[np.arange(K), [code[tuple(o)] for o in chains.orders.tolist()]] += 1 / steps
            edges += chains.edges / steps
            graphs += chains.graphs / steps
    exact = case.distribution.edge_probabilities()
    for ours, truth in [(seen, case.order_probability), (edges, exact), (graphs, exact)]:
        # Chains are independent, so their spread gives the standard error of their mean.
        error = np.abs(ours.mean(axis=0) - truth)
        assert (error <= 5 * ours.std(axis=0) / np.sqrt(K) + 1e-9).all()
        assert error.max() < 0.03


def every_set(case):
    nodes, codes = np.nonzero(np.isfinite(case.distribution.weights.sets))
    sets = (codes[:, None] >> np.arange(4)) & 1 == 1
    return KeptParentSets.of(nodes, sets, case.distribution.weights.sets[nodes, codes], case.prior)


def test_kept_sets_give_the_exact_conditional_when_none_is_missing():
    case = Case(FREE)
    every = every_set(case)
    pairs, columns = list_columns(possible_edges(case.orders, case.prior.allowed))
    log_sum, edges, drawn = every.condition(pairs, columns, np.full(96, 0.5))
    follow = case.distribution.follow[pairs, columns @ (1 << np.arange(4))]
    np.testing.assert_allclose(log_sum, follow, atol=1e-9)
    assert not (drawn & ~columns).any()
    for i in range(4):  # P(i → j | U) = 1 − exp(F(U ∖ i) − F(U))
        without = columns.copy()
        without[:, i] = False
        shorter = case.distribution.follow[pairs, without @ (1 << np.arange(4))]
        shorter = shorter + np.where(columns[:, i], case.prior.free_log_absent[i, pairs], 0.0)
        np.testing.assert_allclose(edges[:, i], -np.expm1(shorter - follow), atol=1e-9)


@pytest.mark.parametrize(("moves", "sweeps"), [("relocation", 15), ("swap", 40)])
def test_a_walk_on_all_parent_sets_draws_orders_from_their_posterior(moves, sweeps):
    case = Case(KNOWN)
    every = every_set(case)
    rng = np.random.default_rng(0)
    start = np.tile([0, 1, 2, 3], (4000, 3, 1))
    ladder = {"powers": np.array([0.3, 0.6, 1.0]), "sweeps": sweeps, "moves": moves}
    orders = every.walk(start, rng, **ladder)[:, -1]
    assert (every.walk(start, rng, **{**ladder, "moves": "none"}) == start).all()
    code = {order: at for at, order in enumerate(case.order_log_evidence)}
    count = np.bincount([code[tuple(o)] for o in orders.tolist()], minlength=24)
    expected = 4000 * case.order_probability
    # Multinomial counts: five standard errors on 24 orders.
    assert (np.abs(count - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_proposals_are_symmetric_and_reach_every_neighbour():
    rng = np.random.default_rng(0)
    count = {}
    for a in itertools.permutations(range(3)):
        for b in relocate_or_swap(np.tile(a, (6000, 1, 1)), rng, swaps=0.4)[:, 0].tolist():
            count[a, tuple(b)] = count.get((a, tuple(b)), 0) + 1
    for (a, b), times in count.items():
        # Poisson-like counts: five standard errors.
        assert abs(times - count[b, a]) < 5 * np.sqrt(times + count[b, a])


def test_seeds_repeat():
    case = Case(FREE)
    estimator = GuideEstimator(poor_guide(), case.model, case.prior, draws=4)
    sampler = PseudoMarginal(estimator, case.prior)
    one, two = (
        sampler.step(sampler.start(jax.random.key(0), case.orders[:, None]), jax.random.key(1))[0]
        for _ in range(2)
    )
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
