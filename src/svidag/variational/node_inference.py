"""Orders by pseudo-marginal moves, parents by the per-node guide: inference without tables.

Burn-in alternates two things on K chains, each a ladder of replicas: a step of the guide on its
bound, over the columns of some of their orders, and moves of all orders on the parent sets
that the guide has come upon. Then guide and sets are frozen, and moves corrected by unbiased
estimates run at the true target while graphs and edge probabilities are collected, until halves of
the chains agree.

Step and round t draw from ``fold_in(key, t)``, so a run that was cut off goes on from what it left
as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import optax
from jaxtyping import Float, Int, UInt8

from svidag.graph.extension import draw_linear_extensions
from svidag.mechanisms.local import LocalScores
from svidag.networks.flows import FlowSettings
from svidag.prior import EdgePrior
from svidag.run.convergence import Agreement
from svidag.variational.edge_objective import EdgeObjective
from svidag.variational.evidence_estimate import GuideEstimator, host_generator
from svidag.variational.guide_training import GuideState, GuideTraining, columns_of
from svidag.variational.kept_sets import (
    Collection,
    Remembered,
    RememberedEstimator,
    UncorrectedGuide,
)
from svidag.variational.node_guide import NodeGuide, stack_flows, stack_mean_fields
from svidag.variational.pseudo_marginal import Chains, PseudoMarginal, feasible, relocate_or_swap
from svidag.variational.settings import NodeGuideSettings
from svidag.variational.tight_bound import EdgeTerms

__all__ = ["Begun", "Collected", "Guided", "Sampling", "Training"]

REPEATS = 8  # estimates for a diagnostic
RELEVANT = 10.0  # nats by which an order near by may fall short and still be looked at


@dataclass(frozen=True, eq=False)
class Training:
    """Burn-in after some steps.

    Attributes
    ----------
    state
        The guides and their optimiser.
    collection
        The parent sets that were come upon.
    replicas
        The orders of all levels.
    bounds
        The bound, averaged over the orders of each step.
    """

    state: GuideState
    collection: Collection
    replicas: Int[np.ndarray, "K levels m"]
    bounds: Float[np.ndarray, " steps"]


@dataclass(frozen=True, eq=False)
class Sampling:
    """What was collected in some rounds after burn-in, and where the chains stand.

    Attributes
    ----------
    chains
        The chains.
    orders, graphs
        Kept orders (causes first) and graphs.
    edge_sums
        For each chain, its edge probabilities given the order, summed over rounds.
    log_evidence
        The estimate of log p(D | order) at every round.
    known
        For each chain, the share of the evidence that kept sets account for, summed over rounds.
    accepts
        How many proposals each chain accepted.
    """

    chains: Chains
    orders: Int[np.ndarray, "K R m"]
    graphs: UInt8[np.ndarray, "K R m m"]
    edge_sums: Float[np.ndarray, "K m m"]
    log_evidence: Float[np.ndarray, "K T"]
    known: Float[np.ndarray, " K"]
    accepts: Int[np.ndarray, " K"]

    @classmethod
    def blank(cls, chains: Chains) -> Sampling:
        """Nothing collected yet."""
        K, m = chains.orders.shape
        return cls(
            chains,
            np.empty((K, 0, m), dtype=np.int64),
            np.empty((K, 0, m, m), dtype=np.uint8),
            np.zeros((K, m, m)),
            np.empty((K, 0)),
            np.zeros(K),
            np.zeros(K, dtype=np.int64),
        )

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return self.log_evidence.shape[1]

    @property
    def edges(self) -> Float[np.ndarray, "K m m"]:
        """The mean of each chain's edge probabilities given the order (Rao–Blackwell)."""
        return self.edge_sums / max(self.rounds, 1)

    def enough(self, rule: Agreement) -> bool:
        """Whether the chains may end."""
        return self.rounds > 0 and rule.reached(self.edges, self.log_evidence)

    def followed_by(self, later: Sampling) -> Sampling:
        """Both together, as one run."""
        return Sampling(
            later.chains,
            np.concatenate([self.orders, later.orders], axis=1),
            np.concatenate([self.graphs, later.graphs], axis=1),
            self.edge_sums + later.edge_sums,
            np.concatenate([self.log_evidence, later.log_evidence], axis=1),
            self.known + later.known,
            self.accepts + later.accepts,
        )


