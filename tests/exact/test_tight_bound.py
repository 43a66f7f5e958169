"""The tight bound and its gradient against sums over all edges and all values of z."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.special import logsumexp

from svidag.networks.flows import FlowSettings
from svidag.orders.permutation import possible_edges
from svidag.variational.guide_training import GuideTraining
from svidag.variational.node_guide import (
    LIMIT,
    GuideNoise,
    NodeFlow,
    draw_parents,
    edge_log_odds,
    log_terms,
    stack_flows,
    stack_mean_fields,
)
from svidag.variational.tight_bound import local_expectation

SETS = jnp.array(list(itertools.product([False, True], repeat=3)))  # all parent sets of one node
VALUES = jnp.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]])  # z takes two values, equally often
FREE = jnp.ones(3, bool)
SETTINGS = FlowSettings(blocks=2, bins=8, boundary=5.0, width=8, depth=1)


def problem():
    """log p(D, B) of every parent set of one node, and all its flips."""
    log_joint = jnp.array([0.3, 1.1, -0.4, 2.0, 0.9, -1.3, 1.6, 0.2])
    index = {tuple(row): at for at, row in enumerate(SETS.tolist())}
    gain = np.zeros((8, 3))
    for at, row in enumerate(SETS.tolist()):
        for i in range(3):
            on, off = list(row), list(row)
            on[i], off[i] = True, False
            gain[at, i] = log_joint[index[tuple(on)]] - log_joint[index[tuple(off)]]
    return log_joint, jnp.asarray(gain, jnp.float32)


def logits_of(parameters, zs):
    """A guide with z of two values: γ = l + s z."""
    location, scale = parameters
    return location[None, :] + scale[None, :] * VALUES[zs]


def outcomes():
    """Every pair of z's with every pair of parent sets drawn from them."""
    for zs in itertools.product(range(2), repeat=2):
        for sets in itertools.product(range(8), repeat=2):
            yield jnp.array(zs), jnp.array(sets)


def exact_bound(parameters):
    """E over two z's and the set that the first draws, of log p(D, B) − log q̂(B)."""
    log_joint, _ = problem()
    total = 0.0
    for zs in itertools.product(range(2), repeat=2):
        logits = logits_of(parameters, jnp.array(zs))
        present = SETS.astype(jnp.float32)[:, None, :]
        each = (present * logits[None] + jax.nn.log_sigmoid(-logits)[None]).sum(axis=2)
        log_guide = logsumexp(each, axis=1) - jnp.log(2.0)
        total = total + (jnp.exp(each[:, 0]) * (log_joint - log_guide)).sum() / 4
    return total


def expected_gradient(parameters, estimate):
    """The mean of an estimator's gradient over all outcomes, the outcome's probability fixed."""
    _, gain = problem()
    zs, sets = (jnp.stack(part) for part in zip(*outcomes(), strict=True))

    def single(z, s):
        logits, parents = logits_of(parameters, z), SETS[s]
        own = jnp.diagonal(log_terms(logits, parents, FREE))
        gradient = jax.grad(lambda p: estimate(logits_of(p, z), parents, gain[s]))(parameters)
        return jnp.exp(own.sum()) / 4, gradient

    probability, gradients = jax.jit(jax.vmap(single))(zs, sets)
    return jax.tree.map(lambda g: probability @ g, gradients)


def ours(logits, parents, gain):
    return local_expectation(logits, parents, gain, FREE)


def without_entropy(logits, parents, gain):
    """The bracket without log q̂, and −log q̂ differentiated at fixed B instead."""
    log_guide = logsumexp(log_terms(logits, parents, FREE), axis=1)
    edges = (jax.nn.sigmoid(logits) * gain).sum() / logits.shape[0]
    return edges - log_guide.mean()


def straight_through(logits, parents, gain):
    """B replaced by a relaxed edge: the score's slope and log q̂'s slope at the drawn edge."""
    soft = jax.nn.sigmoid(logits / 0.3)
    terms = log_terms(logits, parents, FREE)
    odds = edge_log_odds(logits, parents, terms)
    slope = jax.lax.stop_gradient(gain - odds)
    log_guide = logsumexp(terms, axis=1)
    return (soft * slope).sum() / logits.shape[0] - log_guide.mean()


