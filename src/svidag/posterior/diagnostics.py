"""What a fit reports about itself: a common part that everything reads, and a part of its own."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from svidag.posterior.sensitivity import Sensitivity
from svidag.run.status import Status


class Level(enum.StrEnum):
    """How far a result can be relied on, best first."""

    TRUST = "trust"
    CAREFUL = "be careful"
    NOT = "do not trust"


@dataclass(frozen=True)
class Reason:
    """One thing that was looked at: how it came out, and a sentence that says so."""

    level: Level
    text: str


def diagnostic(label: str, *, trace: bool = False, shown: bool = True) -> Any:
    """A field of a method's own diagnostics, with the words that stand beside its value.

    A trace is an array over steps, or over chains and steps, that is drawn as a line. What is not
    `shown` has a place of its own in the report, or none.
    """
    return dataclasses.field(metadata={"label": label, "trace": trace, "shown": shown})


@dataclass(frozen=True, eq=False)
class Details:
    """The diagnostics that are a method's own; each field is made by `diagnostic`."""

    def rows(self) -> list[tuple[str, Any]]:
        """Labels and values of all that is not a trace and not None."""
        values = [(f, getattr(self, f.name)) for f in dataclasses.fields(self)]
        return [
            (f.metadata["label"], value)
            for f, value in values
            if value is not None and f.metadata["shown"] and not f.metadata["trace"]
        ]

    def traces(self) -> dict[str, np.ndarray]:
        """Arrays [lines, steps] by label."""
        found = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.metadata["trace"] and value is not None:
                several = value if isinstance(value, Mapping) else {f.metadata["label"]: value}
                found |= {
                    label: np.atleast_2d(np.asarray(x, float)) for label, x in several.items()
                }
        return found


@dataclass(frozen=True, eq=False)
class StructureWeights:
    """What reweighting the draws cost, so that each graph counts once.

    Attributes
    ----------
    effective_draws
        The effective sample size of the reweighted draws.
    draws
        How many there were.
    count_error
        The relative error of the numbers of orders that the weights rest on; 0 if exact.
    """

    effective_draws: float
    draws: int
    count_error: float


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What every fit reports.

    Attributes
    ----------
    method
        The name of the method.
    mechanism
        How effects follow from causes in this fit; where it was asked to choose, what it chose.
    status
        How the fit ended.
    seconds
        How long it took.
    reasons
        What was looked at to judge the computation, each with how it came out.
    settings
        Every setting of the method, by name.
    fingerprint
        All that the result depends on: versions, checksums of data and beliefs, seed, settings.
    mechanism_margin
        Where the fit chose the mechanism, by how much log evidence it was preferred.
    mechanism_runner_up
        The mechanism that it was preferred to.
    graph_weights
        Whether graphs count once for every order (``"order"``) or once (``"structure"``).
    structure_weights
        The cost of counting each graph once, where draws were reweighted.
    details
        The diagnostics of the method's own.
    sensitivity
        What became of sure arrows under other specifications, where that was tried.
    changes
        P(the mechanism of a column changes with the environment), by kind of change and column.
    """

    method: str
    mechanism: str
    status: Status
    seconds: float
    reasons: tuple[Reason, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    mechanism_margin: float | None = None
    graph_weights: str = "order"
    structure_weights: StructureWeights | None = None
    details: Details | None = None
    sensitivity: Sensitivity | None = None
    changes: Mapping[str, tuple[float, ...]] | None = None
    mechanism_runner_up: str | None = None

    def scalars(self) -> dict[str, Any]:
        """All numbers and words among the diagnostics, by name."""
        own = {} if self.details is None else _fields(self.details)
        weights = {} if self.structure_weights is None else _fields(self.structure_weights)
        found = {**_fields(self), **own, **weights}
        return {name: value for name, value in found.items() if _is_scalar(value)}


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.generic)
