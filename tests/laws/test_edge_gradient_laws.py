"""The two derivatives with respect to edges: same bound, same φ, and which one tells the truth."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.relaxation import hard_mask
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.variational.guide import BernoulliGuide
from svidag.variational.particle_bound import (
    BoundEstimation,
    Networks,
    Rows,
    conditional_bound,
    edge_effects,
)
from svidag.variational.settings import VariationalSettings

pytestmark = pytest.mark.slow  # compiles gradients of networks

GRADIENTS = ("straight-through", "difference")


def test_effects_are_the_change_of_each_single_edge():
    rng = np.random.default_rng(0)
    W = jnp.asarray(rng.standard_normal((4, 4, 5)), jnp.float32)
    A = jnp.asarray(rng.integers(0, 2, (3, 4, 4)) * (1 - np.eye(4)), jnp.float32)

    def by_node(A):
        return jnp.sin(jnp.einsum("kij,jih->jkh", A, W)).sum(axis=-1)

    effects = edge_effects(by_node, A)
    for i, j in [(0, 1), (3, 2), (2, 0)]:
        there, gone = (by_node(A.at[:, i, j].set(value)).sum(axis=0) for value in (1.0, 0.0))
        np.testing.assert_allclose(effects[:, i, j], there - gone, atol=1e-5)
    assert (jnp.diagonal(effects, axis1=1, axis2=2) == 0).all()


def problem(logit):
    """x1 → x2 alone is possible; with it the fitted x2 = 0.6 A x1 is right, without it w = 0."""
    mechanism = MLPMechanism(2, hidden=(), hyper=(1,), key=jr.key(3))
    trunk = (jnp.array([[[0.0], [0.0]], [[1.0], [0.0]]]),)
    mean = jnp.zeros_like(mechanism.mean_head).at[1, 0, 0].set(0.6).at[:, -1, -1].set(-1.0)
    sure = jnp.zeros_like(mean).at[:, -1].set(-12.0)
    mechanism = eqx.tree_at(
        lambda m: (m.trunk_weights, m.mean_head, m.scale_head), mechanism, (trunk, mean, sure)
    )
    networks = Networks(BernoulliGuide(jnp.full((2, 2), logit)), mechanism)
    prior = JaxEdgePrior(
        jnp.ones((2, 2)), jnp.ones((2, 2)), ~jnp.eye(2, dtype=bool), jnp.zeros((2, 2), bool)
    )
    rows = Rows(jnp.tile(jnp.array([[1.0, 0.6]]), (8, 1)), jnp.ones((8, 2), bool))
    return networks, prior, rows


@eqx.filter_jit
def bound(networks, prior, rows, gradient, draws=1, temperature=0.1):
    r = jnp.tile(jnp.array([[1.0, -1.0]]), (draws, 1))
    estimation = BoundEstimation(temperature, 4, 1, gradient, "tight")
    terms, _ = conditional_bound(networks, prior, rows, r, hard_mask(r), jr.key(0), estimation)
    return terms.total.mean()


def test_both_have_the_same_bound_and_the_same_gradient_for_mechanisms():
    networks, *rest = problem(0.3)
    values, slopes = zip(
        *(eqx.filter_value_and_grad(bound)(networks, *rest, name, 50) for name in GRADIENTS),
        strict=True,
    )
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    for one, other in zip(*(jax.tree.leaves(s.mechanism) for s in slopes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_difference_is_the_derivative_of_the_expected_bound():
    """d/dl [σ(l) F(edge) + (1 − σ(l)) F(none) − KL(l)], which straight-through misses."""
    logit = 2.0
    networks, prior, rows = problem(logit)

    def certain(value):
        sure = eqx.tree_at(lambda n: n.edges.logits, networks, jnp.full((2, 2), value))
        return bound(sure, prior, rows, "difference")  # KL(±30) is log 2 either way

    gain = float(certain(30.0) - certain(-30.0))

    def slope(gradient):
        grad = eqx.filter_grad(bound)(networks, prior, rows, gradient, 20_000)
        return float(grad.edges.logits[0, 1])

    p = 1 / (1 + np.exp(-logit))
    exact = p * (1 - p) * (gain - logit)
    assert slope("difference") == pytest.approx(exact, rel=1e-3)
    assert slope("straight-through") < 0.5 * exact


def test_whole_graph_conditioning_is_refused():
    with pytest.raises(ValueError, match="needs condition='column'"):
        VariationalSettings(edge_gradient="difference", condition="graph")
    with pytest.raises(ValueError, match="edge_gradient must be one of"):
        VariationalSettings(edge_gradient="exact")
