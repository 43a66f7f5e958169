"""Orders by pseudo-marginal moves, parents by the per-node guide: inference without tables.

Burn-in alternates two things on K chains: a step of the guide on the tight bound, over the columns
of some of the chains' orders, and tempered moves of all orders on the parent sets that the guide
has come upon. Then guide and sets are frozen, and moves corrected by unbiased estimates run at the
true target while graphs and edge probabilities are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import optax
from jaxtyping import Float, Int, UInt8

from svidag.graph.extension import draw_linear_extensions
from svidag.guide import FlowSettings
from svidag.inference.conditional import GuideTraining, columns_of
from svidag.inference.estimate import GuideEstimator, host_generator
from svidag.inference.pseudo_marginal import Chains, PseudoMarginal, feasible, relocate_or_swap
from svidag.inference.remembered import Collection, Remembered, RememberedEstimator
from svidag.mechanisms.local import LocalScores
from svidag.node_guide import NodeGuide, stack_flows, stack_mean_fields
from svidag.prior import EdgePrior
from svidag.tight_bound import EdgeTerms

__all__ = ["Collected", "Guided", "Settings"]

REPEATS = 8  # estimates for a diagnostic
RELEVANT = 10.0  # nats by which an order near by may fall short and still be looked at


@dataclass(frozen=True)
class Settings:
    """How the guide is trained and how long the chains run.

    Attributes
    ----------
    guide
        ``"flow"`` or ``"mean-field"``.
    blocks, bins, boundary, width, depth
        The flow of each node, as for the published guide.
    chains
        K.
    steps, rate
        Steps of Adam on the guide, and its learning rate, which falls to a tenth.
    training_orders, training_draws
        Orders in a step, chosen among the chains, and draws of z for each of their columns.
    flattest
        The power of the target at which burn-in begins; it rises geometrically to 1.
    burn_in_sweeps, sweeps
        Sweeps of m relocations after each step, and between two estimates.
    reach, capacity
        Which parent sets are kept, and how many of each node (`Collection`).
    rounds, draws
        Estimated moves after burn-in, and parent sets drawn for each estimate.
    thin
        Rounds from one kept graph to the next.
    """

    guide: str = "flow"
    blocks: int = 2
    bins: int = 8
    boundary: float = 5.0
    width: int = 32
    depth: int = 1
    chains: int = 16
    steps: int = 300
    rate: float = 0.03
    training_orders: int = 8
    training_draws: int = 4
    flattest: float = 0.05
    burn_in_sweeps: int = 2
    sweeps: int = 10
    reach: float = 7.0
    capacity: int = 2000
    rounds: int = 200
    draws: int = 8
    thin: int = 2

    def __post_init__(self) -> None:
        if self.guide not in ("flow", "mean-field"):
            raise ValueError(f"guide must be 'flow' or 'mean-field'; got {self.guide!r}")
        if self.training_orders > self.chains:
            raise ValueError(
                f"training_orders must be at most chains = {self.chains}; "
                f"got {self.training_orders}"
            )


@dataclass(frozen=True, eq=False)
class Collected:
    """What the chains collected after burn-in.

    Attributes
    ----------
    orders, graphs
        Kept orders (causes first) and graphs.
    edges
        For each chain, the mean of its edge probabilities given the order (Rao–Blackwell).
    log_evidence
        The estimate of log p(D | order) at every round.
    spread
        Standard deviation of the estimate of log p(D | order), repeated at the last orders.
    known
        The mean share of the evidence that kept parent sets account for.
    missing
        The largest log p̂_j − log g_j of a node, over orders one relocation away from the last and
        not much less probable: large if moves shun them for want of parent sets.
    accepted
        The share of proposals accepted, by chain.
    bounds
        The tight bound, averaged over orders, at every step of training.
    kept
        Kept parent sets of each node.
    """

    orders: Int[np.ndarray, "K R m"]
    graphs: UInt8[np.ndarray, "K R m m"]
    edges: Float[np.ndarray, "K m m"]
    log_evidence: Float[np.ndarray, "K T"]
    spread: float
    known: float
    missing: float
    accepted: Float[np.ndarray, " K"]
    bounds: Float[np.ndarray, " steps"]
    kept: Int[np.ndarray, " m"]

    @property
    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j | D)."""
        return self.edges.mean(axis=0)

    @property
    def disagreement(self) -> float:
        """The largest difference of an edge probability between two halves of the chains."""
        half = len(self.edges) // 2
        return float(np.abs(self.edges[:half].mean(axis=0) - self.edges[half:].mean(axis=0)).max())

    @property
    def distinct_orders(self) -> int:
        """How many of the kept orders differ."""
        return len(np.unique(self.orders.reshape(-1, self.orders.shape[2]), axis=0))


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
    ...     Settings(guide="mean-field", steps=20, rounds=20),
    ... )
    >>> bool(guided.run(seed=0).edge_probabilities.sum() > 0.99)
    True
    """

    scores: LocalScores
    prior: EdgePrior
    settings: Settings

    def run(self, seed: int, report: Callable[[int], None] | None = None) -> Collected:
        """Burn in and collect; `report` is told the number of finished steps and rounds."""
        tell = report or (lambda _: None)
        key_start, key_burn, key_run = jax.random.split(jax.random.key(seed), 3)
        guides, known, orders, bounds = self._burn_in(key_start, key_burn, tell)
        return self._collect(key_run, guides, known, orders, bounds, tell)

    def _burn_in(self, key_start, key, tell):
        s, terms = self.settings, self._terms
        training = GuideTraining(
            self.scores,
            terms,
            draws=s.training_draws,
            optimiser=optax.adam(optax.cosine_decay_schedule(s.rate, s.steps, alpha=0.1)),
        )
        state = training.start(self._first_guides(key_start))
        collection = Collection(terms, self.scores, s.reach, s.capacity)
        orders = self._first_orders(key_start)
        bounds = np.empty(s.steps)
        for t, power in enumerate(np.geomspace(s.flattest, 1.0, s.steps)):
            step_key = jax.random.fold_in(key, t)
            rng = host_generator(step_key)
            chosen = rng.choice(s.chains, s.training_orders, replace=False)
            columns = columns_of(orders[chosen], terms.allowed)
            state, judged = training.step(state, step_key, columns)
            bounds[t] = judged.bound.mean()
            collection.add_judged(columns, judged)
            # Moves ask about orders near by, and a set that is not known there closes the way.
            nearby = columns_of(self._nearby(orders, rng), terms.allowed)
            known = collection.freeze()
            collection.explore(known, nearby, self.scores, rng)
            moves = s.burn_in_sweeps * orders.shape[1]
            orders = known.walk(orders, rng, moves=moves, power=float(power))
            tell(t + 1)
        return state.guides, collection.freeze(), orders, bounds

    def _collect(self, key, guides, known, orders, bounds, tell):
        s, m = self.settings, orders.shape[1]
        sampler = self._sampler(guides, known)
        chains = sampler.start(jax.random.fold_in(key, s.rounds), orders)
        kept_orders, kept_graphs, evidence = [], [], []
        edges = np.zeros((s.chains, m, m))
        accepted, share = np.zeros(s.chains), 0.0
        for t in range(s.rounds):
            chains, move = sampler.step(chains, jax.random.fold_in(key, t))
            edges += chains.edges.swapaxes(1, 2)
            accepted += move.accepted
            share += float(np.exp(chains.log_known - chains.log_evidence).mean())
            evidence.append(chains.log_evidence.sum(axis=1))
            if t % s.thin == s.thin - 1:
                kept_orders.append(chains.orders)
                kept_graphs.append(_graphs(chains))
            tell(s.steps + t + 1)
        return Collected(
            np.stack(kept_orders, axis=1),
            np.stack(kept_graphs, axis=1),
            edges / s.rounds,
            np.stack(evidence, axis=1),
            self._spread(sampler, key, chains.orders),
            share / s.rounds,
            self._missing(sampler, key, chains),
            accepted / s.rounds,
            bounds,
            known.count,
        )

    def _spread(self, sampler, key, orders) -> float:
        keys = (jax.random.fold_in(key, self.settings.rounds + 1 + t) for t in range(REPEATS))
        again = [sampler.start(key, orders).log_evidence.sum(axis=1) for key in keys]
        return float(np.sqrt(np.var(again, axis=0, ddof=1).mean()))

    def _missing(self, sampler, key, chains) -> float:
        near = self._nearby(np.repeat(chains.orders, REPEATS, axis=0), host_generator(key))
        there = sampler.start(jax.random.fold_in(key, self.settings.rounds), near)
        present = np.repeat(chains.log_evidence.sum(axis=1), REPEATS)
        relevant = there.log_evidence.sum(axis=1) > present - RELEVANT
        gap = (there.log_evidence - there.log_known).max(axis=1)
        return float(gap[relevant].max(initial=0.0))

    def _nearby(self, orders, rng) -> Int[np.ndarray, "K m"]:
        """Each order with one node at another place, where that is feasible."""
        moved = relocate_or_swap(orders, rng, swaps=0.0)
        return np.where(feasible(moved, self.prior.required.T)[:, None], moved, orders)

    def _sampler(self, guides: NodeGuide, known: Remembered) -> PseudoMarginal:
        rest = GuideEstimator(guides, self.scores, self._terms, self.settings.draws)
        moves = self.settings.sweeps * len(self._terms.required)
        return PseudoMarginal(
            RememberedEstimator(known, rest),
            self._terms,
            lambda orders, rng: known.walk(orders, rng, moves=moves),
        )

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

    def _first_orders(self, key) -> Int[np.ndarray, "K m"]:
        rng = host_generator(key)
        return draw_linear_extensions(self.prior.required, self.settings.chains, rng)


def _graphs(chains: Chains) -> UInt8[np.ndarray, "K m m"]:
    return chains.parents.swapaxes(1, 2).astype(np.uint8)
