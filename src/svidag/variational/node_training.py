"""Burn-in of node inference: the guide climbs its bound while orders move on what it has found.

A step has three parts. The guides take one gradient step on their bound, over the columns of some
of the chains' orders. The parent sets that were drawn, and those one edge away, enter a collection
if they matter. Then the orders of all chains, each a ladder of replicas at several powers of the
target, move on the parent sets collected so far.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Float, Int

from svidag.graph.extension import draw_linear_extensions
from svidag.mechanisms.local import CachedScores, LocalScores
from svidag.networks.flows import FlowSettings
from svidag.orders.permutation import feasible, possible_edges, relocate_or_swap
from svidag.prior import EdgePrior
from svidag.run.array_tree import arrays_of, with_arrays
from svidag.run.loop import HostAlgorithm
from svidag.run.streams import host_generator
from svidag.variational.edge_objective import EdgeObjective
from svidag.variational.guide_training import GuideState, GuideTraining
from svidag.variational.kept_sets import ParentSetCollection
from svidag.variational.node_guide import NodeGuide, stack_flows, stack_mean_fields
from svidag.variational.settings import FLOWS, VariationalSettings

__all__ = ["NodeTraining", "TrainingInfo", "TrainingState", "nearby_orders"]


class TrainingState(NamedTuple):
    """Burn-in after some steps: guides with optimiser, parent sets found, orders of all levels."""

    guides: GuideState
    collection: ParentSetCollection
    replicas: Int[np.ndarray, "K levels m"]


class TrainingInfo(NamedTuple):
    """The metric of a step: the bound, averaged over its orders."""

    bound: float | Float[np.ndarray, ""]


class NodeTraining(HostAlgorithm[TrainingState]):
    """Trains the guides of all nodes; scores are computed on the host.

    Parameters
    ----------
    scores
        f_j and its changes by one edge.
    prior
        The prior over edges.
    settings
        How to train.
    """

    def __init__(
        self, scores: LocalScores, prior: EdgePrior, settings: VariationalSettings
    ) -> None:
        s = settings
        self.scores, self.prior, self.settings = scores, prior, settings
        self._levels = len(s.powers)
        rate = optax.cosine_decay_schedule(s.learning_rate, s.iterations, alpha=0.1)
        self._trainer = GuideTraining(  # one for all steps, which are compiled for it
            scores,
            prior,
            draws=s.draws,
            optimiser=optax.adam(rate),
            objective=EdgeObjective(s.bound, s.edge_gradient, float(s.temperature)),
        )

    def init(self, key: jax.Array) -> TrainingState:
        """Guides at their start, orders drawn uniformly, and only the smallest parent sets."""
        s = self.settings
        collection = ParentSetCollection(self.prior, self.scores, s.reach, s.capacity)
        guides = self._trainer.start(self._first_guides(key))
        rng = host_generator(key)
        orders = draw_linear_extensions(self.prior.required, s.chains * self._levels, rng)
        replicas = orders.reshape(s.chains, self._levels, -1).astype(np.int64)
        return TrainingState(guides, collection, replicas)

    def step(self, state: TrainingState, key: jax.Array) -> tuple[TrainingState, TrainingInfo]:
        """One gradient step of the guides, followed by moves of all orders."""
        s, allowed = self.settings, self.prior.allowed
        collection = state.collection.copy()  # an interrupted step changes nothing
        rng = host_generator(key)
        possible = possible_edges(self._training_orders(state.replicas, rng), allowed)
        guides, scored = self._trainer.step(state.guides, key, possible)
        collection.add_draws(possible, scored)
        # Moves ask about orders near by, and cannot go where no parent set is known: at any level,
        # or flatter replicas could not lead from one mode to another.
        level = rng.integers(self._levels, size=s.chains)
        replicas = np.concatenate(
            [state.replicas[:, -1], state.replicas[np.arange(s.chains), level]]
        )
        nearby = nearby_orders(replicas, self.prior, rng)
        kept = collection.freeze()
        collection.explore(kept, possible_edges(nearby, allowed), self.scores, rng)
        replicas = kept.walk(
            state.replicas, rng, powers=s.powers, sweeps=s.burn_in_sweeps, moves=s.moves
        )
        return TrainingState(guides, collection, replicas), TrainingInfo(scored.bound.mean())

    def save(self, state: TrainingState) -> dict[str, Any]:
        """Everything that later steps depend on, known scores included."""
        return {
            "guides": arrays_of(state.guides),
            "sets": state.collection.arrays(),
            "replicas": state.replicas,
            "scores": self.scores.arrays() if isinstance(self.scores, CachedScores) else None,
        }

    def restore(self, template: TrainingState, saved: Any) -> TrainingState:
        """The saved state; known scores return to the cache."""
        if isinstance(self.scores, CachedScores):
            self.scores.restore(saved["scores"])
        return TrainingState(
            with_arrays(template.guides, saved["guides"]),
            template.collection.restored(saved["sets"]),
            saved["replicas"],
        )

    def _training_orders(
        self, replicas: Int[np.ndarray, "K levels m"], rng: np.random.Generator
    ) -> Int[np.ndarray, "orders m"]:
        """Half the orders from the chains, the others from any level."""
        s = self.settings
        chain = rng.integers(s.chains, size=s.particles)
        level = rng.integers(self._levels, size=s.particles)
        level[: s.particles // 2] = self._levels - 1
        return replicas[chain, level]

    def _first_guides(self, key: jax.Array) -> NodeGuide:
        s = self.settings
        logits = s.starting_logits(self.prior.alpha, self.prior.beta)
        start = np.where(self.prior.allowed, logits, 0.0)
        if s.guide == "mean-field":
            return stack_mean_fields(start)
        settings = FlowSettings(s.blocks, s.bins, s.boundary, s.width, s.depth)
        return stack_flows(key, start, settings, FLOWS[s.guide])


def nearby_orders(
    orders: Int[np.ndarray, "K m"], prior: EdgePrior, rng: np.random.Generator
) -> Int[np.ndarray, "K m"]:
    """Each order with one node at another place, or as it is where hard knowledge forbids that.

    Examples
    --------
    >>> from svidag.prior import Prior
    >>> prior = Prior(required=[("a", "b")]).bind("ab")
    >>> nearby_orders(np.array([[0, 1]]), prior, np.random.default_rng(0)).tolist()
    [[0, 1]]
    """
    moved = relocate_or_swap(orders[:, None], rng, swaps=0.0)[:, 0]
    return np.where(feasible(moved, prior.required)[:, None], moved, orders)
