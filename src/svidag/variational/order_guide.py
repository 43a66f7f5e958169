"""What stands for q(r): starting particles, and a Gaussian guide in place of particles."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from svidag.kernels import noise
from svidag.run.streams import host_generator


class GaussianOrders(eqx.Module):
    """q(r) = N(mean, softplus(rho)²), the guide over potentials without Stein particles."""

    mean: Float[Array, " m"]
    rho: Float[Array, " m"]

    def sample(self, key: Array, count: int) -> Float[Array, "K m"]:
        """Reparameterised draws."""
        drawn = noise.normal(key, (count, self.mean.shape[0]))
        return self.mean[None] + self.scale[None] * drawn

    @property
    def scale(self) -> Float[Array, " m"]:
        """Standard deviations."""
        return jax.nn.softplus(self.rho)

    def kl(self, prior_scale: float) -> Float[Array, ""]:
        """KL(q(r) ‖ N(0, σ_r²))."""
        scale = self.scale / prior_scale
        shift = self.mean / prior_scale
        return 0.5 * jnp.sum(scale**2 + shift**2 - 1 - 2 * jnp.log(scale))


def feasible_potentials(
    r: Float[np.ndarray, "K m"], required: Bool[np.ndarray, "m m"]
) -> Float[np.ndarray, "K m"]:
    """The same potentials, handed out so that every required cause comes before its effect.

    Walks down the sorted potentials; each goes to the free variable with the highest of its own,
    so a feasible order stays as it is.
    """
    out = np.empty_like(r)
    for particle, row in zip(out, r, strict=True):
        waiting = required.sum(axis=0)
        free = np.ones(len(row), dtype=bool)
        for value in np.sort(row)[::-1]:
            ready = np.flatnonzero(free & (waiting == 0))
            node = ready[row[ready].argmax()]
            particle[node] = value
            free[node] = False
            waiting = waiting - required[node]
    return out


def antithetic_potentials(key: Array, count: int, m: int) -> Float[np.ndarray, "K m"]:
    """Standard normal potentials in pairs r and −r, so that no order is favoured by chance."""
    rng = host_generator(key)
    half = rng.standard_normal(((count + 1) // 2, m), np.float32)
    return np.stack([half, -half], axis=1).reshape(-1, m)[:count]
