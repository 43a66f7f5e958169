"""Permutations as assignments, relaxed ones, and the horseshoe prior: against exact quantities."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from svidag.mechanisms.horseshoe import log_horseshoe
from svidag.orders.assignment import best_assignment, log_bethe_permanent
from svidag.orders.relaxation import Sinkhorn, at_fixed_point, balance


def permutations(m):
    return np.array(list(itertools.permutations(range(m))))


def log_permanent(T):
    m = len(T)
    return special.logsumexp(T[np.arange(m), permutations(m)].sum(axis=1))


def random_scores(m, size, seed):
    return size * np.random.default_rng(seed).standard_normal((m, m))


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_the_bethe_permanent_is_a_lower_bound_within_its_guarantee(m):
    bethe = jax.jit(lambda T: log_bethe_permanent(T, 100))
    for size in (0.1, 1.0, 5.0):
        for seed in range(4):
            T = random_scores(m, size, seed)
            gap = log_permanent(T) - float(bethe(jnp.asarray(T, jnp.float32)))
            assert -1e-3 <= gap <= m / 2 * math.log(2) + 1e-3


def test_the_bethe_permanent_of_equal_entries_has_its_closed_form():
    # γ = 1/m: m log m + m(m − 1) log(1 − 1/m), where the permanent is m!.
    for m in (2, 4, 6):
        expected = m * math.log(m) + m * (m - 1) * math.log(1 - 1 / m)
        found = jax.jit(log_bethe_permanent)(jnp.zeros((m, m)))
        assert float(found) == pytest.approx(expected, abs=1e-3)


def test_the_derivative_of_the_bethe_permanent_is_that_of_differences():
    T = jnp.asarray(random_scores(5, 1.0, 1), jnp.float32)
    gradient = jax.jit(jax.grad(lambda T: log_bethe_permanent(T, 200)))(T)
    bethe = jax.jit(lambda T: log_bethe_permanent(T, 200))
    for i, j in ((0, 0), (2, 3), (4, 1)):
        step = jnp.zeros_like(T).at[i, j].set(0.05)
        difference = (float(bethe(T + step)) - float(bethe(T - step))) / 0.1
        assert float(gradient[i, j]) == pytest.approx(difference, abs=2e-3)
    assert np.allclose(gradient.sum(axis=0), 1, atol=1e-3)
    assert np.allclose(gradient.sum(axis=1), 1, atol=1e-3)


def test_the_assignment_is_the_best_of_all_permutations():
    for seed in range(5):
        T = random_scores(5, 1.0, seed)
        sums = T[np.arange(5), permutations(5)].sum(axis=1)
        assert np.array_equal(best_assignment(T[None])[0], permutations(5)[sums.argmax()])


def test_the_derivative_of_balancing_is_that_of_differences():
    scores = jnp.asarray(random_scores(5, 2.0, 2), jnp.float32)
    weights = jnp.asarray(random_scores(5, 1.0, 3), jnp.float32)
    many = Sinkhorn(sweeps=300, newton=2)

    @jax.jit
    def value(scores):
        return (balance(scores, many) * weights).sum()

    P = balance(scores, many)
    gradient = jax.grad(lambda scores: (at_fixed_point(scores, P) * weights).sum())(scores)
    for i, j in ((0, 0), (1, 4), (3, 2)):
        step = jnp.zeros_like(scores).at[i, j].set(0.05)
        difference = (float(value(scores + step)) - float(value(scores - step))) / 0.1
        assert float(gradient[i, j]) == pytest.approx(difference, abs=2e-3)


def test_relaxed_permutations_tend_to_the_best_assignment():
    T = random_scores(5, 1.0, 4)
    P = np.asarray(balance(jnp.asarray(T / 0.02, jnp.float32), Sinkhorn(sweeps=2000, newton=0)))
    assert np.array_equal(P.argmax(axis=1), best_assignment(T[None])[0])
    assert P.max(axis=1).min() > 0.9


@pytest.mark.parametrize("scale", [0.131, 1.0])
@pytest.mark.parametrize("w", [1e-3, 0.1, 0.5, 3.0, 20.0])
def test_the_horseshoe_is_its_mixture_of_normals(w, scale):
    def mixed(angle):  # λ = tan(angle) is half-Cauchy where the angle is uniform
        spread = scale * math.tan(angle)
        return math.exp(-0.5 * (w / spread) ** 2) / (math.sqrt(2 * math.pi) * spread) * 2 / math.pi

    middle = min(1.5, math.atan(w / scale))
    expected = integrate.quad(mixed, 0, math.pi / 2, limit=200, points=[middle])[0]
    found = log_horseshoe(jnp.array([w, -w]), scale)
    assert np.allclose(found, math.log(expected), atol=1e-5)


def test_the_horseshoe_is_finite_at_its_pole_with_a_derivative():
    value, slope = jax.value_and_grad(lambda w: log_horseshoe(w, 0.1))(jnp.array(0.0))
    assert np.isfinite(value)
    assert float(slope) == 0.0
