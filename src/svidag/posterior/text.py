"""Graphs and numbers as text."""

from __future__ import annotations

import numpy as np
import pandas as pd

SHOWN = 40
"""Arrows listed in the text of a graph."""


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


def indented(lines: list[str], most: int = SHOWN) -> str:
    r"""Lines below a heading; of many, the first ones and how many follow.

    Examples
    --------
    >>> indented(["a → b", "b → c", "c → d"], most=2)
    '\n  a → b\n  b → c\n  and 1 more'
    """
    shown = lines[:most]
    if len(lines) > most:
        shown = [*shown, f"and {len(lines) - most} more"]
    return "".join(f"\n  {line}" for line in shown)


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
