"""Graphs and numbers as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape

import numpy as np
import pandas as pd

SHOWN = 40
"""Arrows listed in the text of a graph."""


class Readable(ABC):
    """A title and lines below it: as text in a terminal, as HTML in a notebook."""

    @abstractmethod
    def _text(self) -> tuple[str, list[str]]:
        """The title, and the lines."""

    def __repr__(self) -> str:
        title, lines = self._text()
        return "\n  ".join([title, *lines])

    def _repr_html_(self) -> str:
        title, lines = self._text()
        listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return f"<div><p>{escape(title)}</p><ul>{listed}</ul></div>"


def arrow_lines(graph: pd.DataFrame) -> list[str]:
    """The arrows of a graph, and the undirected pairs of a class, one to a line.

    Examples
    --------
    >>> arrow_lines(pd.DataFrame([[0, 1], [0, 0]], index=["a", "b"], columns=["a", "b"]))
    ['a → b']
    """
    values, names = graph.to_numpy().astype(bool), list(map(str, graph.index))
    both = values & values.T
    arrows = [f"{names[i]} → {names[j]}" for i, j in np.argwhere(values & ~both)]
    return arrows + [f"{names[i]} — {names[j]}" for i, j in np.argwhere(np.triu(both))]


def shortened(lines: list[str], most: int = SHOWN) -> list[str]:
    """Of many lines, the first ones and how many follow.

    Examples
    --------
    >>> shortened(["a → b", "b → c", "c → d"], most=2)
    ['a → b', 'b → c', 'and 1 more']
    """
    left = len(lines) - most
    return [*lines[:most], f"and {left} more"] if left > 0 else lines


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "arrow"), counted(2, "arrow"), counted(0, "class", "classes")
    ('1 arrow', '2 arrows', '0 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def probability(p: float) -> str:
    """A probability with two decimals that never claims more certainty than there is.

    Examples
    --------
    >>> [probability(p) for p in (0.0, 0.004, 0.5, 0.998, 1.0)]
    ['0', '<0.01', '0.50', '>0.99', '1']
    """
    if p <= 0 or p >= 1 - 1e-12:
        return "0" if p <= 0 else "1"
    if p < 0.005:
        return "<0.01"
    return ">0.99" if p > 0.995 else f"{p:.2f}"
