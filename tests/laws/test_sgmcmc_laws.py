"""Laws of Adam-SGMCMC: moments of a Gaussian, the temperature, the mode, and the guard."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.samplers.sgmcmc import MomentumState, langevin_step, momentum_start

RATE = 3e-4**0.5
MEAN, SD = np.array([1.0, -3.0, 0.0]), np.array([0.5, 1.0, 2.0])
CHAINS = 600

pytestmark = pytest.mark.slow  # thousands of steps


def sampled(noise_scale, gradient_noise, steps=6000, start=None):
    """Where many chains are after so many steps towards N(MEAN, SD²), from there by default."""
    mean, precision = jnp.asarray(MEAN, jnp.float32), jnp.asarray(SD**-2, jnp.float32)
    drawn = noise_scale * SD * np.random.default_rng(0).standard_normal((CHAINS, 3))
    start = jnp.asarray(MEAN + (drawn if start is None else np.full_like(drawn, start)))

    def step(carried, key):
        x, state = carried
        keys = jax.random.split(key)
        exact = (x - mean[None]) * precision[None]
        gradient = exact + gradient_noise * jax.random.normal(keys[0], x.shape)
        x, state, finite = langevin_step(
            keys[1], x, state, gradient, rate=RATE, noise_scale=noise_scale
        )
        return (x, state), finite

    keys = jax.random.split(jax.random.key(0), steps)
    (x, _), finite = jax.jit(lambda: jax.lax.scan(step, (start, momentum_start(start)), keys))()
    assert bool(finite.all())
    return np.asarray(x, float)


def test_the_sampler_has_the_moments_of_a_gaussian():
    """Gradients as noisy as those of minibatches keep V, and with it the scaling G, steady."""
    x = sampled(1.0, gradient_noise=5.0)
    assert np.abs((x.mean(axis=0) - MEAN) / SD).max() < 4 / CHAINS**0.5
    assert x.std(axis=0) == pytest.approx(SD, rel=0.15)
    correlation = np.corrcoef(x.T)[~np.eye(3, dtype=bool)]
    assert np.abs(correlation).max() < 4 / CHAINS**0.5


def test_noise_scales_the_temperature():
    assert sampled(0.5, gradient_noise=5.0).std(axis=0) == pytest.approx(0.5 * SD, rel=0.15)


def test_exact_gradients_widen_the_distribution():
    """V then follows the gradient, and no term corrects for G that changes with x: p(x)/G²."""
    ratio = sampled(1.0, gradient_noise=0.0).std(axis=0) / SD
    assert (ratio > 1.1).all()
    assert (ratio < 2**0.5).all()


def test_very_noisy_gradients_heat_the_chains():
    assert sampled(1.0, gradient_noise=500.0).std(axis=0)[0] > 1.07 * SD[0]


def test_without_noise_it_finds_the_mode():
    x = sampled(0.0, gradient_noise=0.0, steps=3000, start=1.0)
    assert np.abs(x - MEAN).max() < 1e-3


def test_what_is_not_finite_is_left_as_it_was():
    at = {"a": jnp.ones(3), "b": jnp.ones(2)}
    before = MomentumState(jax.tree.map(jnp.ones_like, at), jax.tree.map(jnp.ones_like, at))
    huge = {"a": jnp.full(3, 1e30), "b": jnp.zeros(2)}  # its square overflows
    moved, state, finite = langevin_step(
        jax.random.key(0), at, before, huge, rate=RATE, noise_scale=1.0
    )
    assert not bool(finite)
    same = jax.tree.map(lambda x, y: bool((x == y).all()), (moved, state), (at, before))
    assert all(jax.tree.leaves(same))
