"""What the node guide maximises: the tight or the published bound, by exact or relaxed gradients.

The default is the tight bound with the exact change by each edge
(:mod:`svidag.variational.tight_bound`). The alternatives are those of the paper, with mechanisms
integrated out; ablations compare the two.

*Published bound* (Eq. ELBO-flow-general). Model and guide share p(B | γ), and γ stays in both:

    L(φ; r) = Σ_j E[f_j(B_·j) + log p(γ_·j) − log q(γ_·j | r)],

with p(γ) the Logistic–Beta density. To be sure of an edge, the guide must push its logit into the
tail of that density, where log p(γ) is small.

*Straight-through gradient* (Eq. binary-concrete-sample). The bound is evaluated at the hard edges
B = 1[γ + R > 0] and differentiated as if they were B̃ = σ((γ + R)/T). Evidence is known at parent
sets only; its slope is that of the multilinear function through them, which is the exact change by
the edge. What remains of the bias is that of the relaxed edge and of the slope of log q̂.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from svidag.orders.relaxation import straight_through
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.variational.node_guide import GuideNoise, NodeGuide, ParentDraws
from svidag.variational.relaxed_edges import harden
from svidag.variational.settings import VariationalSettings
from svidag.variational.tight_bound import local_expectation, log_guide

__all__ = ["EdgeObjective", "straight_through_bound"]


class EdgeObjective(eqx.Module):
    """A bound and the way its gradient is taken, for one node.

    `bound`, `gradient` and `temperature` are the settings `bound`, `edge_gradient` and
    `temperature` (:mod:`svidag.variational.settings`).
    """

    bound: str = eqx.field(static=True, default=VariationalSettings.bound)
    gradient: str = eqx.field(static=True, default=VariationalSettings.edge_gradient)
    temperature: float = eqx.field(static=True, default=VariationalSettings.temperature)

    def cost(
        self,
        guide: NodeGuide,
        noise: GuideNoise,
        drawn: ParentDraws,
        column: Bool[Array, " m"],
        prior: JaxEdgePrior,
        node: Int[Array, ""],
    ) -> Float[Array, " S"]:
        """What the guide's own terms subtract from the bound, for each draw.

        Tight: log q̂(B), subtracted from log p(D_j, B). Published: log q(γ) − log p(γ), subtracted
        from f_j(B). `column` marks the possible parents of the node.
        """
        if self.bound == "tight":
            return drawn.log_guide
        log_density = guide.log_density(noise.z, column.astype(jnp.float32))
        return log_density - prior.node_log_density(drawn.logits, node)

    def ascent(
        self,
        guide: NodeGuide,
        noise: GuideNoise,
        drawn: ParentDraws,
        column: Bool[Array, " m"],
        prior: JaxEdgePrior,
        node: Int[Array, ""],
        slope: Float[Array, "S m"],
    ) -> Float[Array, ""]:
        """A function of the guide whose gradient is the step's direction.

        `slope` is what each edge adds to log p(D_j, B), or to f_j(B) for the published bound.
        """
        free = column & ~prior.required[:, node]
        if self.bound == "tight":
            if self.gradient == "difference":
                return local_expectation(drawn.logits, drawn.parents, slope, free)
            return straight_through_bound(drawn.logits, noise.edges, slope, free, self.temperature)
        soft = jax.nn.sigmoid(drawn.logits)
        if self.gradient == "straight-through":
            _, soft = harden(drawn.logits + noise.edges, self.temperature)
        gain = jnp.where(free[None, :], soft * jax.lax.stop_gradient(slope), 0.0).sum(axis=1)
        return (gain - self.cost(guide, noise, drawn, column, prior, node)).mean()


def straight_through_bound(
    logits: Float[Array, "S m"],
    noise: Float[Array, "S m"],
    gain: Float[Array, "S m"],
    free: Bool[Array, " m"],
    temperature: float,
) -> Float[Array, ""]:
    """The tight bound with hard edges in its value and relaxed ones in its derivative.

    Σ_i B̃_i sg[Δ_i + logit p_i] − log q̂(B̃), averaged over the draws.

    Examples
    --------
    An edge that is far from changing has no slope, however much it would gain:

    >>> logit, noise, gain = (jnp.array([[x]]) for x in (-9.0, 0.0, 50.0))
    >>> slope = jax.grad(straight_through_bound)(logit, noise, gain, jnp.array([True]), 0.3)
    >>> float(abs(slope[0, 0])) < 1e-3
    True
    """
    relaxed = straight_through(*harden(logits + noise, temperature))
    edges = jnp.where(free[None, :], relaxed, 0.0)
    bound = (edges * jax.lax.stop_gradient(gain)).sum(axis=1) - log_guide(logits, edges, free)
    return bound.mean()