PARAMETERS = (jnp.array([0.4, -0.8, 0.1]), jnp.array([1.0, 0.7, -1.2]))


def test_the_mean_gradient_is_the_bounds_gradient():
    exact = jax.grad(exact_bound)(PARAMETERS)
    mean = expected_gradient(PARAMETERS, ours)
    for a, b in zip(mean, exact, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("other", [without_entropy, straight_through])
def test_other_gradients_are_not(other):
    exact = jax.grad(exact_bound)(PARAMETERS)
    mean = expected_gradient(PARAMETERS, other)
    assert max(float(jnp.abs(a - b).max()) for a, b in zip(mean, exact, strict=True)) > 0.05


def test_log_odds_of_an_edge_are_differences_of_the_mixture():
    logits = jax.random.normal(jax.random.key(0), (3, 3))
    parents = SETS[jnp.array([1, 6, 3])]
    odds = edge_log_odds(logits, parents, log_terms(logits, parents, FREE))
    for i in range(3):
        on, off = (
            logsumexp(log_terms(logits, parents.at[:, i].set(value), FREE), axis=1)
            for value in (True, False)
        )
        np.testing.assert_allclose(odds[:, i], on - off, atol=1e-5)


def test_the_guide_draws_what_it_says():
    column = jnp.array([True, True, False, True])
    required = jnp.array([False, False, False, True])
    guide = NodeFlow(jax.random.key(0), np.array([0.5, -1.0, 3.0, 0.0]), SETTINGS, scale=2.0)
    drawn = jax.vmap(lambda noise: draw_parents(guide, noise, column, required))(
        GuideNoise.draw(jax.random.key(1), (5000, 4, 4))
    )
    assert bool(drawn.parents[..., 3].all())
    assert not bool(drawn.parents[..., 2].any())
    assert float(jnp.abs(drawn.logits).max()) <= LIMIT
    share = np.asarray(drawn.parents.mean(axis=(0, 1)))
    expected = np.asarray(jax.nn.sigmoid(drawn.logits).mean(axis=(0, 1)))
    # Binomial: five standard errors.
    assert (np.abs(share - expected)[:2] < 5 * 0.5 / np.sqrt(20_000)).all()


def test_the_bound_is_below_the_evidence_and_more_draws_close_the_gap(four_nodes):
    model, prior, orders, exact = four_nodes
    guides = stack_flows(jax.random.key(1), np.zeros((4, 4)), SETTINGS, "spline-coupling")
    wide = jnp.full_like(guides.log_scale, jnp.log(4.0))
    guides = eqx.tree_at(lambda g: g.log_scale, guides, wide)
    possible = np.repeat(possible_edges(orders, prior.allowed), 400, axis=0)
    gaps = []
    for draws in (1, 16):
        training = GuideTraining(model, prior, draws=draws, optimiser=optax.set_to_zero())
        state = training.start(guides)
        bounds = [
            training.step(state, jax.random.key(t), possible)[1].bound.reshape(3, 400)
            for t in range(16 // draws)
        ]
        values = np.concatenate(bounds, axis=1)
        error = values.std(axis=1) / np.sqrt(values.shape[1])
        assert (values.mean(axis=1) <= exact + 4 * error).all()
        gaps.append((exact - values.mean(axis=1), error))
    (loose, one), (tight, two) = gaps
    assert (loose - tight > 2 * np.hypot(one, two)).all()


def test_training_raises_the_bound_towards_the_evidence(four_nodes):
    model, prior, orders, exact = four_nodes
    training = GuideTraining(model, prior, draws=8, optimiser=optax.adam(0.05))
    state, bounds = training.start(stack_mean_fields(np.zeros((4, 4)))), []
    possible = np.repeat(possible_edges(orders, prior.allowed), 50, axis=0)
    for t in range(60):
        state, scored = training.step(state, jax.random.key(t), possible)
        bounds.append(scored.bound.reshape(3, 50))
    first, last = bounds[0], bounds[-1]
    error = np.hypot(first.std(axis=1), last.std(axis=1)) / np.sqrt(50)
    assert (last.mean(axis=1) - first.mean(axis=1) > 5 * error).all()
    assert (last.mean(axis=1) <= exact + 4 * last.std(axis=1) / np.sqrt(50)).all()
    assert (exact - last.mean(axis=1) < 0.2 * (exact - first.mean(axis=1))).all()
