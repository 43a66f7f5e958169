"""Training the per-node guide on its bound, over the columns of given orders.

Sampling and gradients are compiled; the scores and flips between them are float64 on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from svidag.mechanisms.local import LocalScores
from svidag.variational.edge_objective import EdgeObjective, NodeBeliefs
from svidag.variational.node_guide import NodeGuide, Noise, draw_parents
from svidag.variational.tight_bound import EdgeTerms

__all__ = ["GuideState", "GuideTraining", "columns_of", "places_of"]


def places_of(orders: Int[np.ndarray, "K m"]) -> Int[np.ndarray, "K m"]:
    """The place of each node in orders that list causes first.

    Examples
    --------
    >>> places_of(np.array([[2, 0, 1]])).tolist()
    [[1, 2, 0]]
    """
    return np.argsort(orders, axis=1, kind="stable")


def columns_of(
    orders: Int[np.ndarray, "K m"], allowed: Bool[np.ndarray, "m m"]
) -> Bool[np.ndarray, "K m m"]:
    """``[k, j, i]``: i comes before j in order k and may be its parent (``allowed[j, i]``).

    Examples
    --------
    >>> columns_of(np.array([[1, 0]]), ~np.eye(2, dtype=bool)).astype(int).tolist()
    [[[0, 1], [0, 0]]]
    """
    place = places_of(orders)
    return (place[:, None, :] < place[:, :, None]) & allowed


class GuideState(NamedTuple):
    """The stacked guides and the optimiser's memory of them."""

    guides: NodeGuide
    optimiser: optax.OptState


class Judged(NamedTuple):
    """The parent sets that a step drew, and what became of them.

    Attributes
    ----------
    parents
        ``[j, k, s]``: draw s for node j in order k.
    log_joint
        f_j(B) + log p(B).
    gain
        What each edge adds to it, the others as drawn: Δ_ij + logit p_ij.
    worth
        What the draw adds to the bound: log p(D_j, B) − log q̂_j(B) if that is the tight one.
    """

    parents: Bool[np.ndarray, "m K S m"]
    log_joint: Float[np.ndarray, "m K S"]
    gain: Float[np.ndarray, "m K S m"]
    worth: Float[np.ndarray, "m K S"]

    @property
    def bound(self) -> Float[np.ndarray, " K"]:
        """The bound of each order, estimated from the draws."""
        return self.worth.mean(axis=2).sum(axis=0)


class GuideTraining:
    """Steps of gradient ascent on a bound.

    Parameters
    ----------
    scores
        f_j and its flips.
    terms
        The prior's part of the bound.
    draws
        S, draws of z per column; each gives a parent set, and all of them the density.
    optimiser
        Any optax transformation; it descends on minus the bound.
    objective
        Which bound, and by which gradient.
    """

    def __init__(
        self,
        scores: LocalScores,
        terms: EdgeTerms,
        *,
        draws: int,
        optimiser: optax.GradientTransformation,
        objective: EdgeObjective | None = None,
    ) -> None:
        self.scores = scores
        self.terms = terms
        self.draws = draws
        self.optimiser = optimiser
        self.objective = EdgeObjective() if objective is None else objective

    def start(self, guides: NodeGuide) -> GuideState:
        """The state before the first step."""
        return GuideState(guides, self.optimiser.init(eqx.filter(guides, eqx.is_inexact_array)))

    def step(
        self, state: GuideState, key: PRNGKeyArray, columns: Bool[np.ndarray, "K m m"]
    ) -> tuple[GuideState, Judged]:
        """Ascend once; also the draws that gave the direction."""
        by_node = jnp.asarray(columns.swapaxes(0, 1))
        beliefs = NodeBeliefs.of(self.terms)
        noise = Noise.draw(key, (*by_node.shape[:2], self.draws, by_node.shape[2]))
        parents, cost = _draw(self.objective, state.guides, noise, by_node, beliefs)
        judged = self._judge(columns.swapaxes(0, 1), np.asarray(parents), np.asarray(cost))
        slope = judged.gain
        if self.objective.bound == "published":
            slope = slope - self.terms.log_odds[:, None, None, :]  # the belief is in p(γ)
        slope = jnp.asarray(slope, jnp.float32)
        how = self.optimiser, self.objective
        return _ascend(*how, state, noise, by_node, beliefs, slope), judged

    def _judge(self, columns, parents, cost):
        """Score drawn parent sets [node, order, draw, m] and their flips."""
        m, K, S, _ = parents.shape
        nodes = np.repeat(np.arange(m), K * S)
        free = columns & ~self.terms.required[:, None, :]
        wanted = np.repeat(free.reshape(m * K, m), S, axis=0)
        score, delta = self.scores.flips(nodes, parents.reshape(-1, m), wanted)
        shape = (m, K, S)
        score = score.reshape(shape)
        log_joint = score + self.terms.log_prior(
            nodes.reshape(shape), np.repeat(columns[:, :, None], S, axis=2), parents
        )
        gain = delta.reshape(*shape, m) + self.terms.log_odds[:, None, None, :]
        before = log_joint if self.objective.bound == "tight" else score
        return Judged(parents, log_joint, gain, before - cost.astype(float))


@eqx.filter_jit
def _draw(objective, guides, noise, columns, beliefs):
    def single(guide, noise, column, beliefs):
        drawn = draw_parents(guide, noise, column, beliefs.required)
        return drawn.parents, objective.cost(guide, noise, drawn, column, beliefs)

    return _over_nodes_and_orders(single, guides, noise, columns, beliefs)


@eqx.filter_jit
def _ascend(optimiser, objective, state, noise, columns, beliefs, slope):
    def single(guide, noise, column, beliefs, slope):
        drawn = draw_parents(guide, noise, column, beliefs.required)  # the same draws again
        return objective.ascent(guide, noise, drawn, column, beliefs, slope)

    @eqx.filter_grad
    def descent(guides):
        each = _over_nodes_and_orders(single, guides, noise, columns, beliefs, slope)
        return -each.sum() / columns.shape[1]

    gradient = descent(state.guides)
    with jax.numpy_dtype_promotion("standard"):  # optax raises floats to integer powers
        updates, memory = optimiser.update(gradient, state.optimiser)
    return GuideState(eqx.apply_updates(state.guides, updates), memory)


def _over_nodes_and_orders(single, guides, noise, columns, beliefs, *rest):
    """`single` for every node (with its own guide) and, within it, for every order."""

    def node(guide, noise, columns, beliefs, *rest):
        return jax.vmap(lambda noise, column, *r: single(guide, noise, column, beliefs, *r))(
            noise, columns, *rest
        )

    return eqx.filter_vmap(node)(guides, noise, columns, beliefs, *rest)
