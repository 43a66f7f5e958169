"""The elementary functions against SciPy in float64, over all that they are used for."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from svidag.kernels.elementary import log, normal_quantile, softplus


def exact(x):
    return np.asarray(x, np.float64)


def test_logarithms_are_right_over_the_whole_range_of_positive_numbers():
    x = jnp.asarray(np.geomspace(1.2e-38, 3.4e38, 200_001), jnp.float32)
    truth = np.log(exact(x))
    np.testing.assert_allclose(log(x), truth, rtol=2e-7, atol=3e-7)
    near = jnp.asarray(np.linspace(0.5, 2.0, 200_001), jnp.float32)
    np.testing.assert_allclose(log(near), np.log(exact(near)), atol=3e-7)


def test_normal_quantiles_are_right_as_far_as_float32_reaches():
    below = np.arange(1, 2**23, 37) * 2.0**-22 - 1
    ends = np.concatenate([np.arange(1, 2000), 2**23 - np.arange(1, 2000)]) * 2.0**-22 - 1
    x = jnp.asarray(np.concatenate([below, ends, [2.0**-23 - 1, 1 - 2.0**-23]]), jnp.float32)
    tail = ndtri((1 - np.abs(exact(x))) / 2)
    np.testing.assert_allclose(normal_quantile(x), -np.sign(exact(x)) * tail, rtol=2e-6, atol=1e-12)


def test_softplus_and_its_derivative_are_right_in_both_tails():
    x = jnp.linspace(-80.0, 80.0, 100_001)
    truth = np.logaddexp(0, exact(x))
    np.testing.assert_allclose(softplus(x), truth, rtol=1e-6)
    slope = jax.vmap(jax.grad(softplus))(x)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-exact(x))), rtol=1e-5)
    assert jnp.isnan(softplus(jnp.array(jnp.nan)))
