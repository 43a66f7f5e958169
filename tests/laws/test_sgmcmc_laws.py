"""Laws of Adam-SGMCMC: moments of a Gaussian, the temperature, the mode, and the guard."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.samplers.sgmcmc import MomentumState, langevin_step, momentum_start

RATE = 3e-4**0.5
MEAN, SD = np.array([1.0, -3.0, 0.0]), np.array([0.3, 1.0, 2.0])
CHAINS = 2000


def sampled(noise_scale, steps=8000, minibatch_noise=0.0):
    """Where many chains are after so many steps towards N(MEAN, SD²)."""
    mean, precision = jnp.asarray(MEAN, jnp.float32), jnp.asarray(SD**-2, jnp.float32)

    def step(carried, key):
        x, state = carried
        keys = jax.random.split(key)
        exact = (x - mean[None]) * precision[None]
        gradient = exact + minibatch_noise * jax.random.normal(keys[0], x.shape)
        x, state, finite = langevin_step(
            keys[1], x, state, gradient, rate=RATE, noise_scale=noise_scale
        )
        return (x, state), finite

    start = jnp.zeros((CHAINS, 3)) + mean[None]
    keys = jax.random.split(jax.random.key(0), steps)
    (x, _), finite = jax.jit(lambda: jax.lax.scan(step, (start, momentum_start(start)), keys))()
    assert bool(finite.all())
    return np.asarray(x, float)


def test_the_sampler_has_the_moments_of_a_gaussian():
    x = sampled(1.0)
    assert np.abs(x.mean(axis=0) - MEAN).max() < 4 * (SD / CHAINS**0.5).max()
    assert x.std(axis=0) == pytest.approx(SD, rel=0.1)
    correlation = np.corrcoef(x.T)[~np.eye(3, dtype=bool)]
    assert np.abs(correlation).max() < 4 / CHAINS**0.5


def test_noise_scales_the_temperature():
    assert sampled(0.5).std(axis=0) == pytest.approx(0.5 * SD, rel=0.1)


def test_without_noise_it_finds_the_mode():
    x = sampled(0.0, steps=2000)
    assert np.abs(x - MEAN).max() < 1e-3


def test_noise_of_gradients_adds_to_the_temperature():
    """So that with minibatches s = 1 is hotter than the posterior."""
    assert (sampled(1.0, minibatch_noise=5.0).std(axis=0) > 1.1 * SD).any()


def test_what_is_not_finite_is_left_as_it_was():
    at = {"a": jnp.ones(3), "b": jnp.ones(2)}
    before = MomentumState(
        {"a": jnp.ones(3), "b": jnp.ones(2)}, {"a": jnp.ones(3), "b": jnp.ones(2)}
    )
    huge = {"a": jnp.full(3, 1e30), "b": jnp.zeros(2)}  # its square overflows
    moved, state, finite = langevin_step(
        jax.random.key(0), at, before, huge, rate=RATE, noise_scale=1.0
    )
    assert not bool(finite)
    same = jax.tree.map(lambda x, y: bool((x == y).all()), (moved, state), (at, before))
    assert all(jax.tree.leaves(same))
