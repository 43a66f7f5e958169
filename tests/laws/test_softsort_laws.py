"""Laws of sorted Gumbel scores: their limits, their distribution, and required arrows."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.kernels import noise
from svidag.orders.relaxation import hard_mask
from svidag.orders.softsort import (
    gumbel_scores,
    precedence,
    raise_causes,
    soft_sort,
    sorted_mask,
)

pytestmark = pytest.mark.slow  # compiles

SCORES = jnp.asarray([0.3, -1.2, 2.0, 0.9])


def test_soft_sort_tends_to_the_permutation_that_sorts():
    hard = np.eye(4)[np.argsort(-np.asarray(SCORES))]
    assert np.allclose(soft_sort(SCORES, 1e-3), hard, atol=1e-6)
    assert np.array_equal(np.argmax(soft_sort(SCORES, 1.0), axis=1), np.argmax(hard, axis=1))
    assert np.allclose(soft_sort(SCORES, 1e6), 0.25, atol=1e-5)


def test_the_mask_is_hard_and_its_slope_that_of_soft_sort():
    assert np.array_equal(sorted_mask(SCORES, 1.0), hard_mask(SCORES))
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), jnp.float32)
    upper = jnp.asarray(np.triu(np.ones((4, 4), np.float32), 1))
    hard = jnp.asarray(np.eye(4, dtype=np.float32)[np.argsort(-np.asarray(SCORES))])

    def by_hand(scores):
        """The derivative of Pᵀ U P at the hard P, in the direction of the soft one's."""
        _, slope = jax.jvp(lambda s: soft_sort(s, 1.0), (SCORES,), (scores,))
        moved = slope.T @ upper @ hard + hard.T @ upper @ slope
        return jnp.sum(weights * moved)

    found = jax.grad(lambda s: jnp.sum(weights * sorted_mask(s, 1.0)))(SCORES)
    expected = [by_hand(one) for one in jnp.eye(4)]
    assert np.allclose(found, expected, atol=1e-5)


def test_sorted_gumbel_scores_are_a_plackett_luce_draw():
    psi, n = jnp.asarray([0.0, 1.0, -0.5]), 40_000
    keys = noise.split(jax.random.key(0), n)
    drawn = np.argsort(-np.asarray(jax.vmap(lambda k: gumbel_scores(k, psi))(keys)), axis=1)
    weights = np.exp(np.asarray(psi))
    for order in itertools.permutations(range(3)):
        left, expected = weights.sum(), 1.0
        for node in order:
            expected *= weights[node] / left
            left -= weights[node]
        found = (drawn == np.array(order)).all(axis=1).mean()
        assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / n)


def test_gumbel_numbers_have_their_moments():
    x = np.asarray(noise.gumbel(jax.random.key(1), (200_000,)), float)
    assert x.mean() == pytest.approx(np.euler_gamma, abs=0.015)
    assert x.var() == pytest.approx(np.pi**2 / 6, rel=0.02)
    assert np.isfinite(x).all()


def test_required_causes_come_first_and_nothing_else_changes():
    required = np.zeros((4, 4), bool)
    required[1, 0] = required[0, 3] = required[1, 3] = True
    above = precedence(required, 0.01)
    drawn = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    raised = np.asarray(raise_causes(jnp.asarray(drawn), jnp.asarray(above)))
    assert (raised[:, 1] > raised[:, 0]).all()
    assert (raised[:, 0] > raised[:, 3]).all()
    assert np.array_equal(raised[:, 2], drawn[:, 2])
    right = (drawn[:, 1] > drawn[:, 0] + 0.02) & (drawn[:, 0] > drawn[:, 3] + 0.02)
    assert right.any()
    assert np.array_equal(raised[right], drawn[right])
    free = precedence(np.zeros((4, 4), bool), 0.01)
    assert np.array_equal(raise_causes(jnp.asarray(drawn), jnp.asarray(free)), drawn)
