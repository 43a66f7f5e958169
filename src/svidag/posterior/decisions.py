"""Every pair of variables: how surely connected, which way, and what the direction rests on.

A direction is decided only as far as the equivalence classes of the draws compel it: Markov's, made
smaller by hard knowledge and by interventions. Otherwise it is at most favoured, by the form of the
mechanisms or by beliefs alone. Terminal, report, `Posterior.decided` and `Posterior.summary` all
read this.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from svidag.posterior.classes import known_directions
from svidag.posterior.posterior import Posterior
from svidag.posterior.sensitivity import NEGLIGIBLE, SURE


class Direction(enum.StrEnum):
    """What is known of the direction, given that two variables are connected."""

    DECIDED = "decided"
    FAVOURED = "favoured"
    OPEN = "open"


class Ground(enum.StrEnum):
    """What a direction rests on."""

    INDEPENDENCES = "independences, interventions and hard knowledge"
    FORM = "form of the mechanism only"
    BELIEFS = "beliefs and prior only"
    UNKNOWN = "not recorded"
    OPEN = "open"


class PairStatus(enum.StrEnum):
    """What is known of a pair in all."""

    DECIDED = "decided arrow"
    FAVOURED = "favoured arrow"
    CONNECTED = "connected, direction open"
    OPEN = "open"
    ABSENT = "not connected"


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
    ground
        What the direction rests on.
    basis
        The same in more detail; empty where it is open.
    """

    cause: int
    effect: int
    forward: float
    backward: float
    compelled: float
    direction: Direction
    ground: Ground
    basis: str

    @property
    def connected(self) -> float:
        """P(connected either way)."""
        return min(1.0, self.forward + self.backward)

    @property
    def strength(self) -> float:
        """The probability of what is drawn: of the arrow, or of the link if it has no direction."""
        return self.connected if self.direction is Direction.OPEN else self.forward

    @property
    def sign(self) -> str:
        """What is drawn between the two: an arrow, or a line where the direction is open."""
        return "—" if self.direction is Direction.OPEN else "→"

    @property
    def status(self) -> PairStatus:
        """What is known in all; an arrow is decided or favoured if it is sure itself."""
        if self.connected < NEGLIGIBLE:
            return PairStatus.ABSENT
        if self.compelled > SURE:
            return PairStatus.DECIDED
        if self.forward > SURE:
            return PairStatus.FAVOURED
        return PairStatus.CONNECTED if self.connected > SURE else PairStatus.OPEN


@dataclass(frozen=True, eq=False)
class Decisions:
    """All m(m − 1)/2 pairs, the most surely connected first."""

    names: tuple[str, ...]
    pairs: tuple[Pair, ...]

    def shown(self, least: float = NEGLIGIBLE) -> list[Pair]:
        """Pairs that are connected at least so surely."""
        return [pair for pair in self.pairs if pair.connected >= least]

    @property
    def count(self) -> Counter[PairStatus]:
        """How many pairs have each status."""
        return Counter(pair.status for pair in self.pairs)

    def to_frame(self, least: float = NEGLIGIBLE) -> pd.DataFrame:
        """One row for each pair that is connected at least so surely."""
        rows = [
            {
                "cause": self.names[pair.cause],
                "effect": self.names[pair.effect],
                "connected": pair.connected,
                "forward": pair.forward,
                "backward": pair.backward,
                "compelled": pair.compelled,
                "direction": str(pair.direction),
                "ground": str(pair.ground),
                "detail": pair.basis,
                "status": str(pair.status),
            }
            for pair in self.shown(least)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = [
    "cause", "effect", "connected", "forward", "backward", "compelled", "direction", "ground",
    "detail", "status",
]  # fmt: skip
"""Columns of `Posterior.decided`."""


def decisions(posterior: Posterior) -> Decisions:
    """What is known of every pair.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> len(decisions(svidag.exact.posterior(example.data)).pairs)
    6
    """
    edges = posterior.edge_probabilities().to_numpy()
    evidence = _DirectionEvidence.of(posterior)
    found = [evidence.pair(i, j, edges) for i, j in _oriented(edges)]
    return Decisions(posterior.names, tuple(sorted(found, key=lambda pair: -pair.connected)))


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
    favoured_by: tuple[Ground, str]

    @classmethod
    def of(cls, posterior: Posterior) -> _DirectionEvidence:
        known, intervened = known_directions(posterior.problem, len(posterior.names))
        markov = posterior.cpdag(observational=True).directed.to_numpy()
        compelled = markov
        if (known | intervened).any():
            compelled = posterior.cpdag().directed.to_numpy()
        return cls(markov, compelled, known, intervened, _favoured_by(posterior))

    def pair(self, i: int, j: int, edges: Float[np.ndarray, "m m"]) -> Pair:
        forward, backward = float(edges[i, j]), float(edges[j, i])
        compelled, enough = float(self.compelled[i, j]), SURE * (forward + backward)
        if compelled > enough:
            direction, ground = Direction.DECIDED, Ground.INDEPENDENCES
            basis = self._basis(i, j, enough)
        elif forward > enough:
            direction, (ground, basis) = Direction.FAVOURED, self.favoured_by
        else:
            direction, ground, basis = Direction.OPEN, Ground.OPEN, ""
        return Pair(i, j, forward, backward, compelled, direction, ground, basis)

    def _basis(self, i: int, j: int, enough: float) -> str:
        if self.markov[i, j] > enough:
            return "conditional independences"
        if self.known[i, j]:
            return "hard knowledge"
        return "interventions" if self.intervened[i, j] else "what follows from decided arrows"


def _favoured_by(posterior: Posterior) -> tuple[Ground, str]:
    """What a direction rests on that is probable but not decided."""
    beliefs = _has_beliefs(posterior)
    if posterior.mechanism is None:
        return Ground.UNKNOWN, "not recorded"
    if posterior.mechanism not in ("linear", "discrete", "mixed"):
        form = "form of the mechanism"
        return Ground.FORM, f"{form} and beliefs only" if beliefs else f"{form} only"
    assert posterior.diagnostics is not None
    if posterior.diagnostics.graph_weights == "order":
        return Ground.BELIEFS, "beliefs and prior only" if beliefs else "prior over orders only"
    return Ground.BELIEFS, "beliefs only"


def _has_beliefs(posterior: Posterior) -> bool:
    """Whether some arrows were believed in more than others."""
    if posterior.problem is None:
        return False
    prior = posterior.problem.prior
    stated = prior.belief[prior.free]
    return bool(len(stated)) and bool(stated.min() != stated.max())
