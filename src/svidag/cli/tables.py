"""Posteriors as tables on a terminal."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from svidag.cli.messages import printable
from svidag.effects import Effect, Experiments
from svidag.posterior import Posterior
from svidag.posterior.decisions import Decisions
from svidag.report.summary import HEADS, PAIRS, pair_rows

SHORTEST = 12
"""Characters of a name that must be seen."""
FLIPS = 10
"""Arrows listed that another model contradicts."""


def print_matrix(
    screen: Console, probability: pd.DataFrame, known: pd.DataFrame | None = None
) -> None:
    """Print all arrow probabilities, causes in rows and effects in columns, known arrows marked.

    Columns have numbers where names are too long, and nothing is printed where nothing fits: a
    probability that is cut off is worse than none.
    """
    names = [printable(str(name)) for name in probability.index]
    cut = [name if len(name) <= SHORTEST else f"{name[: SHORTEST - 1]}…" for name in names]
    plain = _matrix(probability, known, names, names)
    unbounded = screen.options.update(max_width=10**6)
    for table in (plain, *(_numbered(probability, known, rows) for rows in (names, cut))):
        if screen.measure(table, options=unbounded).maximum <= screen.width:
            screen.print(table)
            return


def _numbered(probability: pd.DataFrame, known: pd.DataFrame | None, names: list[str]) -> Table:
    numbers = [str(k) for k in range(1, len(names) + 1)]
    rows = [f"{number} {name}" for number, name in zip(numbers, names, strict=True)]
    table = _matrix(probability, known, rows, numbers)
    table.box, table.padding = box.SIMPLE_HEAD, 0
    return table


def _matrix(
    probability: pd.DataFrame, known: pd.DataFrame | None, rows: list[str], heads: list[str]
) -> Table:
    table = _table("P(cause → effect)")
    table.add_column("cause", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for i, name in enumerate(rows):
        table.add_row(name, *(_cell(probability, known, i, j) for j in range(len(rows))))
    return table


def pair_table(found: Decisions, known: pd.DataFrame | None = None) -> Table:
    """Each pair that may be connected, one to a line, in the words of the report."""
    pair, status, *probabilities, ground = HEADS
    table = _table("Pairs of variables")
    table.box, table.padding = box.SIMPLE_HEAD, (0, 1, 0, 0)
    table.add_column(pair, overflow="fold")
    for head in probabilities:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(f"{status}: {ground}", overflow="fold")
    if known is not None:
        table.add_column("known")
    for each, row in list(zip(found.shown(), pair_rows(found), strict=True))[:PAIRS]:
        name, word, *numbers, basis = map(printable, row)
        marks = [] if known is None else [_mark(known, each.cause, each.effect)]
        text = f"{word}: {basis}" if each.basis else word
        table.add_row(name, *numbers, text, *marks)
    return table


def experiment_table(found: Experiments) -> Table:
    """What each experiment would tell, the most informative first."""
    table = Table(pad_edge=False)
    table.add_column("set")
    table.add_column("to")
    table.add_column("bits", justify="right")
    table.add_column("± standard error", justify="right")
    for name, values, bits, error in found.rows():
        table.add_row(printable(name), values, f"{bits:.3f}", f"{error:.3f}")
    return table


def sensitivity_lines(posterior: Posterior) -> list[str]:
    """The sure arrows that another model contradicts, if the fit found any."""
    found = None if posterior.diagnostics is None else posterior.diagnostics.sensitivity
    if found is None or not found.flipped.any():
        return []
    title = "Does the answer change with the model? These arrows were sure in the fit of all rows:"
    return [title, *(f"  {line}" for line in found.lines(FLIPS))]


def effect_table(effect: Effect) -> Table:
    """A total effect as a table: one quantity to a line."""
    cause = effect.labels[0]
    low, high = effect.interval
    rows = {
        f"{cause} is set": f"to {effect.ends[1]} instead of {effect.ends[0]}",
        **{f"{name} is held": f"at {_plain(value)}" for name, value in effect.holding.items()},
        f"{effect.quantity} changes by": f"{effect.mean:.4g} ± {effect.standard_error:.1g}",
        f"{100 * effect.level:g} % interval": f"{low:.4g} to {high:.4g}",
        "P(no path, no effect)": f"{effect.probability_zero:.3f}",
        "P(above 0)": f"{effect.probability_positive:.3f}",
        "P(below 0)": f"{effect.probability_negative:.3f}",
        "standard deviation": f"{effect.sd:.3g}",
        "  from the graph": f"{effect.structural_sd:.3g}",
        "  from the parameters": f"{effect.parametric_sd:.3g}",
    }
    if effect.words is not None and effect.words.before is not None:
        rows = {"before": f"{effect.quantity} is {effect.words.before:.3f}", **rows}
    table = _table(printable(f"Effect of {effect.cause} on {effect.effect}"))
    table.show_header = False
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows.items():
        table.add_row(printable(name), value)
    return table


def _plain(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", pad_edge=False)


def _cell(probability: pd.DataFrame, known: pd.DataFrame | None, i: int, j: int) -> str:
    if i == j:
        return "·"
    mark = "✓" if known is not None and known.iloc[i, j] else ""
    return f"{mark}{probability.iloc[i, j]:.2f}"


def _mark(known: pd.DataFrame, i: Any, j: Any) -> str:
    return "✓" if known.iloc[i, j] else "reversed" if known.iloc[j, i] else ""
