"""Laws of the Stein move: its formula pair by pair, its guards, and the target it finds."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import digamma, polygamma

from svidag.orders.relaxation import Sinkhorn, relax
from svidag.samplers.stein import SteinSettings, clip, direction, linearise

pytestmark = pytest.mark.slow  # compiles gradients of kernels

K, m = 5, 4
QUICK = {"xla_backend_optimization_level": 0}  # these compile for longer than they run
UNROLLED = Sinkhorn(sweeps=500, newton=0, start="flat", gradient="unrolled")


@pytest.fixture
def particles():
    return jax.random.normal(jax.random.key(0), (K, m))


@pytest.fixture
def scores():
    return jax.random.normal(jax.random.key(1), (K, m))


def mask(r):
    return relax(r, 0.5).mask


def identity(r):
    return r


@partial(jax.jit, static_argnums=(2, 3), compiler_options=QUICK)
def move(particles, scores, feature=identity, stein=None):
    return direction(scores, linearise(feature, particles), stein)


@partial(jax.jit, compiler_options=QUICK)
def by_autodiff(particles, scores, h):
    """Eq. svgd_update, one pair at a time, with the derivative of the kernel itself."""

    def kernel(r, other):
        difference = relax(r, 0.5, UNROLLED).mask - relax(other, 0.5, UNROLLED).mask
        return jnp.exp(-jnp.sum(difference**2) / h)

    pairs = jax.vmap(jax.vmap(jax.value_and_grad(kernel), (None, 0)), (0, None))
    k, slope = pairs(particles, particles)
    return (k[:, :, None] * scores[:, None, :] + slope).mean(axis=0)


def test_direction_is_the_sum_over_pairs(particles, scores):
    step = move(particles, scores, mask)
    expected = by_autodiff(particles, scores, step.bandwidth)
    np.testing.assert_allclose(step.direction, expected, atol=1e-4)


def test_each_pair_repels_as_the_derivative_of_the_kernel(particles):
    for j in range(1, K):
        pair, still = particles[jnp.array([0, j])], jnp.zeros((2, m))
        step = move(pair, still, mask)
        expected = by_autodiff(pair, still, step.bandwidth)
        assert jnp.abs(expected).max() > 1e-2
        np.testing.assert_allclose(step.direction, expected, atol=1e-4)


def test_pulls_are_vector_jacobian_products(particles):
    cotangents = jax.random.normal(jax.random.key(2), (K, m, m))

    @partial(jax.jit, compiler_options=QUICK)
    def pulls(particles):
        features = linearise(mask, particles)
        return features.pull_all(cotangents), features.pull(cotangents)

    jacobians = jax.jit(jax.vmap(jax.jacrev(mask)), compiler_options=QUICK)(particles)
    expected = np.einsum("kijl,cij->kcl", jacobians, cotangents)
    every, own = pulls(particles)
    np.testing.assert_allclose(every, expected, atol=1e-4)
    np.testing.assert_allclose(own, np.einsum("kkl->kl", expected), atol=1e-4)


def test_what_comes_with_the_features_is_kept(particles):
    features = linearise(lambda r: (r**2, {"sum": r.sum()}), particles, has_aux=True)
    np.testing.assert_allclose(features.values, particles**2)
    np.testing.assert_allclose(features.aux["sum"], particles.sum(axis=1), rtol=1e-5)


def test_median_bandwidth_leaves_out_the_zeros(particles, scores):
    points = np.asarray(particles, float)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    expected = np.median(distances[np.triu_indices(K, 1)]) / np.log(K + 1)
    np.testing.assert_allclose(move(particles, scores).bandwidth, expected, rtol=1e-5)


def test_given_bandwidth_is_used(particles, scores):
    median = move(particles, scores)
    given = move(particles, scores, identity, SteinSettings(bandwidth=float(median.bandwidth)))
    wider = move(particles, scores, identity, SteinSettings(bandwidth=9.0))
    np.testing.assert_allclose(given.direction, median.direction, rtol=1e-5)
    assert wider.bandwidth == 9
    assert jnp.abs(wider.direction - median.direction).max() > 0.01


def test_coinciding_particles_have_the_smallest_bandwidth_and_climb(scores):
    step = move(jnp.ones((K, m)), scores, identity, SteinSettings(smallest_bandwidth=0.01))
    np.testing.assert_allclose(step.bandwidth, 0.01)
    np.testing.assert_allclose(step.direction, np.tile(scores.mean(axis=0), (K, 1)), atol=1e-5)


def test_one_particle_climbs_its_score(particles, scores):
    step = move(particles[:1], scores[:1])
    np.testing.assert_allclose(step.direction, scores[:1], rtol=1e-6)


def test_clip_shortens_and_counts_only_the_long():
    scores = jnp.array([[30.0, 40.0], [3.0, 4.0], [0.0, 0.0]])
    short, count = clip(scores, 10.0)
    assert count == 1
    np.testing.assert_allclose(short[0], [6.0, 8.0], rtol=1e-6)
    assert (short[1:] == scores[1:]).all()


def test_direction_uses_and_counts_the_clipped_scores(particles, scores):
    long = 1000 * scores
    shortened = 10 * long / jnp.linalg.norm(long, axis=1, keepdims=True)
    step = move(particles, long)
    assert step.clipped == K
    np.testing.assert_allclose(step.direction, move(particles, shortened).direction, atol=1e-5)


def test_missing_score_is_not_hidden(particles, scores):
    assert jnp.isnan(move(particles, scores.at[0, 0].set(jnp.nan)).direction).any()


def test_particles_recover_the_moments_of_a_skewed_target():
    """The distribution of x ~ log Gamma(2), skewed to the left, and y | x ~ N(x/2, 1/4)."""

    def log_density(point):
        x, y = point
        return 2 * x - jnp.exp(x) - 2 * (y - x / 2) ** 2

    optimiser = optax.adagrad(1.0)

    def step(carry, _):
        particles, state = carry
        scores = jax.vmap(jax.grad(log_density))(particles)
        move = direction(scores, linearise(identity, particles))
        updates, state = optimiser.update(-move.direction, state)
        return (optax.apply_updates(particles, updates), state), None

    start = 3 + jax.random.normal(jax.random.key(4), (100, 2))
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, length=400)[0])
    particles, _ = run((start, optimiser.init(start)))
    x, y = np.asarray(particles, float).T
    mean, variance, third = digamma(2), polygamma(1, 2), polygamma(2, 2)
    np.testing.assert_allclose([x.mean(), y.mean()], [mean, mean / 2], atol=0.05)
    # A hundred particles fall a seventh short of the variance; two hundred, a tenth.
    np.testing.assert_allclose(
        np.cov(x, y), [[variance, variance / 2], [variance / 2, variance / 4 + 1 / 4]], rtol=0.17
    )
    assert ((x - x.mean()) ** 3).mean() < third / 3


@pytest.mark.parametrize("named", ["bandwidth", "smallest_bandwidth", "score_clip"])
def test_impossible_settings_are_named(named):
    with pytest.raises(ValueError, match=named):
        SteinSettings(**{named: 0.0})
