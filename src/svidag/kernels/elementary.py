"""Elementary functions of float32 numbers, to its rounding, in about half of XLA's time.

XLA's take care of zeros, infinities and signs that cannot occur where these are used. The
coefficients are minimax fits; the errors are those of exact arithmetic. Without
them all a step of Algorithm 1 takes 6 % longer at m = 11 and 10 % longer at m = 25
(`python benchmarks/kernels.py softplus+quantile`).
"""

from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LOG_1P = (
    *(-0.0085392029, 0.0440896192, -0.1076817076, 0.1774524212),
    *(-0.2449546358, 0.3327548004, -0.4999740543, 0.9999998057),
)
"""log(1 + t)/t for 0 ≤ t ≤ 1, relative error 2e-7; like all of these, highest power first."""
LOG_ROOT = (
    *(0.1182747773, -0.1890198637, 0.2060467599, -0.2488133881),
    *(0.3330329805, -0.5000196516, 1.0000032477),
)
"""log(1 + t)/t for √½ ≤ 1 + t ≤ √2, whose logarithm is then within 2e-7."""
QUANTILE = (
    (1.03250813e-05, 1.07499046e-03, 1.31235555e-02, 9.92854032e-02, 4.89351518e-01, 1.25331441),
    (1.17794086e-04, 2.96046706e-03, 3.24818036e-02, 1.28652394e-01, 1.0),
)
"""Φ⁻¹((1 + x)/2)/x as a ratio of polynomials in −log(1 − x²) ≤ 15.3, relative error 2e-7."""
ROOT_HALF = 0x3F3504F3
"""The bits of √½."""


def log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return log x of positive finite numbers, x = 2ᵉ (1 + t).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> x = jnp.array([0.01, 1.0, 30.0])
    >>> bool(jnp.allclose(log(x), jnp.log(x)))
    True
    """
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    exponent = (bits - ROOT_HALF) >> 23
    t = jax.lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32) - 1
    return exponent.astype(jnp.float32) * 0.6931471805599453 + t * _polynomial(LOG_ROOT, t)


def normal_quantile(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Φ⁻¹((1 + x)/2) for |x| ≤ 1 − 2⁻²³: a standard normal number if x is uniform on ±1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(normal_quantile(jnp.array(0.95))), 4)
    1.96
    """
    w = -log((1 - x) * (1 + x))
    above, below = (_polynomial(coefficients, w) for coefficients in QUANTILE)
    return x * above / below


@jax.custom_jvp
def softplus(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return log(1 + eˣ).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> softplus(jnp.array([-50.0, 0.0, 50.0])).round(4).tolist()
    [0.0, 0.6930999755859375, 50.0]
    """
    small = jnp.exp(-jnp.abs(x))
    return jnp.maximum(x, 0) + small * _polynomial(LOG_1P, small)


@softplus.defjvp
def _softplus_jvp(primals, tangents):
    (x,), (tangent,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * tangent


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    return reduce(
        lambda total, c: total * x + c, coefficients[1:], jnp.full_like(x, coefficients[0])
    )
