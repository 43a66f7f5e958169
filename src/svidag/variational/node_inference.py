"""Orders by pseudo-marginal moves, parents by a guide for each node: inference without tables.

Burn-in (:mod:`svidag.variational.node_training`) trains the guides on their bound while K chains
move over orders. The guides then learn what was found
(:mod:`svidag.variational.guide_covering`). After that guides and collected parent sets are frozen,
and moves corrected by unbiased estimates run at the true target while graphs and edge probabilities
are collected, until halves of the chains agree.

Step and round t draw from ``fold_in(key, t)``, so that a resumed run equals one left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8

from svidag.mechanisms.local import LocalScores
from svidag.prior import EdgePrior
from svidag.run import loop, streams
from svidag.run.chains import run_segments
from svidag.run.streams import Stream, generator
from svidag.variational.evidence_estimate import GuideEstimator
from svidag.variational.guide_covering import GuideCovering
from svidag.variational.kept_sets import KeptParentSets, KeptSetEstimator, UncorrectedEstimator
from svidag.variational.node_guide import NodeGuide
from svidag.variational.node_training import NodeTraining, nearby_orders
from svidag.variational.pseudo_marginal import EstimatedChains, PseudoMarginal
from svidag.variational.settings import VariationalSettings

__all__ = ["InferenceResult", "NodeInference", "NodeResumeState", "SampledRounds"]

REPEATS = 8  # estimates for a diagnostic
RELEVANT = 10.0  # nats by which an order near by may fall short and still be looked at

Report = Callable[[str, int, int], None]
"""Is called with the stage, how much of it is done, and how much there is."""


@dataclass(frozen=True, eq=False)
class SampledRounds:
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
    known_sums
        For each chain, the share of the evidence in kept parent sets, summed over rounds.
    accepts
        How many proposals each chain accepted.
    copies
        How many chains go on from the same one in training, every K/copies-th.
    """

    chains: EstimatedChains
    orders: Int[np.ndarray, "K R m"]
    graphs: UInt8[np.ndarray, "K R m m"]
    edge_sums: Float[np.ndarray, "K m m"]
    log_evidence: Float[np.ndarray, "K T"]
    known_sums: Float[np.ndarray, " K"]
    accepts: Int[np.ndarray, " K"]
    copies: int = 1

    @classmethod
    def blank(cls, chains: EstimatedChains, copies: int = 1) -> SampledRounds:
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
            copies,
        )

    @property
    def length(self) -> int:
        """How many rounds there were."""
        return self.log_evidence.shape[1]

    @property
    def edges(self) -> Float[np.ndarray, "trained m m"]:
        """The mean edge probabilities given the order (Rao–Blackwell), by chain in training.

        Copies of one chain are not independent and say nothing about each other.
        """
        K, m, _ = self.edge_sums.shape
        means = self.edge_sums / max(self.length, 1)
        return means.reshape(self.copies, K // self.copies, m, m).mean(axis=0)

    def followed_by(self, later: SampledRounds) -> SampledRounds:
        """Both together, as one run."""
        return SampledRounds(
            later.chains,
            np.concatenate([self.orders, later.orders], axis=1),
            np.concatenate([self.graphs, later.graphs], axis=1),
            self.edge_sums + later.edge_sums,
            np.concatenate([self.log_evidence, later.log_evidence], axis=1),
            self.known_sums + later.known_sums,
            self.accepts + later.accepts,
            self.copies,
        )


class NodeResumeState(NamedTuple):
    """What is needed to go on: burn-in, and the stages after it as far as these have begun."""

    training: loop.ResumeState | None
    sampling: SampledRounds | None
    covering: loop.ResumeState | None = None


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """What a run found, and what it says about its own quality.

    Attributes
    ----------
    sampling
        What the chains collected after burn-in.
    estimate_spread
        Standard deviation of the estimate of log p(D | order), repeated at the last orders.
    missing
        The largest log p̂_j − log g_j of a node, over orders one relocation away from the last and
        not much less probable. It is large if moves avoid orders for lack of parent sets.
    bounds
        The bound, averaged over orders, at every step of training.
    guides
        The guides, as training and covering left them.
    kept
        The parent sets that training found.
    """

    sampling: SampledRounds
    estimate_spread: float
    missing: float
    bounds: Float[np.ndarray, " steps"]
    guides: NodeGuide
    kept: KeptParentSets

    @property
    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j | D)."""
        return self.sampling.edges.mean(axis=0)

    @property
    def known_share(self) -> float:
        """The mean share of the evidence that kept parent sets account for."""
        return float(self.sampling.known_sums.mean() / self.sampling.length)

    @property
    def accepted(self) -> Float[np.ndarray, " K"]:
        """The share of proposals accepted, by chain."""
        return self.sampling.accepts / self.sampling.length


@dataclass(frozen=True, eq=False)
class NodeInference:
    """The whole inference for given scores and prior.

    Examples
    --------
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 2))
    >>> x[:, 1] += x[:, 0]
    >>> inference = NodeInference(
    ...     LinearGaussian.from_values(x), Prior().bind("ab"),
    ...     VariationalSettings(
    ...         guide="mean-field", iterations=20, rounds=20, levels=3, flattest=0.2
    ...     ),
    ... )
    >>> bool(inference.run(seed=0).edge_probabilities.sum() > 0.99)
    True
    """

    scores: LocalScores
    prior: EdgePrior
    settings: VariationalSettings

    def run(
        self,
        seed: int,
        *,
        report: Report = lambda stage, done, total: None,
        keep: Callable[[Callable[[], NodeResumeState]], None] = lambda snapshot: None,
        resume: NodeResumeState | None = None,
        expired: Callable[[float], bool] = lambda share: False,
    ) -> InferenceResult:
        """Train the guides, then sample orders and graphs.

        Parameters
        ----------
        seed
            The seed.
        report
            Is called after each step of training and each round of sampling.
        keep
            Is called after each step and each segment of rounds with a function that returns what
            is needed to go on from there.
        resume
            What a call with the same other arguments gave to `keep` before it was cut off.
        expired
            Is asked whether a share of the time is over: half of it is for training.
        """
        s = self.settings
        training_state, rounds, covering_state = resume or NodeResumeState(None, None, None)
        training = NodeTraining(self.scores, self.prior, s)
        # A stage that was over, if only for lack of time, is over.
        trained = loop.run(
            training,
            loop.Keys(streams.key(seed, Stream.GUIDE_START), streams.key(seed, Stream.GUIDE_STEPS)),
            _schedule(s.iterations, training_state, over=bool(covering_state or rounds)),
            report=lambda done, trace: report("training the guide", done, s.iterations),
            keep=lambda snapshot: keep(lambda: NodeResumeState(snapshot(), rounds, covering_state)),
            resume=training_state,
            expired=lambda: expired(0.5),
        )
        after_training = partial(trained.resume_state, training)
        kept = trained.state.collection.freeze()
        covering = GuideCovering(
            trained.state.guides.guides, trained.state.replicas, kept, self.prior, s
        )
        key = streams.key(seed, Stream.GUIDE_ROUNDS)
        covered = loop.run(
            covering,
            loop.Keys(key, streams.key(seed, Stream.GUIDE_COVERING)),
            _schedule(s.covering, covering_state, over=rounds is not None),
            report=lambda done, trace: report("covering what was found", done, max(s.covering, 1)),
            keep=lambda snapshot: keep(
                lambda: NodeResumeState(after_training(), rounds, snapshot())
            ),
            resume=covering_state,
            expired=lambda: expired(0.6),
        )
        after_covering = partial(covered.resume_state, covering)
        sampler = self._sampler(covered.state.guides.guides, kept)
        sampling = run_segments(
            rounds or self._initial_chains(sampler, key, covered.state.replicas),
            lambda before: self._segment(sampler, before, key, report),
            budget=self._rounds,
            rule=s.enough,
            keep=lambda so_far: keep(
                lambda: NodeResumeState(after_training(), so_far, after_covering())
            ),
            expired=lambda: expired(1.0),
        )
        return InferenceResult(
            sampling,
            self._estimate_spread(sampler, seed, sampling.chains),
            self._missing(sampler, seed, sampling.chains),
            trained.trace["bound"],
            covered.state.guides.guides,
            kept,
        )

    @property
    def _rounds(self) -> int:
        return self.settings.most_rounds(len(self.prior.required))

    def _initial_chains(
        self, sampler: PseudoMarginal, key: jax.Array, replicas: Int[np.ndarray, "K levels m"]
    ) -> SampledRounds:
        """Chains where burn-in ended, each as several, with nothing collected.

        Estimates of many orders take little longer than those of few.
        """
        first = jax.random.fold_in(key, self._rounds)
        several = np.tile(replicas, (self.settings.copies, 1, 1))
        return SampledRounds.blank(sampler.start(first, several), self.settings.copies)

    def _segment(
        self, sampler: PseudoMarginal, before: SampledRounds, key: jax.Array, report: Report
    ) -> SampledRounds:
        """What the rounds of the next segment collect."""
        s, chains, begin = self.settings, before.chains, before.length
        orders, graphs, evidence = [], [], []
        new = SampledRounds.blank(chains)
        edges, known, accepts = new.edge_sums, new.known_sums, new.accepts
        for t in range(begin, min(begin + s.check_every, self._rounds)):
            chains, move = sampler.step(chains, jax.random.fold_in(key, t))
            edges += chains.edges
            known += np.exp(chains.log_known - chains.log_evidence).mean(axis=1)
            accepts += move.accepted
            evidence.append(chains.log_evidence.sum(axis=1))
            if t % s.thin == s.thin - 1:
                orders.append(chains.orders)
                graphs.append(chains.graphs.astype(np.uint8))
            report("moving orders", t + 1, self._rounds)
        return SampledRounds(
            chains,
            np.stack(orders, axis=1) if orders else new.orders,
            np.stack(graphs, axis=1) if graphs else new.graphs,
            edges,
            np.stack(evidence, axis=1),
            known,
            accepts,
        )

    def _estimate_spread(
        self, sampler: PseudoMarginal, seed: int, chains: EstimatedChains
    ) -> float:
        keys = (streams.key(seed, Stream.GUIDE_CHECKS, t) for t in range(REPEATS))
        again = [sampler.start(key, chains.replicas).log_evidence.sum(axis=1) for key in keys]
        return float(np.sqrt(np.var(again, axis=0, ddof=1).mean()))

    def _missing(self, sampler: PseudoMarginal, seed: int, chains: EstimatedChains) -> float:
        orders = np.repeat(chains.orders, REPEATS, axis=0)
        near = nearby_orders(orders, self.prior, generator(seed, Stream.GUIDE_CHECKS))
        there = sampler.start(streams.key(seed, Stream.GUIDE_CHECKS, REPEATS), near[:, None])
        present = np.repeat(chains.log_evidence.sum(axis=1), REPEATS)
        relevant = there.log_evidence.sum(axis=1) > present - RELEVANT
        gap = (there.log_evidence - there.log_known).max(axis=1)
        return float(gap[relevant].max(initial=0.0))

    def _sampler(self, guides: NodeGuide, kept: KeptParentSets) -> PseudoMarginal:
        s = self.settings
        guide = GuideEstimator(guides, self.scores, self.prior, s.estimate_draws)
        corrected = s.correction == "pseudo-marginal"
        return PseudoMarginal(
            KeptSetEstimator(kept, guide) if corrected else UncorrectedEstimator(kept, guide),
            self.prior,
            partial(kept.walk, powers=s.powers, sweeps=s.sweeps, moves=s.moves),
        )


def _schedule(steps: int, saved: loop.ResumeState | None, *, over: bool) -> loop.Schedule:
    """All steps of a stage, or those that were taken if it is over."""
    return loop.Schedule(saved.step if saved is not None and over else steps, chunk=1)
