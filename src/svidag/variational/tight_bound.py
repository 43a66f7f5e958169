"""The tight bound on log p(D | r), and its gradient by local expectations.

With mechanisms and edge beliefs integrated out, and the flow only in the guide, the bound is

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

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from svidag.prior import EdgePrior
from svidag.variational.node_guide import edge_log_odds, log_terms

__all__ = ["EdgeTerms", "local_expectation"]


@dataclass(frozen=True, eq=False)
class EdgeTerms:
    """The prior's part of the bound, row j for node j: log odds and log(1 − p) of the open pairs.

    Pairs that hard knowledge settles have no factor, and α = β = 1.

    Examples
    --------
    >>> from svidag.prior import Prior
    >>> terms = EdgeTerms.of(Prior(p=0.5, required=[("a", "b")]).bind("abc"))
    >>> terms.log_absent.round(3).tolist()[1]  # node b: a is required, b itself, c is open
    [0.0, 0.0, -0.693]
    """

    log_odds: Float[np.ndarray, "m m"]
    log_absent: Float[np.ndarray, "m m"]
    allowed: Bool[np.ndarray, "m m"]
    required: Bool[np.ndarray, "m m"]
    alpha: Float[np.ndarray, "m m"]
    beta: Float[np.ndarray, "m m"]

    @classmethod
    def of(cls, prior: EdgePrior) -> EdgeTerms:
        """Take the terms from a prior that knows the columns."""
        open_pairs = prior.free.T
        log_odds = np.where(open_pairs, np.log(prior.alpha.T) - np.log(prior.beta.T), 0.0)
        log_absent = np.where(open_pairs, np.log1p(-prior.marginal.T), 0.0)
        alpha, beta = (np.where(open_pairs, x.T, 1.0) for x in (prior.alpha, prior.beta))
        return cls(log_odds, log_absent, prior.allowed.T, prior.required.T, alpha, beta)

    def log_prior(
        self,
        nodes: np.ndarray,
        columns: Bool[np.ndarray, "*batch m"],
        parents: Bool[np.ndarray, "*batch m"],
    ) -> Float[np.ndarray, "*batch"]:
        """Σ_i log p(B_i) over the open predecessors of each node.

        Examples
        --------
        >>> from svidag.prior import Prior
        >>> terms = EdgeTerms.of(Prior(p=0.5).bind("ab"))
        >>> before = np.array([[True, False]])
        >>> terms.log_prior(np.array([1]), before, before).round(4).tolist()
        [-0.6931]
        """
        present = np.where(parents, self.log_odds[nodes], 0.0)
        return (present + np.where(columns, self.log_absent[nodes], 0.0)).sum(axis=-1)


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
