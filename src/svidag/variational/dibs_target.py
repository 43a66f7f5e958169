"""The target of DiBS: graphs from inner products of latent vectors, a prior, a weight on cycles.

Every variable has two latent vectors, u_i as a cause and v_j as an effect, and

    p(G_ij = 1 | Z) = σ(α s_ij),    s_ij = u_iᵀ v_j,
    log p(Z) = −β E_{G|Z}[h(G)] + Σ_ij λ_ij σ(α s_ij) − ‖Z‖²/(2σ_z²),    σ_z = 1/√k,

with h(G) = tr[(I + G/m)ᵐ] − m, which is 0 if and only if G has no cycle, and λ the log odds of an
edge in the prior. Pairs that hard knowledge decides are 0 or 1 in every graph. All gradients are
with respect to s; `pull_back` takes them to Z.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from svidag.kernels import noise

__all__ = ["DiBSTarget", "Latent", "cycle_slope", "cycles"]


class Latent(NamedTuple):
    """Z: the vectors of every variable as a cause (u) and as an effect (v), for K particles.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> Latent(jnp.ones((1, 3, 2)), jnp.ones((1, 3, 2))).scores[0, 0].tolist()
    [2.0, 2.0, 2.0]
    """

    cause: Float[Array, "K m k"]
    effect: Float[Array, "K m k"]

    @property
    def scores(self) -> Float[Array, "K m m"]:
        """s_ij = u_iᵀ v_j."""
        return jnp.einsum("pid,pjd->pij", self.cause, self.effect)

    def pull_back(self, slope: Float[Array, "K m m"]) -> Latent:
        """The gradient with respect to Z of a function whose gradient with respect to s is this."""
        return Latent(
            jnp.einsum("pij,pjd->pid", slope, self.effect),
            jnp.einsum("pij,pid->pjd", slope, self.cause),
        )


def cycles(G: Float[Array, "*batch m m"]) -> Float[Array, "*batch"]:
    """h(G) = tr[(I + G/m)ᵐ] − m: above 0 if and only if G has a cycle.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> edge = jnp.array([[0.0, 1.0], [0.0, 0.0]])
    >>> float(cycles(edge)), float(cycles(edge + edge.T))
    (0.0, 0.5)
    """
    m = G.shape[-1]
    # tr Mᵐ = Σ_ij (Mᵐ⁻¹)_ij M_ji
    walks = jnp.swapaxes(cycle_slope(G), -1, -2)
    return jnp.sum(walks * jnp.swapaxes(_one_step(G), -1, -2), axis=(-2, -1)) - m


def cycle_slope(G: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """∂h/∂G = [(I + G/m)ᵐ⁻¹]ᵀ, by repeated squaring.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> G = jnp.full((3, 3), 0.4)
    >>> bool(jnp.allclose(cycle_slope(G), jax.grad(cycles)(G)))
    True
    """
    square, power = _one_step(G), G.shape[-1] - 1
    total = None
    while power:
        if power & 1:
            total = square if total is None else total @ square
        power >>= 1
        square = square @ square if power else square
    walks = jnp.broadcast_to(jnp.eye(G.shape[-1]), G.shape) if total is None else total
    return jnp.swapaxes(walks, -1, -2)


def _one_step(G: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    return jnp.broadcast_to(jnp.eye(G.shape[-1], dtype=G.dtype), G.shape) + G / G.shape[-1]


class DiBSTarget(eqx.Module):
    """The prior over graphs, and how graphs are drawn from scores.

    Attributes
    ----------
    log_odds
        λ_ij = log p_ij/(1 − p_ij) of an edge in the prior.
    free, required
        The pairs that hard knowledge leaves open, and those that it sets.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> free = ~jnp.eye(2, dtype=bool)
    >>> target = DiBSTarget(jnp.zeros((2, 2)), free, ~free & False)
    >>> target.probabilities(jnp.zeros((1, 2, 2)), jnp.array(1.0)).tolist()
    [[[0.0, 0.5], [0.5, 0.0]]]
    """

    log_odds: Float[Array, "m m"]
    free: Bool[Array, "m m"]
    required: Bool[Array, "m m"]

    def decide(self, edges: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
        """Edges with the pairs that hard knowledge decides as it says."""
        free, required = (jnp.broadcast_to(x, edges.shape) for x in (self.free, self.required))
        return jnp.where(free, edges, required.astype(edges.dtype))

    def probabilities(
        self, scores: Float[Array, "K m m"], alpha: Float[Array, ""]
    ) -> Float[Array, "K m m"]:
        """p(G_ij = 1 | Z) = σ(α s_ij)."""
        return self.decide(jax.nn.sigmoid(alpha * scores))

    def graphs(self, scores: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
        """1[s_ij > 0]: the graph of a particle, to which its graphs tend as α grows."""
        return self.decide((scores > 0).astype(scores.dtype))

    def draw_hard(
        self, key: PRNGKeyArray, scores: Float[Array, "K m m"], alpha: Float[Array, ""], draws: int
    ) -> Float[Array, "K M m m"]:
        """Graphs from p(G | Z)."""
        return self.decide((self._logits(key, scores, alpha, draws) > 0).astype(scores.dtype))

    def draw_soft(
        self, key: PRNGKeyArray, scores: Float[Array, "K m m"], alpha: Float[Array, ""], draws: int
    ) -> Float[Array, "K M m m"]:
        """Relaxed graphs σ(α s + logistic noise), differentiable in s."""
        return self.decide(jax.nn.sigmoid(self._logits(key, scores, alpha, draws)))

    def _logits(self, key, scores, alpha, draws):
        K, m, _ = scores.shape
        return noise.logistic(key, (K, draws, m, m)) + (alpha * scores)[:, None]

    def prior_slope(
        self,
        key: PRNGKeyArray,
        scores: Float[Array, "K m m"],
        alpha: Float[Array, ""],
        beta: Float[Array, ""],
        draws: int,
    ) -> Float[Array, "K m m"]:
        """∂/∂s of −β E[h(G)] + Σ λ σ(α s), the expectation by soft graphs."""
        soft = self.draw_soft(key, scores, alpha, draws)
        cyclic = (cycle_slope(soft) * soft * (1 - soft)).mean(axis=1)
        p = jax.nn.sigmoid(alpha * scores)
        prior = self.log_odds[None] * p * (1 - p)
        return jnp.where(self.free[None], alpha * (prior - beta * cyclic), 0.0)

    def evidence_slope(
        self,
        graphs: Float[Array, "K M m m"],
        weights: Float[Array, "K M m"],
        scores: Float[Array, "K m m"],
        alpha: Float[Array, ""],
    ) -> Float[Array, "K m m"]:
        """Σ_m w_m ∂ log p(G_m | Z)/∂s = α (Σ_m w_m G_m − p); each node may have its own weights."""
        mean = jnp.einsum("pgj,pgij->pij", weights, graphs)
        return alpha * (mean - self.probabilities(scores, alpha))
