"""The gradient of the tight bound on log p(D | r) by local expectations.

With mechanisms and edge probabilities integrated out, and the flow only in the guide, the bound is

    L(φ; r) = Σ_j E[f_j(B_·j) + Σ_i log p(B_ij) − log q̂_j(B_·j)],

where p(B_ij = 1) = α_ij/(α_ij + β_ij), B_·j comes from one of S draws of z, and q̂_j averages over
all of them. It holds for every S; as S grows it tends to the bound of the guide with z integrated
out. Let γ be the logits that B_·j was drawn from. Then

    ∂L/∂φ = E Σ_i ∂σ(γ_i)/∂φ · [Δ_ij + logit p_ij − (log q̂_j(B with i) − log q̂_j(B without i))],

without bias and without relaxation: each edge is summed over its two values while the others stay
as drawn. The derivative of −log q̂ at fixed B has mean zero and is left out; the bracket's last
term is what keeps the guide from collapsing to one graph.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from svidag.variational.node_guide import edge_log_odds, log_terms

__all__ = ["local_expectation", "log_guide"]


def log_guide(
    logits: Float[Array, "S P"], edges: Float[Array, "S P"], free: Bool[Array, " P"]
) -> Float[Array, " S"]:
    """log q̂(Bˢ), averaged over the logits of all draws; edges may be relaxed.

    Examples
    --------
    >>> logits, edges = jnp.array([[0.0], [0.0]]), jnp.array([[1.0], [0.0]])
    >>> [round(float(q), 3) for q in log_guide(logits, edges, jnp.array([True]))]  # log ½
    [-0.693, -0.693]
    """
    drawn = jnp.where(free[None, :], edges, 0.0)
    none = jnp.where(free[None, :], jax.nn.log_sigmoid(-logits), 0.0).sum(axis=1)
    terms = (drawn[:, None, :] * logits[None, :, :]).sum(axis=2) + none[None, :]
    return logsumexp(terms, axis=1) - jnp.log(float(len(logits)))


def local_expectation(
    logits: Float[Array, "S m"],
    parents: Bool[Array, "S m"],
    gain: Float[Array, "S m"],
    free: Bool[Array, " m"],
) -> Float[Array, ""]:
    """A function of the logits whose gradient has the bound's gradient as its mean.

    Parameters
    ----------
    logits, parents
        γˢ and the parent set Bˢ drawn from it, for each draw of z; all S parent sets count.
    gain
        Δ_i + logit p_i at Bˢ.
    free
        The pairs that the guide draws.

    Examples
    --------
    At the optimum of a single edge, where its logit is the gain, the gradient vanishes:

    >>> logits, gain = jnp.array([[0.7]]), jnp.array([[0.7]])
    >>> drawn, free = jnp.array([[True]]), jnp.array([True])
    >>> float(abs(jax.grad(local_expectation)(logits, drawn, gain, free)[0, 0])) < 1e-6
    True
    """
    odds = edge_log_odds(logits, parents, log_terms(logits, parents, free))
    bracket = jax.lax.stop_gradient(jnp.where(free[None, :], gain - odds, 0.0))
    return (jax.nn.sigmoid(logits) * bracket).sum() / logits.shape[0]
