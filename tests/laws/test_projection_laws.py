"""The projection onto acyclic graphs: no cycles, nothing left to do, and its derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.graph import are_dags
from svidag.orders.projection import CentralPath, acyclic_support, project

M = 7
PAIRS = ~np.eye(M, dtype=bool)
NONE = np.zeros((M, M), dtype=bool)


def strengths(draws=20, seed=0):
    rng = np.random.default_rng(seed)
    # Some of them dense, some with few strong arrows.
    weak = np.where(rng.random((draws, M, M)) < 0.2, 1.0, 0.1)
    weak[::2] = 1.0
    return np.abs(rng.standard_normal((draws, M, M))) * weak


@pytest.mark.parametrize("solver", ["scaled", "gradient"])
def test_projections_are_acyclic_and_idempotent(solver):
    s = strengths()
    path = CentralPath(solver, tolerance=1e-4 if solver == "scaled" else 1e-3)
    kept = acyclic_support(s, PAIRS, NONE, path).kept
    assert are_dags(kept.astype(np.uint8)).all()
    assert kept.any(axis=(1, 2)).all()
    again = acyclic_support(np.where(kept, s, 0.0), PAIRS, NONE, path)
    assert (again.kept != kept).sum() <= (0 if solver == "scaled" else 2)  # near the threshold
    assert again.broken.sum() == 0


def test_an_acyclic_matrix_above_the_threshold_is_its_own_projection():
    s = np.triu(0.2 + strengths(), 1)
    found = acyclic_support(s, PAIRS, NONE)
    assert np.array_equal(found.kept, s > 0)
    assert found.broken.sum() == 0


def test_both_solvers_end_at_the_same_graphs():
    s = strengths(draws=10)
    tight = [
        acyclic_support(s, PAIRS, NONE, CentralPath(solver, tolerance=1e-5)).kept
        for solver in ("scaled", "gradient")
    ]
    differing = (tight[0] != tight[1]).sum(axis=(1, 2)).mean()
    assert differing <= 0.05 * tight[0].sum(axis=(1, 2)).mean()


def test_of_two_arrows_in_opposite_directions_the_stronger_stays():
    s = np.zeros((1, M, M))
    s[0, 0, 1], s[0, 1, 0] = 0.8, 1.0
    kept = acyclic_support(s, PAIRS, NONE).kept
    assert np.argwhere(kept).tolist() == [[0, 1, 0]]


def test_knowledge_holds_whatever_the_strengths():
    allowed, required = PAIRS.copy(), NONE.copy()
    allowed[0, 1:] = False
    required[3, 2] = required[2, 1] = True
    s = strengths()
    s[:, 3, 2] = 1e-6
    s[:, 1, 3] = 5.0
    kept = acyclic_support(s, allowed, required).kept
    assert are_dags(kept.astype(np.uint8)).all()
    assert not kept[:, 0, 1:].any()
    assert kept[:, 3, 2].all()
    assert kept[:, 2, 1].all()


def test_without_any_strength_nothing_is_kept():
    assert not acyclic_support(np.zeros((2, M, M)), PAIRS, NONE).kept.any()


@pytest.mark.parametrize("radius", [0.0, 0.7, 4.0, np.inf])
def test_the_ball_is_the_nearest_point_in_it(radius):
    s = strengths(draws=1)[0]
    kept = acyclic_support(s[None], PAIRS, NONE).kept[0]
    found = np.asarray(project(*map(jnp.asarray, (s.astype(np.float32), kept)), jnp.array(radius)))
    assert found.sum() <= radius * (1 + 1e-5) + 1e-6
    assert not found[~kept].any()
    # The lowering is the root of Σ (s − θ)₊ = radius, found by bisection.
    low, high = 0.0, s.max()
    for _ in range(60):
        middle = (low + high) / 2
        above = np.maximum(s[kept] - middle, 0).sum() > radius
        low, high = (middle, high) if above else (low, middle)
    assert np.allclose(found, np.where(kept, np.maximum(s - high, 0), 0), atol=1e-5)


@pytest.mark.parametrize("radius", [0.9, np.inf])
def test_the_derivative_is_that_of_finite_differences_on_the_support(radius):
    s = strengths(draws=1, seed=3)[0].astype(np.float32)
    kept = acyclic_support(s[None].astype(float), PAIRS, NONE).kept[0]
    s = jnp.asarray(s)
    direction = jnp.asarray(np.random.default_rng(1).standard_normal((M, M)), jnp.float32)

    def along(s, radius):
        """The whole projection: support found anew, then the ball."""
        support = acyclic_support(np.asarray(s, float)[None], PAIRS, NONE).kept[0]
        return float((project(s, jnp.asarray(support), radius) * direction).sum())

    limit = jnp.array(radius, jnp.float32)
    to_strengths, to_radius = jax.grad(
        lambda s, r: (project(s, jnp.asarray(kept), r) * direction).sum(), argnums=(0, 1)
    )(s, limit)
    h = 1e-3
    for i, j in np.argwhere(kept):
        step = jnp.zeros((M, M)).at[i, j].set(h)
        difference = (along(s + step, limit) - along(s - step, limit)) / (2 * h)
        assert float(to_strengths[i, j]) == pytest.approx(difference, abs=2e-3)
    assert not np.asarray(to_strengths)[~kept].any()
    expected = 0.0
    if np.isfinite(radius):
        expected = (along(s, limit + h) - along(s, limit - h)) / (2 * h)
    assert float(to_radius) == pytest.approx(expected, abs=2e-3)
