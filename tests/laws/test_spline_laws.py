"""The spline's closed-form derivative is the derivative of the spline."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.kernels.coupling import inverse_spline, spline

pytestmark = pytest.mark.slow  # compiles splines

BINS, D = 5, 12


@pytest.mark.parametrize("function", [spline, inverse_spline])
def test_derivatives_equal_finite_differences(function):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x = jnp.asarray(3 * rng.normal(size=D))
        raw = jnp.asarray(rng.normal(size=(3 * BINS - 1, D)))

        @jax.jit
        def summary(x, raw):
            y, log_slope = function(x, raw, 5.0)
            return jnp.sin(y).sum() + (log_slope**2).sum()

        gradients = jax.grad(summary, argnums=(0, 1))(x, raw)
        for _ in range(5):
            along = rng.normal(size=D), rng.normal(size=raw.shape)
            step = 1e-6
            up, down = (
                summary(x + sign * step * along[0], raw + sign * step * along[1])
                for sign in (1, -1)
            )
            slope = sum(np.vdot(g, d) for g, d in zip(gradients, along, strict=True))
            np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=1e-5)


def test_the_derivative_of_the_spline_is_its_log_slope():
    rng = np.random.default_rng(1)
    x = jnp.asarray(3 * rng.normal(size=D), jnp.float32)
    raw = jnp.asarray(rng.normal(size=(3 * BINS - 1, D)), jnp.float32)
    slope = jax.grad(lambda x: spline(x, raw, 5.0)[0].sum())(x)
    np.testing.assert_allclose(jnp.log(slope), spline(x, raw, 5.0)[1], atol=1e-4)
