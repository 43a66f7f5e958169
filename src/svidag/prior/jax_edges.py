"""The matrices of the prior for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from svidag.orders.mask import before
from svidag.prior.edges import EdgePrior, logistic_beta_log_density


class JaxEdgePrior(NamedTuple):
    """The matrices of an `EdgePrior` for compiled code: Beta parameters and hard knowledge.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from svidag.prior import Prior
    >>> edges = Prior(p=0.5, nu_min=0).bind(["a", "b"]).to_jax()
    >>> round(float(edges.log_density(jnp.zeros((2, 2)))), 4)
    -2.7726
    """

    alpha: Float[Array, "m m"]
    beta: Float[Array, "m m"]
    allowed: Bool[Array, "m m"]
    required: Bool[Array, "m m"]

    @property
    def free(self) -> Bool[Array, "m m"]:
        """Pairs whose B_ij hard knowledge leaves open."""
        return self.allowed & ~self.required

    @property
    def log_odds(self) -> Float[Array, "m m"]:
        """log(α/β), of the Beta-Bernoulli marginal of every pair."""
        return jnp.log(self.alpha) - jnp.log(self.beta)

    def graph(
        self, B: Float[Array, "*K m m"], mask: Float[Array, "*K m m"]
    ) -> Float[Array, "*K m m"]:
        """A = B ⊙ M on the pairs that are allowed, with the required ones present."""
        required = jnp.broadcast_to(self.required, B.shape)
        allowed = jnp.broadcast_to(self.allowed, B.shape)
        present = jnp.where(required, jnp.ones((), B.dtype), B)
        return jnp.where(allowed, present * mask, jnp.zeros((), B.dtype))

    def feasible(self, r: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether the order puts every required cause before its effect."""
        return jnp.all(~self.required | before(r))

    def log_density(self, gamma: Float[Array, "m m"]) -> Float[Array, ""]:
        """log p(γ) = Σ_{i≠j} log p(γ_ij), the Logistic–Beta density of the logits of all pairs."""
        density = logistic_beta_log_density(gamma, self.alpha, self.beta)
        off_diagonal = ~jnp.eye(len(gamma), dtype=bool)
        return jnp.sum(jnp.where(off_diagonal, density, jnp.zeros((), density.dtype)))

    def node_log_density(
        self, gamma: Float[Array, "S m"], node: Int[Array, ""]
    ) -> Float[Array, " S"]:
        """log p(γ_·j) = Σ_i log p(γ_ij) for several logits of one node j.

        The logits of pairs that hard knowledge decides have no effect; their density has α = β = 1.
        """
        free, one = self.free[:, node], jnp.ones((), gamma.dtype)
        alpha, beta = (jnp.where(free, x[:, node], one) for x in (self.alpha, self.beta))
        return logistic_beta_log_density(gamma, alpha[None, :], beta[None, :]).sum(axis=1)


def jax_edge_prior(prior: EdgePrior) -> JaxEdgePrior:
    """The matrices of a prior, in single precision."""
    alpha, beta = np.asarray([prior.alpha, prior.beta], np.float32)
    return JaxEdgePrior(*jax.device_put((alpha, beta, prior.allowed, prior.required)))
