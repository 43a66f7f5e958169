"""The horseshoe prior on a weight: N(0, λ²τ²) with λ half-Cauchy (Carvalho et al. 2010).

Integrated over λ, with u = w²/(2τ²),

    p(w) = (2π³)^{−½} τ⁻¹ eᵘ E₁(u),

which has a logarithmic pole at w = 0 and tails like τ/w². eᵘ E₁(u) is by the rational
approximations 5.1.53 and 5.1.56 of Abramowitz and Stegun, which are right to 2e-7.
"""

from __future__ import annotations

from math import log, pi

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

__all__ = ["at_pole", "log_horseshoe"]

POLE = 1e-12
"""u is kept above this, a millionth of τ: there the density stands still."""

NEAR = (-0.57721566, 0.99999193, -0.24991055, 0.05519968, -0.00976004, 0.00107857)
"""E₁(u) + log u for u ≤ 1, from the constant up."""
OVER = (0.2677737343, 8.6347608925, 18.0590169730, 8.5733287401, 1.0)
UNDER = (3.9584969228, 21.0996530827, 25.6329561486, 9.5733223454, 1.0)
"""u eᵘ E₁(u) for u ≥ 1: one polynomial over the other, from the constant up."""


def log_horseshoe(w: Float[Array, "*shape"], scale: float) -> Float[Array, "*shape"]:
    """log p(w) with τ = `scale`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> [round(float(p), 2) for p in log_horseshoe(jnp.array([0.5, 2.0]), 1.0)]
    [-1.45, -3.08]
    """
    u = jnp.maximum(w**2 / (2 * scale**2), POLE)
    near = jnp.minimum(u, 1.0)
    close = jnp.log(_polynomial(NEAR, near) - jnp.log(near)) + near
    far = jnp.maximum(u, 1.0)
    # Divided by the highest power first, which would overflow.
    ratio = _polynomial(OVER[::-1], 1 / far) / _polynomial(UNDER[::-1], 1 / far)
    away = jnp.log(ratio) - jnp.log(far)
    return jnp.where(u <= 1, close, away) - log(scale) - 0.5 * log(2 * pi**3)


def at_pole(w: Float[Array, "*shape"], scale: float) -> Bool[Array, "*shape"]:
    """Whether a weight is so near to zero that the density is kept from its pole.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> at_pole(jnp.array([0.0, 1e-3]), 1.0).tolist()
    [True, False]
    """
    return w**2 / (2 * scale**2) < POLE


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
