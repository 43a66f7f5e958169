"""Choices that a careful analyst could have made either way: margins and mechanisms."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from svidag.data.transforms import rank_gaussian
from svidag.methods.base import Method
from svidag.problem import Problem

RAW, RANK = "raw", "rank-gaussian"

MARGINS = (RAW, RANK)
"""Columns as they are, or by the normal quantiles of their ranks."""

MECHANISMS = ("linear", "flexible", "nonlinear")
"""What the fits of a mixture take in turn where the mechanism was left open: the first two of these
that the method knows."""


@dataclass(frozen=True)
class Specification:
    """Margins and a mechanism.

    Examples
    --------
    >>> print(Specification("rank-gaussian", "linear"))
    rank-Gaussian margins, linear
    """

    margins: str
    mechanism: str

    def __str__(self) -> str:
        margins = "rank-Gaussian margins" if self.margins == RANK else "raw margins"
        return f"{margins}, {self.mechanism}"


def specifications(method: Method, mechanism: str) -> tuple[Specification, ...]:
    """What the fits of a mixture take in turn, for a method and a mechanism as asked.

    A mechanism that was asked for by name is run as asked; one that was left open varies if the
    method decides by evidence, and else is the method's own.

    Examples
    --------
    >>> from svidag.methods import METHODS
    >>> [str(s) for s in specifications(METHODS["exact"], "auto")]
    ['raw margins, linear', 'rank-Gaussian margins, linear']
    """
    if mechanism == "auto" and "auto" in method.support.mechanisms:
        chosen = [known for known in MECHANISMS if known in method.support.mechanisms][:2]
    else:
        chosen = [method.support.mechanism(mechanism)]
    return tuple(Specification(margins, named) for named in chosen for margins in MARGINS)


@dataclass(frozen=True, eq=False)
class PlannedFit:
    """One fit of a batch: its specification, its rows of the table, and its seed."""

    specification: Specification
    rows: Int[np.ndarray, " n"]
    seed: int

    def problem(self, whole: Problem) -> Problem:
        """The problem of these rows, with margins as specified and the beliefs of the whole."""
        data = whole.data
        values = data.values if whole.scaling is None else whole.scaling.invert(data.values)
        values = values[self.rows]
        if self.specification.margins == RANK:
            values = values.copy()
            for j in np.flatnonzero(data.continuous):
                values[:, j] = rank_gaussian(values[:, j], data.names[j])
        part = dataclasses.replace(data, values=values, intervened=data.intervened[self.rows])
        checksum, scaling = part.checksum, None
        if whole.scaling is not None:
            part, scaling = part.standardise()
        return dataclasses.replace(
            whole, data=part, scaling=scaling, findings=(), original_checksum=checksum
        )


def cycle_specifications(choices: Sequence[Specification], count: int) -> list[Specification]:
    """A list of `count` specifications that goes through the choices again and again.

    Examples
    --------
    >>> both = [Specification(margins, "linear") for margins in MARGINS]
    >>> [s.margins for s in cycle_specifications(both, 3)]
    ['raw', 'rank-gaussian', 'raw']
    """
    return [choices[k % len(choices)] for k in range(count)]
