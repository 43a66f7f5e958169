"""Laws of DDS: the divergence, the batches of an epoch, graphs drawn against sums over orders."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import svidag
from svidag.graph import are_dags
from svidag.methods.dds import DDS, _algorithm
from svidag.problem import Problem
from svidag.variational.dds_posterior import SortedGraphs
from svidag.variational.minibatches import epoch_batches

pytestmark = pytest.mark.slow  # compiles

NAMES = ["a", "b", "c"]


def algorithm(**settings):
    x = np.random.default_rng(0).normal(size=(40, 3))
    problem = Problem.build(x, prior=None, standardise=True)
    return _algorithm(problem, DDS(**settings), 0)


def test_the_divergence_is_that_of_bernoulli_edges():
    logits = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
    q, p = expit(logits), 0.01
    each = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    expected = each[~np.eye(3, dtype=bool)].mean()
    assert float(algorithm().divergence(jnp.asarray(logits))) == pytest.approx(expected, rel=1e-4)
    at_prior = jnp.full((3, 3), np.log(p / (1 - p)), jnp.float32)
    assert float(algorithm().divergence(at_prior)) == pytest.approx(0.0, abs=1e-6)


def test_upstreams_divergence_rewards_edges():
    upstream = algorithm(divergence="logits")
    low, high = (float(upstream.divergence(jnp.full((3, 3), e))) for e in (-3.0, 3.0))
    assert high < low
    p = 0.01
    assert low == pytest.approx(p * (np.log(p) + 3.0), rel=1e-4)


def test_an_epoch_sees_every_row_once():
    rows, weights = epoch_batches(jax.random.key(0), 150, 64)
    seen = np.asarray(rows)[np.asarray(weights) > 0]
    assert sorted(seen) == list(range(150))
    again, _ = epoch_batches(jax.random.key(1), 150, 64)
    assert not np.array_equal(rows, again)


@pytest.mark.parametrize("required", [[], [("c", "a")]])
def test_graphs_follow_the_orders_and_edges(required):
    prior = svidag.Prior(required=required).bind(NAMES)
    psi, logits = np.array([0.0, 1.0, -1.0]), np.random.default_rng(2).normal(size=(3, 3))
    from svidag.orders.softsort import precedence

    above = precedence(prior.required, 0.01)
    leaves = [jnp.asarray(x, jnp.float32) for x in (psi, logits, above)]
    graphs = SortedGraphs(*leaves, prior.to_jax())
    draws = graphs.sample(6000, seed=3)
    assert are_dags(draws).all()
    found = graphs.edge_probabilities()
    assert np.abs(draws.mean(axis=0) - found).max() < 0.03
    if required:
        assert (draws[:, 2, 0] == 1).all()
        return
    before, weights = np.zeros((3, 3)), np.exp(psi)
    for order in itertools.permutations(range(3)):
        left, probability = weights.sum(), 1.0
        for node in order:
            probability *= weights[node] / left
            left -= weights[node]
        for first, then in itertools.combinations(order, 2):
            before[first, then] += probability
    assert np.abs(found - before * expit(logits)).max() < 0.03
