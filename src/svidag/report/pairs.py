"""Every pair of variables: how surely connected, which way, and what the direction rests on.

A direction is decided only as far as the equivalence classes of the draws compel it; otherwise it
is at most favoured. The classes are Markov's, made smaller by hard knowledge and by interventions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from svidag.data import row_groups
from svidag.graph import cpdags
from svidag.posterior.posterior import DRAWS, ClassProbabilities, Posterior
from svidag.problem import Problem

SURE = 0.9
"""Probability from which something counts as decided, and its opposite as ruled out."""


class Direction(enum.StrEnum):
    """What is known of the direction, given that two variables are connected."""

    DECIDED = "decided"
    FAVOURED = "favoured"
    OPEN = "open"


class Status(enum.StrEnum):
    """What is known of a pair in all."""

    DECIDED = "decided arrow"
    FAVOURED = "favoured arrow"
    ADJACENT = "adjacent, direction open"
    OPEN = "open"
    ABSENT = "not adjacent"


@dataclass(frozen=True)
class Pair:
    """Two variables, the more probable cause first.

    Attributes
    ----------
    cause, effect
        Places of the variables.
    forward, backward
        P(cause → effect) and P(effect → cause).
    compelled
        The share of draws whose equivalence class has cause → effect in every member. Hard
        knowledge and interventions make classes smaller.
    direction
        What is known of the direction, given that they are connected.
    basis
        What the direction rests on, in words; empty where it is open.
    """

    cause: int
    effect: int
    forward: float
    backward: float
    compelled: float
    direction: Direction
    basis: str

    @property
    def adjacent(self) -> float:
        """P(connected either way)."""
        return min(1.0, self.forward + self.backward)

    @property
    def status(self) -> Status:
        """What is known in all, with `SURE` as the cut."""
        if self.adjacent < 1 - SURE:
            return Status.ABSENT
        if self.adjacent < SURE:
            return Status.OPEN
        return {
            Direction.DECIDED: Status.DECIDED,
            Direction.FAVOURED: Status.FAVOURED,
            Direction.OPEN: Status.ADJACENT,
        }[self.direction]


def pairs(posterior: Posterior, classes: ClassProbabilities) -> list[Pair]:
    """All m(m − 1)/2 pairs, the most surely connected first.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> len(pairs(posterior, posterior.cpdag()))
    6
    """
    edges = posterior.edge_probabilities().to_numpy()
    evidence = _DirectionEvidence.of(posterior, classes)
    found = [evidence.pair(i, j, edges) for i, j in _oriented(edges)]
    return sorted(found, key=lambda pair: -pair.adjacent)


def _oriented(edges: Float[np.ndarray, "m m"]) -> Iterator[tuple[int, int]]:
    for i in range(len(edges)):
        for j in range(i):
            yield (i, j) if edges[i, j] > edges[j, i] else (j, i)


@dataclass(frozen=True, eq=False)
class _DirectionEvidence:
    """What directions of arrows rest on.

    Attributes
    ----------
    markov
        The share of draws in whose equivalence class the arrow is compelled.
    compelled
        The same with hard knowledge and interventions, which make classes smaller.
    known, intervened
        Pairs whose direction follows from hard knowledge, and from interventions.
    favoured_by
        What a direction rests on that is probable but not decided.
    """

    markov: Float[np.ndarray, "m m"]
    compelled: Float[np.ndarray, "m m"]
    known: Bool[np.ndarray, "m m"]
    intervened: Bool[np.ndarray, "m m"]
    favoured_by: str

    @classmethod
    def of(cls, posterior: Posterior, classes: ClassProbabilities) -> _DirectionEvidence:
        markov = classes.directed.to_numpy()
        known, intervened = _known_directions(posterior.problem, len(markov))
        directions, compelled = known | intervened, markov
        if directions.any():
            graphs = cpdags(posterior.sample(DRAWS), known_directions=directions).astype(bool)
            compelled = (graphs & ~graphs.swapaxes(1, 2)).mean(axis=0)
        return cls(markov, compelled, known, intervened, _favoured_by(posterior))

    def pair(self, i: int, j: int, edges: Float[np.ndarray, "m m"]) -> Pair:
        forward, backward = float(edges[i, j]), float(edges[j, i])
        enough = SURE * (forward + backward)
        if enough > 0 and self.compelled[i, j] >= enough:
            direction, basis = Direction.DECIDED, self._basis(i, j, enough)
        elif enough > 0 and forward >= enough:
            direction, basis = Direction.FAVOURED, self.favoured_by
        else:
            direction, basis = Direction.OPEN, ""
        return Pair(i, j, forward, backward, float(self.compelled[i, j]), direction, basis)

    def _basis(self, i: int, j: int, enough: float) -> str:
        if self.markov[i, j] >= enough:
            return "conditional independences"
        if self.known[i, j]:
            return "hard knowledge"
        return "interventions" if self.intervened[i, j] else "what follows from decided arrows"


def _known_directions(
    problem: Problem | None, m: int
) -> tuple[Bool[np.ndarray, "m m"], Bool[np.ndarray, "m m"]]:
    """Pairs whose direction follows from hard knowledge, and from interventions."""
    if problem is None:
        return np.zeros((m, m), dtype=bool), np.zeros((m, m), dtype=bool)
    excluded = ~problem.prior.allowed & ~np.eye(m, dtype=bool)
    known = problem.prior.required | excluded
    # A row in which exactly one of two was set from outside shows which way they are connected.
    _, group = row_groups(problem.data.intervened)
    return known | known.T, group[:, None] != group


def _favoured_by(posterior: Posterior) -> str:
    """What a direction rests on that is probable but not decided."""
    if posterior.mechanism == "flexible":
        return "the shapes of relation and noise, and beliefs"
    if posterior.mechanism in ("nonlinear", "mlp"):
        return "the shape of the relation, and beliefs"
    if posterior.diagnostics is None or posterior.diagnostics.graph_weights == "order":
        return "beliefs, and the prior over orders"
    return "beliefs"
