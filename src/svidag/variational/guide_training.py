"""Training the node guides on their bound, over the columns of given orders.

Draws and gradients are compiled; the scores and edge changes between them are computed on the host
in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Float, PRNGKeyArray

from svidag.mechanisms.local import LocalScores
from svidag.prior import EdgePrior
from svidag.variational.edge_objective import EdgeObjective
from svidag.variational.node_guide import GuideNoise, NodeGuide, draw_parents

__all__ = ["GuideState", "GuideTraining", "ScoredDraws"]


class GuideState(NamedTuple):
    """The stacked guides and the state of their optimiser."""

    guides: NodeGuide
    optimiser: optax.OptState

    @classmethod
    def first(cls, guides: NodeGuide, optimiser: optax.GradientTransformation) -> GuideState:
        """The state before the first step."""
        return cls(guides, optimiser.init(eqx.filter(guides, eqx.is_inexact_array)))


class ScoredDraws(NamedTuple):
    """The parent sets that a training step drew, with their scores; the first axis is the node.

    Attributes
    ----------
    parents
        ``[j, k, s]``: draw s of the parents of node j in order k.
    log_joint
        f_j(B) + log p(B).
    gain
        What each edge adds to it, the others as drawn: Δ_ij + logit p_ij.
    contribution
        What the draw adds to the bound: log p(D_j, B) − log q̂_j(B) if that is the tight one.
    """

    parents: Bool[np.ndarray, "m K S m"]
    log_joint: Float[np.ndarray, "m K S"]
    gain: Float[np.ndarray, "m K S m"]
    contribution: Float[np.ndarray, "m K S"]

    @property
    def bound(self) -> Float[np.ndarray, " K"]:
        """The bound of each order, estimated from the draws."""
        return self.contribution.mean(axis=2).sum(axis=0)


class GuideTraining:
    """Steps of gradient ascent on a bound.

    Parameters
    ----------
    scores
        f_j and its changes by one edge.
    prior
        The prior over edges.
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
        prior: EdgePrior,
        *,
        draws: int,
        optimiser: optax.GradientTransformation,
        objective: EdgeObjective | None = None,
    ) -> None:
        self.scores = scores
        self.prior = prior
        self.draws = draws
        self.optimiser = optimiser
        self.objective = EdgeObjective() if objective is None else objective
        self._compiled_prior = prior.to_jax()

    def start(self, guides: NodeGuide) -> GuideState:
        """The state before the first step."""
        return GuideState.first(guides, self.optimiser)

    def step(
        self, state: GuideState, key: PRNGKeyArray, possible: Bool[np.ndarray, "K m m"]
    ) -> tuple[GuideState, ScoredDraws]:
        """Ascend once for orders with these possible edges; also the draws that gave the direction.

        ``possible[k, i, j]`` says that order k allows i → j (`possible_edges`).
        """
        columns = possible.transpose(2, 0, 1)  # by node, then by order
        by_node, prior = jnp.asarray(columns), self._compiled_prior
        noise = GuideNoise.draw(key, (*columns.shape[:2], self.draws, columns.shape[2]))
        parents, cost = _draw(self.objective, state.guides, noise, by_node, prior)
        scored = self._score(columns, np.asarray(parents), np.asarray(cost))
        slope = scored.gain
        if self.objective.bound == "published":  # there, the belief is in p(γ)
            slope = slope - self.prior.free_log_odds.T[:, None, None, :]
        slope = jnp.asarray(slope, jnp.float32)
        how = self.optimiser, self.objective
        return _ascend(*how, state, noise, by_node, prior, slope), scored

    def _score(
        self,
        columns: Bool[np.ndarray, "m K m"],
        parents: Bool[np.ndarray, "m K S m"],
        cost: Float[np.ndarray, "m K S"],
    ) -> ScoredDraws:
        """Score drawn parent sets and their changes by one edge."""
        m, K, S, _ = parents.shape
        nodes = np.repeat(np.arange(m), K * S)
        free = columns & ~self.prior.required.T[:, None, :]
        wanted = np.repeat(free.reshape(m * K, m), S, axis=0)
        score, delta = self.scores.flips(nodes, parents.reshape(-1, m), wanted)
        shape = (m, K, S)
        score = score.reshape(shape)
        log_joint = score + self.prior.parents_log_prior(
            nodes.reshape(shape), np.repeat(columns[:, :, None], S, axis=2), parents
        )
        gain = delta.reshape(*shape, m) + self.prior.free_log_odds.T[:, None, None, :]
        before = log_joint if self.objective.bound == "tight" else score
        return ScoredDraws(parents, log_joint, gain, before - cost.astype(float))


@eqx.filter_jit
def _draw(objective, guides, noise, columns, prior):
    def single(guide, node, noise, column):
        drawn = draw_parents(guide, noise, column, prior.required[:, node])
        return drawn.parents, objective.cost(guide, noise, drawn, column, prior, node)

    return _over_nodes_and_orders(single, guides, noise, columns)


@eqx.filter_jit
def _ascend(optimiser, objective, state, noise, columns, prior, slope):
    def single(guide, node, noise, column, slope):
        drawn = draw_parents(guide, noise, column, prior.required[:, node])  # the same draws again
        return objective.ascent(guide, noise, drawn, column, prior, node, slope)

    return ascend(optimiser, single, state, noise, columns, slope)[0]


def ascend(optimiser, single, state, *by_node_and_order):
    """One step up the sum of `single` over nodes, averaged over orders; and its value before."""

    def descent(guides):
        each = _over_nodes_and_orders(single, guides, *by_node_and_order)
        return -each.sum() / each.shape[1]

    value, gradient = eqx.filter_value_and_grad(descent)(state.guides)
    with jax.numpy_dtype_promotion("standard"):  # optax raises floats to integer powers
        updates, memory = optimiser.update(gradient, state.optimiser)
    return GuideState(eqx.apply_updates(state.guides, updates), memory), -value


def _over_nodes_and_orders(single, guides, *by_node_and_order):
    """`single` for every node (with its own guide) and, within it, for every order."""

    def over_orders(guide, node, *by_order):
        return jax.vmap(lambda *one: single(guide, node, *one))(*by_order)

    nodes = jnp.arange(by_node_and_order[-1].shape[0])
    return eqx.filter_vmap(over_orders)(guides, nodes, *by_node_and_order)
