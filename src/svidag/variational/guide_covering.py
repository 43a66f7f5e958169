"""The guide learns to cover: parent sets that training found, as often as their evidence has them.

The gradient of the bound is that of −KL(q ‖ p). It has a factor q(1 − q) for each edge, so that a
guide which has settled for one of several explanations has no slope towards the others, and one
column in which an edge is worth hundreds outweighs many in which it is worth little. After training
the guide therefore takes steps on the opposite divergence,

    −KL(p_j ‖ q_j) = E_{S ~ p_j(· | U)} log q_j(S | U) + constant,

over the orders of the chains. p_j(S | U) ∝ exp w_j(S) is the posterior among the kept sets
(:mod:`svidag.variational.kept_sets`): what the guide itself has drawn, and neighbours of that
(memoised wake–sleep, Hewitt et al. 2020). No parent set is scored. For independent edges whose
logits are linear in the column, away from their limit, the problem is convex, and at its solution
each edge is as probable under the guide as under p_j, averaged over these orders.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from svidag.orders.permutation import possible_edges
from svidag.prior import EdgePrior
from svidag.run.array_tree import arrays_of, with_arrays
from svidag.run.loop import HostAlgorithm
from svidag.run.streams import host_generator
from svidag.variational.guide_training import GuideState, ascend
from svidag.variational.kept_sets import KeptParentSets
from svidag.variational.node_guide import GuideNoise, NodeGuide
from svidag.variational.settings import VariationalSettings
from svidag.variational.tight_bound import log_guide

__all__ = ["CoveringInfo", "CoveringState", "GuideCovering"]

TARGETS = 16  # parent sets drawn for each column


class CoveringState(NamedTuple):
    """Guides with their optimiser, and the orders of all levels."""

    guides: GuideState
    replicas: Int[np.ndarray, "K levels m"]


class CoveringInfo(NamedTuple):
    """The metric of a step: log q of kept parent sets, summed over nodes."""

    log_guide: float | Float[np.ndarray, ""]


class GuideCovering(HostAlgorithm[CoveringState]):
    """Steps of gradient ascent on −KL(p ‖ q), from guides and orders that training left.

    Parameters
    ----------
    guides, replicas
        Where training ended.
    kept
        The parent sets that it found.
    prior
        The prior over edges.
    settings
        How many steps, over how many orders.
    """

    def __init__(
        self,
        guides: NodeGuide,
        replicas: Int[np.ndarray, "K levels m"],
        kept: KeptParentSets,
        prior: EdgePrior,
        settings: VariationalSettings,
    ) -> None:
        s = settings
        self.guides, self.replicas, self.kept, self.prior = guides, replicas, kept, prior
        self.settings = s
        self._walks = math.ceil(s.particles / len(replicas))
        rate = optax.cosine_decay_schedule(s.learning_rate, max(s.covering, 1), alpha=0.03)
        self._optimiser = optax.adam(rate)

    def init(self, key: jax.Array) -> CoveringState:
        """What training left, with a fresh optimiser."""
        return CoveringState(GuideState.first(self.guides, self._optimiser), self.replicas)

    def step(self, state: CoveringState, key: jax.Array) -> tuple[CoveringState, CoveringInfo]:
        """Move the orders, draw parent sets that were kept, and raise their density."""
        rng, replicas, orders = host_generator(key), state.replicas, []
        for _ in range(self._walks):
            replicas = self._walk(replicas, rng)
            orders.append(replicas[:, -1])
        possible = possible_edges(np.concatenate(orders), self.prior.allowed)
        columns = possible.transpose(2, 0, 1)  # by node, then by order
        m, K = columns.shape[:2]
        nodes = np.repeat(np.arange(m), K)
        sets = self.kept.draw(nodes, columns.reshape(-1, m), TARGETS, rng)
        noise = GuideNoise.draw(key, (m, K, self.settings.draws, m))
        guides, value = _cover(
            self._optimiser,
            state.guides,
            noise.z,
            jnp.asarray(columns),
            jnp.asarray(sets.reshape(m, K, TARGETS, m)),
            jnp.asarray(self.prior.required),
        )
        return CoveringState(guides, replicas), CoveringInfo(float(value))

    def save(self, state: CoveringState) -> dict[str, Any]:
        """Guides with their optimiser, and orders."""
        return {"guides": arrays_of(state.guides), "replicas": state.replicas}

    def restore(self, template: CoveringState, saved: Any) -> CoveringState:
        """The saved state."""
        return CoveringState(with_arrays(template.guides, saved["guides"]), saved["replicas"])

    def _walk(self, replicas, rng):
        s = self.settings
        sweeps = math.ceil(s.burn_in_sweeps / self._walks)
        return self.kept.walk(replicas, rng, powers=s.powers, sweeps=sweeps, moves=s.moves)


def log_density(
    logits: Float[Array, "S m"], sets: Bool[Array, "T m"], free: Bool[Array, " m"]
) -> Float[Array, " T"]:
    """log q̂ of given parent sets, averaged over the logits of S draws of z.

    Examples
    --------
    >>> sets = jnp.array([[True, False], [False, False], [True, True]])
    >>> [round(float(q), 3) for q in log_density(jnp.zeros((1, 2)), sets, jnp.ones(2, bool))]
    [-1.386, -1.386, -1.386]
    """
    return jax.vmap(lambda one: log_guide(logits, jnp.broadcast_to(one, logits.shape), free)[0])(
        sets.astype(logits.dtype)
    )


@eqx.filter_jit
def _cover(optimiser, state, z, columns, sets, required):
    def single(guide, node, z, column, sets):
        logits = guide.logits(z, column.astype(jnp.float32))
        return log_density(logits, sets, column & ~required[:, node]).mean()

    return ascend(optimiser, single, state, z, columns, sets)
