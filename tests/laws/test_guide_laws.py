"""A guide's density is the density of its draws, and edges are Bernoulli in its logits."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

from svidag.kernels import noise
from svidag.networks.flows import FAMILIES
from svidag.variational.guide import BernoulliGuide, FlowGuide, MeanFieldGuide
from svidag.variational.relaxed_edges import relax_edges

pytestmark = pytest.mark.slow  # compiles flows

M = 3
R = jnp.array([0.4, -1.3, 0.7])
LOCATION = 4 * jnp.arange(9.0).reshape(M, M) - 16
SCALE = 0.5
DRAWS = 40


def perturbed(module):
    """The module away from its start, where flows are the identity."""
    generator = np.random.default_rng(7)

    def move(leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        return jnp.asarray(np.asarray(leaf) + 0.3 * generator.normal(size=leaf.shape), leaf.dtype)

    return jax.tree.map(move, module)


def build(name, m=M, location=LOCATION):
    if name == "mean-field":
        return MeanFieldGuide(m, location=location, scale=SCALE)
    with jax.numpy_rank_promotion("allow"):  # flowjax's autoregressive masks need it
        return FlowGuide(
            m, family=name, blocks=2, bins=4, width=8, location=location, scale=SCALE, key=jr.key(0)
        )


def off_diagonal(matrix):
    return np.asarray(matrix)[..., ~np.eye(matrix.shape[-1], dtype=bool)]


class Evaluated(NamedTuple):
    """Draws at R, R + 8 and −R (axis 0), their densities, and the densities by autodiff at R."""

    guide: object
    gamma: jax.Array
    log_q: jax.Array
    log_prob: jax.Array
    exact: jax.Array


@eqx.filter_jit
def evaluate(guide, keys):
    def draw(key, r):
        gamma, log_q = guide.sample_and_log_prob(key, r)
        return gamma, log_q, guide.log_prob(gamma, r)

    def by_autodiff(key):
        z = noise.normal(key, (M * (M - 1),))
        jacobian = jax.jacrev(lambda z: guide.bijection.transform(z, R - R.mean()))(z)
        return jax.scipy.stats.norm.logpdf(z).sum() - jnp.linalg.slogdet(jacobian)[1]

    potentials = jnp.stack([R, R + 8.0, -R])
    draws = jax.vmap(jax.vmap(draw, (0, None)), (None, 0))(keys, potentials)
    if isinstance(guide, FlowGuide):
        return *draws, jax.vmap(by_autodiff)(keys)
    mean, scale = guide.location[None], jnp.exp(guide.log_scale)[None]
    pairs = draws[0][0][:, ~np.eye(M, dtype=bool)]
    return *draws, jax.scipy.stats.norm.logpdf(pairs, mean, scale).sum(axis=-1)


@pytest.fixture(scope="module", params=[*FAMILIES, "mean-field"])
def both(request):
    """A guide at its start and away from it."""
    start, keys = build(request.param), jr.split(jr.key(1), DRAWS)
    return [Evaluated(guide, *evaluate(guide, keys)) for guide in (start, perturbed(start))]


def test_draws_differ_and_have_no_loops(both):
    for evaluated in both:
        assert not np.diagonal(evaluated.gamma, axis1=2, axis2=3).any()
        assert len(np.unique(off_diagonal(evaluated.gamma[0]))) == DRAWS * M * (M - 1)


def test_the_density_of_a_draw_is_the_same_both_ways(both):
    for evaluated in both:
        np.testing.assert_allclose(evaluated.log_q, evaluated.log_prob, atol=5e-3)


def test_the_density_of_a_draw_is_that_of_the_jacobian(both):
    for evaluated in both:
        np.testing.assert_allclose(evaluated.log_q[0], evaluated.exact, atol=1e-3)


def test_a_guide_starts_as_a_normal_at_its_location_and_scale(both):
    start, moved = both
    deviation = (off_diagonal(start.gamma) - off_diagonal(LOCATION)) / SCALE
    normal = np.log(2 * np.pi * SCALE**2)
    expected = -0.5 * (deviation**2 + normal).sum(axis=-1)
    np.testing.assert_allclose(start.log_q, expected, atol=1e-3)
    assert np.abs(moved.log_q - start.log_q).max() > 0.1


def test_logits_are_not_confined_to_the_boundary_of_the_spline(both):
    for evaluated in both:
        spread = np.abs(off_diagonal(evaluated.gamma[0])).max(axis=-1)
        assert (spread > 10).all()


def test_flows_see_differences_of_potentials_and_nothing_else(both):
    guide, (here, shifted, elsewhere) = both[1].guide, both[1].gamma
    np.testing.assert_allclose(shifted, here, atol=1e-3)
    assert (np.abs(elsewhere - here).max() > 0.01) == isinstance(guide, FlowGuide)


def test_the_density_integrates_to_one():
    guide = perturbed(build("spline-coupling", m=2, location=0.0))
    axis = jnp.linspace(-10.0, 10.0, 401)
    cells = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)

    def density(pair):
        gamma = jnp.array([[0.0, 1.0], [0.0, 0.0]]) * pair[0]
        gamma += jnp.array([[0.0, 0.0], [1.0, 0.0]]) * pair[1]
        return jnp.exp(guide.log_prob(gamma, jnp.array([0.5, -0.2])))

    mass = jax.jit(jax.vmap(density))(cells).sum() * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(mass, 1.0, atol=5e-3)


def test_every_inexact_leaf_is_a_parameter_and_permutations_are_not():
    guide = perturbed(build("spline-coupling"))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(guide):
        gamma, log_q = jax.vmap(guide.sample_and_log_prob, (0, None))(jr.split(jr.key(5), 64), R)
        return (log_q + jnp.sin(gamma).sum((1, 2))).mean()

    gradients = gradient(guide)
    for leaf in jax.tree.leaves(gradients):
        assert jnp.isfinite(leaf).all()
        assert jnp.abs(leaf).max() > 0
    trained, fixed = eqx.partition(build("affine-coupling"), eqx.is_inexact_array)
    assert {leaf.dtype for leaf in jax.tree.leaves(trained)} == {jnp.dtype("float32")}
    assert {leaf.shape for leaf in jax.tree.leaves(fixed) if eqx.is_array(leaf)} == {(2, 6)}


def test_any_function_that_returns_a_bijection_is_a_family():
    def shift(dim, condition_dim, settings):
        return Affine(jnp.full(dim, float(settings.blocks)))

    guide = FlowGuide(M, family=shift, blocks=2, key=jr.key(0))
    expected = M * (M - 1) * jax.scipy.stats.norm.logpdf(-2.0)
    np.testing.assert_allclose(guide.log_prob(jnp.zeros((M, M)), R), expected, rtol=1e-5)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"family must be one of 'spline-coupling'.*'splines'"):
        FlowGuide(M, family="splines", key=jr.key(0))
    with pytest.raises(ValueError, match=r"m must be at least 2.*got 1"):
        MeanFieldGuide(1)


def test_hard_and_soft_edges_share_their_noise():
    gamma = jnp.linspace(-2.0, 2.0, 16).reshape(4, 4)
    keys = jr.split(jr.key(1), 200)

    @jax.jit
    def relax(temperature):
        return jax.vmap(lambda key: relax_edges(key, gamma, temperature))(keys)

    hard, soft = relax(0.3)
    np.testing.assert_array_equal(hard, (soft > 0.5).astype(hard.dtype))
    assert set(np.unique(off_diagonal(hard))) == {0.0, 1.0}
    assert not np.diagonal(soft, axis1=1, axis2=2).any()
    hard_again, softer = relax(1.0)
    np.testing.assert_array_equal(hard, hard_again)
    # T times the log odds of σ(x/T) are those of σ(x).
    odds = (np.clip(off_diagonal(p), 1e-4, 1 - 1e-4) for p in (soft, softer))
    sharp, blunt = (np.log(p / (1 - p)) for p in odds)
    inside = np.abs(sharp) < 8
    assert inside.mean() > 0.5
    np.testing.assert_allclose(0.3 * sharp[inside], blunt[inside], atol=1e-3)


def test_hard_edges_are_bernoulli_in_the_logits():
    gamma = jnp.linspace(-4.0, 4.0, 16).reshape(4, 4)
    draws = 40_000
    draw = jax.jit(jax.vmap(lambda key: relax_edges(key, gamma, 0.3)[0]))
    frequency = off_diagonal(draw(jr.split(jr.key(2), draws)).mean(axis=0))
    expected = 1 / (1 + np.exp(-off_diagonal(gamma)))
    # Five standard errors on twelve cells: fails by chance once in 10⁵.
    tolerance = 5 * np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(frequency - expected) < tolerance).all()


def test_bernoulli_divergence_equals_the_sum_over_all_edge_sets():
    guide = BernoulliGuide(jnp.array([[9.0, 1.3], [-0.8, 9.0]]))
    alpha, beta = jnp.array([[1.0, 2.0], [5.0, 1.0]]), jnp.array([[1.0, 7.0], [1.5, 1.0]])
    exact = 0.0
    q = np.array([1 / (1 + np.exp(-1.3)), 1 / (1 + np.exp(0.8))])
    p = np.array([2 / 9, 5 / 6.5])
    for edges in np.ndindex(2, 2):
        present = np.array(edges)
        q_edges = np.prod(np.where(present, q, 1 - q))
        p_edges = np.prod(np.where(present, p, 1 - p))
        exact += q_edges * np.log(q_edges / p_edges)
    np.testing.assert_allclose(guide.kl(alpha, beta), exact, rtol=1e-5)
    np.testing.assert_allclose(
        guide.sample(jr.key(0), jnp.zeros(2)), np.array([[0.0, 1.3], [-0.8, 0.0]]), rtol=1e-6
    )