@dataclass(frozen=True, eq=False)
class Collected:
    """What a run leaves behind.

    Attributes
    ----------
    sampling
        What the chains collected after burn-in.
    spread
        Standard deviation of the estimate of log p(D | order), repeated at the last orders.
    missing
        The largest log p̂_j − log g_j of a node, over orders one relocation away from the last and
        not much less probable: large if moves shun them for want of parent sets.
    bounds
        The bound, averaged over orders, at every step of training.
    kept
        Kept parent sets of each node.
    """

    sampling: Sampling
    spread: float
    missing: float
    bounds: Float[np.ndarray, " steps"]
    kept: Int[np.ndarray, " m"]

    @property
    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j | D)."""
        return self.sampling.edges.mean(axis=0)

    @property
    def known(self) -> float:
        """The mean share of the evidence that kept parent sets account for."""
        return float(self.sampling.known.mean() / self.sampling.rounds)

    @property
    def accepted(self) -> Float[np.ndarray, " K"]:
        """The share of proposals accepted, by chain."""
        return self.sampling.accepts / self.sampling.rounds


Keep = Callable[[Training, Sampling | None], None]
"""Is given what there is after each step of burn-in and each segment of rounds."""

Begun = Callable[[Training], tuple[Training, Sampling | None]]
"""(a state before the first step, for its shape) → the states to go on from."""


@dataclass(frozen=True, eq=False)
class Guided:
    """The whole inference for given scores and beliefs.

    Examples
    --------
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 2))
    >>> x[:, 1] += x[:, 0]
    >>> guided = Guided(
    ...     LinearGaussian.from_values(x), Prior().bind("ab"),
    ...     NodeGuideSettings(guide="mean-field", steps=20, rounds=20),
    ... )
    >>> bool(guided.run(seed=0).edge_probabilities.sum() > 0.99)
    True
    """

    scores: LocalScores
    prior: EdgePrior
    settings: NodeGuideSettings

    def run(
        self,
        seed: int,
        *,
        report: Callable[[int, int], None] | None = None,
        keep: Keep | None = None,
        begun: Begun | None = None,
        expired: Callable[[float], bool] = lambda share: False,
    ) -> Collected:
        """Burn in and collect.

        `report` is told the number of finished steps and rounds. `begun` gives back what a call
        with the same other arguments gave to `keep` before it was cut off. `expired` is asked
        whether a share of the time is over: half of it is for training.
        """
        tell, keep = report or (lambda steps, rounds: None), keep or (lambda training, rest: None)
        key_start, key_burn, key_run = jax.random.split(jax.random.key(seed), 3)
        trainer = self._trainer()  # one for all steps: they are compiled for it
        training, sampling = self._start(trainer, key_start), None
        if begun is not None:
            training, sampling = begun(training)
        while (t := len(training.bounds)) < self.settings.steps and not (t and expired(0.5)):
            training = self._train(trainer, training, jax.random.fold_in(key_burn, t))
            keep(training, None)
            tell(t + 1, 0)
        known = training.collection.freeze()
        sampler = self._sampler(training.state.guides, known)
        if sampling is None:
            first = jax.random.fold_in(key_run, self.settings.rounds)
            sampling = Sampling.blank(sampler.start(first, training.replicas))
        while sampling.rounds < self.settings.rounds and not sampling.enough(self.settings.enough):
            segment = self._segment(sampler, sampling, key_run, tell)
            sampling = sampling.followed_by(segment)
            keep(training, sampling)
            if expired(1.0):
                break
        return Collected(
            sampling,
            self._spread(sampler, key_run, sampling.chains),
            self._missing(sampler, key_run, sampling.chains),
            training.bounds,
            known.count,
        )

    def _start(self, trainer, key) -> Training:
        s = self.settings
        collection = Collection(self._terms, self.scores, s.reach, s.capacity)
        state = trainer.start(self._first_guides(key))
        orders = draw_linear_extensions(
            self.prior.required, s.chains * len(s.powers), host_generator(key)
        )
        replicas = orders.reshape(s.chains, len(s.powers), -1).astype(np.int64)
        return Training(state, collection, replicas, np.empty(0))

    def _trainer(self) -> GuideTraining:
        s = self.settings
        rate = optax.cosine_decay_schedule(s.rate, s.steps, alpha=0.1)
        return GuideTraining(
            self.scores,
            self._terms,
            draws=s.training_draws,
            optimiser=optax.adam(rate),
            objective=EdgeObjective(s.bound, s.edge_gradient),
        )

    def _train(self, trainer: GuideTraining, training: Training, key) -> Training:
        s, terms = self.settings, self._terms
        collection = training.collection.copy()  # an interrupted step leaves no trace
        rng = host_generator(key)
        columns = columns_of(self._training_orders(training.replicas, rng), terms.allowed)
        state, judged = trainer.step(training.state, key, columns)
        collection.add_judged(columns, judged)
        # Moves ask about orders near by, and a set that is not known there closes the way.
        nearby = columns_of(self._nearby(training.replicas[:, -1], rng), terms.allowed)
        known = collection.freeze()
        collection.explore(known, nearby, self.scores, rng)
        replicas = self._walk(known, training.replicas, rng, s.burn_in_sweeps)
        bounds = np.append(training.bounds, judged.bound.mean())
        return Training(state, collection, replicas, bounds)

    def _training_orders(self, replicas, rng) -> Int[np.ndarray, "orders m"]:
        """Half the orders from the chains, the others from any level."""
        s = self.settings
        chain = rng.integers(s.chains, size=s.training_orders)
        level = rng.integers(len(s.powers), size=s.training_orders)
        level[: s.training_orders // 2] = len(s.powers) - 1
        return replicas[chain, level]

    def _segment(self, sampler, sampling, key, tell) -> Sampling:
        """What the rounds up to the next look collect."""
        s, chains, begin = self.settings, sampling.chains, sampling.rounds
        orders, graphs, evidence = [], [], []
        new = Sampling.blank(chains)
        edges, known, accepts = new.edge_sums, new.known, new.accepts
        for t in range(begin, min(begin + s.look, s.rounds)):
            chains, move = sampler.step(chains, jax.random.fold_in(key, t))
            edges += chains.edges.swapaxes(1, 2)
            known += np.exp(chains.log_known - chains.log_evidence).mean(axis=1)
            accepts += move.accepted
            evidence.append(chains.log_evidence.sum(axis=1))
            if t % s.thin == s.thin - 1:
                orders.append(chains.orders)
                graphs.append(_graphs(chains))
            tell(s.steps, t + 1)
        kept = [np.stack(part, axis=1) if part else None for part in (orders, graphs)]
        return Sampling(
            chains,
            new.orders if kept[0] is None else kept[0],
            new.graphs if kept[1] is None else kept[1],
            edges,
            np.stack(evidence, axis=1),
            known,
            accepts,
        )

    def _spread(self, sampler, key, chains) -> float:
        keys = (jax.random.fold_in(key, self.settings.rounds + 1 + t) for t in range(REPEATS))
        again = [sampler.start(key, chains.replicas).log_evidence.sum(axis=1) for key in keys]
        return float(np.sqrt(np.var(again, axis=0, ddof=1).mean()))

    def _missing(self, sampler, key, chains) -> float:
        near = self._nearby(np.repeat(chains.orders, REPEATS, axis=0), host_generator(key))
        there = sampler.start(jax.random.fold_in(key, self.settings.rounds), near[:, None])
        present = np.repeat(chains.log_evidence.sum(axis=1), REPEATS)
        relevant = there.log_evidence.sum(axis=1) > present - RELEVANT
        gap = (there.log_evidence - there.log_known).max(axis=1)
        return float(gap[relevant].max(initial=0.0))

    def _nearby(self, orders, rng) -> Int[np.ndarray, "K m"]:
        """Each order with one node at another place, where that is feasible."""
        moved = relocate_or_swap(orders[:, None], rng, swaps=0.0)[:, 0]
        return np.where(feasible(moved, self.prior.required.T)[:, None], moved, orders)

    def _sampler(self, guides: NodeGuide, known: Remembered) -> PseudoMarginal:
        s = self.settings
        guide = GuideEstimator(guides, self.scores, self._terms, s.draws)
        corrected = s.correction == "pseudo-marginal"
        return PseudoMarginal(
            RememberedEstimator(known, guide) if corrected else UncorrectedGuide(known, guide),
            self._terms,
            lambda replicas, rng: self._walk(known, replicas, rng, s.sweeps),
        )

    def _walk(self, known: Remembered, replicas, rng, sweeps) -> Int[np.ndarray, "K levels m"]:
        s = self.settings
        return known.walk(replicas, rng, powers=s.powers, sweeps=sweeps, moves=s.moves)

    @property
    def _terms(self) -> EdgeTerms:
        return EdgeTerms.of(self.prior)

    def _first_guides(self, key) -> NodeGuide:
        s = self.settings
        start = np.where(self.prior.allowed, np.log(self.prior.alpha / self.prior.beta), 0.0)
        if s.guide == "mean-field":
            return stack_mean_fields(start)
        settings = FlowSettings(s.blocks, s.bins, s.boundary, s.width, s.depth)
        return stack_flows(key, start, settings, "spline-coupling")


def _graphs(chains: Chains) -> UInt8[np.ndarray, "K m m"]:
    return chains.parents.swapaxes(1, 2).astype(np.uint8)
