"""Posteriors as tables on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from svidag.posterior import Posterior
from svidag.report.verdict import Verdict

WIDEST = 14
"""Variables up to which the whole matrix is legible on a terminal."""


def matrix_table(probability: pd.DataFrame, known: pd.DataFrame | None = None) -> Table:
    """All arrow probabilities, causes in rows and effects in columns, known arrows marked."""
    table = _table("P(cause → effect)")
    table.add_column("cause", no_wrap=True)
    for name in probability.columns:
        table.add_column(escape(str(name)), justify="right", no_wrap=True)
    for i, cause in enumerate(probability.index):
        cells = [_cell(probability, known, i, j) for j in range(len(probability))]
        table.add_row(escape(str(cause)), *cells)
    return table


def strongest_table(
    posterior: Posterior, known: pd.DataFrame | None = None, count: int = 20
) -> Table:
    """The most probable arrows, one to a line, and how far the data decide their direction."""
    probability, classes = posterior.edge_probabilities(), posterior.cpdag()
    values, decided = probability.to_numpy(), classes.directed.to_numpy()
    names = [escape(str(name)) for name in probability.index]
    table = _table("Most probable arrows")
    table.add_column("arrow")
    for heading in ("probability", "reverse", "decided", *(["known"] if known is not None else [])):
        table.add_column(heading, justify="right")
    for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
        i, j = np.unravel_index(flat, values.shape)
        if values[i, j] < 0.005:
            break
        figures = [f"{x:.3f}" for x in (values[i, j], values[j, i], decided[i, j])]
        marks = [] if known is None else [_mark(known, i, j)]
        table.add_row(f"{names[i]} → {names[j]}", *figures, *marks)
    return table


def graph_lines(graph: pd.DataFrame) -> list[str]:
    """The arrows of a graph, and the undirected pairs of a class, as text."""
    values, names = graph.to_numpy().astype(bool), list(map(str, graph.index))
    both = values & values.T
    arrows = [f"{names[i]} → {names[j]}" for i, j in np.argwhere(values & ~both)]
    return arrows + [f"{names[i]} — {names[j]}" for i, j in np.argwhere(np.triu(both))]


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict and its reasons, worst first."""
    return [
        f"Verdict: {verdict.level}. {verdict.headline}.",
        *(f"  {r.text}" for r in verdict.reasons),
    ]


def figures_table(title: str, rows: dict[str, Any]) -> Table:
    """Names and values, one to a line."""
    table = _table(title)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows.items():
        table.add_row(escape(name), escape(str(value)))
    table.show_header = False
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", pad_edge=False)


def _cell(probability: pd.DataFrame, known: pd.DataFrame | None, i: int, j: int) -> str:
    if i == j:
        return "·"
    mark = "✓" if known is not None and known.iloc[i, j] else ""
    return f"{mark}{probability.iloc[i, j]:.2f}"


def _mark(known: pd.DataFrame, i: Any, j: Any) -> str:
    return "✓" if known.iloc[i, j] else "reversed" if known.iloc[j, i] else ""
