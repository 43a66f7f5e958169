"""Laws of the order: orientation, the limit τ → 0, invariances, and derivatives."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.orders.relaxation import Sinkhorn, hard_mask, relax, straight_through

m = 6
QUICK = {"xla_backend_optimization_level": 0}  # these compile for longer than they run
LIMIT = Sinkhorn()
PAPER = Sinkhorn(sweeps=100, newton=0, start="flat")
CONVERGED = replace(PAPER, sweeps=2000)
UNROLLED = replace(CONVERGED, gradient="unrolled")


@partial(jax.jit, static_argnums=2, compiler_options=QUICK)
def relaxed(r, tau, sinkhorn=LIMIT):
    return relax(r, tau, sinkhorn)


@pytest.fixture
def r():
    return jax.random.normal(jax.random.key(3), (m,))


def spread(seed):
    """Potentials in random order, no two closer than 0.3."""
    key, order = jax.random.split(jax.random.key(seed))
    gaps = 0.3 + jax.random.uniform(key, (m,))
    return jax.random.permutation(order, jnp.cumsum(gaps))


@partial(jax.jit, static_argnums=2, compiler_options=QUICK)
def gradients(r, tau, sinkhorn):
    """Of a random contraction of the mask and the permutation, in r and in τ."""

    def contract(r, tau):
        order = relax(r, tau, sinkhorn)
        weights = jax.random.normal(jax.random.key(8), (2, m, m))
        return jnp.sum(weights[0] * order.mask + weights[1] * order.permutation)

    return jax.grad(contract, (0, 1))(r, tau)


def apart(this, that):
    """Distance relative to the second."""
    return jnp.linalg.norm(this - that) / jnp.linalg.norm(that)


def test_hard_mask_lets_the_higher_potential_be_the_parent():
    mask = hard_mask(jnp.array([[0.2, 3.0, -1.0]]))
    assert mask.tolist() == [[[0, 0, 1], [1, 0, 1], [0, 0, 0]]]


def test_hard_mask_of_tied_potentials_allows_neither_direction():
    assert not hard_mask(jnp.zeros(2)).any()


@pytest.mark.parametrize("sinkhorn", [LIMIT, PAPER], ids=["limit", "paper"])
def test_relaxed_mask_is_oriented_as_the_hard_mask(sinkhorn):
    r = spread(5)
    allowed = relaxed(r, 0.5, sinkhorn).allowed
    assert ((allowed > allowed.T) == (hard_mask(r) == 1)).all()


@pytest.mark.parametrize("seed", range(3))
def test_limit_tends_to_the_hard_mask_at_fixed_sweeps(seed):
    r = spread(seed)
    distances = [jnp.abs(relaxed(r, tau).mask - hard_mask(r)).max() for tau in (1.0, 0.1, 0.01)]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-4


def test_flat_start_tends_to_the_hard_mask_only_as_sweeps_grow():
    r, tau = spread(0), 0.005
    few = relaxed(r, tau, PAPER)
    assert few.row_error > 0.1
    assert jnp.abs(few.mask - hard_mask(r)).max() > 0.1
    for sweeps in (1_000, 10_000):
        many = relaxed(r, tau, replace(PAPER, sweeps=sweeps))
        if many.row_error < 1e-3:
            break
    assert many.row_error < 1e-3
    assert jnp.abs(many.mask - hard_mask(r)).max() < 1e-2


@pytest.mark.parametrize("size", [1, m, 40])
def test_limit_is_doubly_stochastic_at_every_temperature(size):
    r = jax.random.normal(jax.random.key(size), (size,))
    for tau in (20.0, 1.0, 0.1, 0.01, 0.001):
        order = relaxed(r, tau)
        assert order.row_error < 1e-5
        np.testing.assert_allclose(order.permutation.sum(axis=0), 1, atol=1e-5)


def test_limit_is_where_the_flat_sweeps_go(r):
    flat = relaxed(r, 0.3, CONVERGED)
    assert flat.row_error < 1e-5
    np.testing.assert_allclose(relaxed(r, 0.3).mask, flat.mask, atol=1e-5)


def test_paper_operator_is_alternate_normalisation(r):
    P = np.exp(np.outer(np.asarray(r, float), np.arange(m, 0, -1)) / 0.5)
    for _ in range(100):
        P = P / P.sum(axis=1, keepdims=True)
        P = P / P.sum(axis=0, keepdims=True)
    order = relaxed(r, 0.5, PAPER)
    np.testing.assert_allclose(order.permutation, P, atol=1e-5)
    np.testing.assert_allclose(order.mask, P @ np.triu(np.ones((m, m)), 1) @ P.T, atol=1e-5)
    np.testing.assert_allclose(order.row_error, np.abs(P.sum(axis=1) - 1).max(), atol=1e-5)


def test_diagonal_is_exactly_zero_where_it_is_removed_and_only_there(r):
    order = relaxed(r, 1.0)
    assert (jnp.diag(order.allowed) == 0).all()
    assert (jnp.diag(order.mask) > 0).all()
    assert ((order.allowed == order.mask) | jnp.eye(m, dtype=bool)).all()


def test_diagonal_is_removed_from_stacked_orders_alike(r):
    order = relaxed(r, 1.0)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), order)
    assert (stacked.allowed == jnp.stack([order.allowed, order.allowed])).all()


def test_shift_changes_nothing():
    # Exact in binary, as are their sums, the shift and the mean of eight, however it is divided.
    r = jnp.array([0.25, -1.5, 3.0, 0.5, -2.5, 1.0, 2.0, -0.75])
    assert (relaxed(r, 0.3).mask == relaxed(r + 16, 0.3).mask).all()


def test_relabelling_relabels_the_mask(r):
    order = jnp.array([3, 0, 5, 1, 4, 2])
    mask = relaxed(r, 0.3).mask
    np.testing.assert_allclose(relaxed(r[order], 0.3).mask, mask[order][:, order], atol=1e-5)


def test_scale_changes_nothing_if_and_only_if_asked(r):
    scaled = replace(LIMIT, scale_invariant=True)
    assert apart(relaxed(10 * r, 0.3, scaled).mask, relaxed(r, 0.3, scaled).mask) < 1e-5
    assert apart(relaxed(10 * r, 0.3).mask, relaxed(r, 0.3).mask) > 0.1


def test_scale_invariance_survives_equal_potentials():
    order = relaxed(jnp.full(m, 2.0), 0.1, replace(LIMIT, scale_invariant=True))
    np.testing.assert_allclose(order.permutation, 1 / m, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("scale_invariant", [False, True])
def test_implicit_gradient_is_the_unrolled_one_at_convergence(r, scale_invariant):
    implicit, unrolled = (replace(s, scale_invariant=scale_invariant) for s in (LIMIT, UNROLLED))
    for tau in (1.0, 0.3):
        in_r, in_tau = gradients(r, tau, unrolled)
        assert jnp.linalg.norm(in_r) > 0.1
        assert apart(gradients(r, tau, implicit)[0], in_r) < 1e-3
        np.testing.assert_allclose(gradients(r, tau, implicit)[1], in_tau, rtol=1e-3)


@pytest.mark.slow
def test_implicit_gradient_is_the_limit_of_the_unrolled_one(r):
    """Before convergence the two differ; the gap closes as sweeps grow."""

    def gap(sweeps):
        few = replace(PAPER, sweeps=sweeps)
        unrolled = gradients(r, 0.1, replace(few, gradient="unrolled"))[0]
        return apart(gradients(r, 0.1, few)[0], unrolled)

    assert gap(2) > 0.1
    assert gap(2000) < 1e-2


def test_gradient_is_finite_when_the_permutation_falls_into_blocks():
    r = jnp.array([0.0, 0.0, 5.0, 5.001, -5.0, -5.0])
    for tau in (1.0, 0.01, 0.001):
        assert jnp.isfinite(gradients(r, tau, LIMIT)[0]).all()


def test_straight_through_is_hard_to_the_bit_and_soft_in_the_derivative():
    hard = jax.random.normal(jax.random.key(0), (1000,))
    soft = jax.random.normal(jax.random.key(1), (1000,))
    joined, pull = jax.vjp(jax.jit(straight_through), hard, soft)
    assert joined.tobytes() == hard.tobytes()
    to_hard, to_soft = pull(hard)
    assert (to_hard == 0).all()
    assert (to_soft == hard).all()


@pytest.mark.parametrize(
    ("setting", "named"),
    [({"sweeps": 0}, "sweeps"), ({"newton": -1}, "newton"), ({"ridge": -1.0}, "ridge")],
)
def test_impossible_settings_are_named(setting, named):
    with pytest.raises(ValueError, match=named):
        Sinkhorn(**setting)
