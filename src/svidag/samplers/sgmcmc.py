"""Stochastic-gradient MCMC with momentum and Adam's scaling (Annadani et al. 2023, appendix).

With ĝ an estimate of ∇U(x), U = −log p(x | D), every coordinate moves by

    V ← 0.99 V + 0.01 ĝ²,    G = (ε + (ε + V)^½)^−½,
    v ← 0.9 v + η G ĝ + s (2 (1 − 0.9) − η²)^½ ξ,    x ← x − η G v,    ξ ~ N(0, 1).

Friction and noise balance: where G hardly changes, x is distributed as exp(−U/s²) up to a few per
cent. So s = 1 samples and s = 0 is an optimiser. No term corrects for a G that changes with x: with
exact gradients V follows them and the distribution is exp(−U/s²)/G², up to √2 times as wide as it
should be. Noise of minibatches keeps V steady, and heats the chains where it is large.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from svidag.kernels import noise

__all__ = ["MomentumState", "langevin_step", "momentum_start"]

FRICTION, SQUARES, SMALLEST = 0.9, 0.99, 1e-8
"""What a step leaves of the momentum and of V, and ε."""


class MomentumState(NamedTuple):
    """v and V, in the shape of what moves."""

    momentum: Any
    square: Any


def momentum_start(at: Any) -> MomentumState:
    """No momentum, and no squares of gradients yet.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> momentum_start({"x": jnp.ones(2)}).square["x"].tolist()
    [0.0, 0.0]
    """
    zeros = [jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype)), at) for _ in "12"]
    return MomentumState(*zeros)


def langevin_step(
    key: PRNGKeyArray,
    at: Any,
    state: MomentumState,
    gradient: Any,
    *,
    rate: float,
    noise_scale: float,
) -> tuple[Any, MomentumState, Bool[Array, ""]]:
    """Where a tree of arrays moves to, its next momentum, and whether that was finite.

    `gradient` is ĝ, `rate` η and `noise_scale` s. What would not be finite is left as it was.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> at = jnp.array([2.0])
    >>> still = momentum_start(at)
    >>> moved, _, finite = langevin_step(
    ...     jax.random.key(0), at, still, at, rate=0.1, noise_scale=0.0
    ... )
    >>> bool(finite), bool(moved[0] < 2)
    (True, True)
    >>> stayed, _, finite = langevin_step(
    ...     jax.random.key(0), at, still, at * jnp.inf, rate=0.1, noise_scale=0.0
    ... )
    >>> bool(finite), stayed.tolist()
    (False, [2.0])
    """
    scale = noise_scale * math.sqrt(2 * (1 - FRICTION) - rate**2)
    leaves, tree = jax.tree.flatten(at)
    keys = noise.split(key, len(leaves))

    def move(key, x, v, V, g):
        V = SQUARES * V + (1 - SQUARES) * g**2
        G = 1 / jnp.sqrt(SMALLEST + jnp.sqrt(SMALLEST + V))
        v = FRICTION * v + rate * G * g + scale * noise.normal(key, x.shape)
        return x - rate * G * v, v, V

    old = [leaves, jax.tree.leaves(state.momentum), jax.tree.leaves(state.square)]
    moved = [move(*parts) for parts in zip(keys, *old, jax.tree.leaves(gradient), strict=True)]
    finite = jnp.all(jnp.stack([jnp.isfinite(part).all() for parts in moved for part in parts]))
    new = [
        tree.unflatten(
            [jnp.where(finite, parts[at], was) for parts, was in zip(moved, old[at], strict=True)]
        )
        for at in range(3)
    ]
    return new[0], MomentumState(new[1], new[2]), finite
