"""The command line: `svidag demo`, `svidag data`."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from svidag import __version__
from svidag.bench.commands import app as bench

app = typer.Typer(
    help="Bayesian causal discovery: which arrows are probable, and how sure we are.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_show_locals=False,
)
console = Console()
app.add_typer(bench, name="bench")


class SachsRows(StrEnum):
    """Which rows of the Sachs data to print."""

    pooled = "pooled"
    observational = "observational"


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"svidag {__version__}")
        raise typer.Exit
    return show


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian causal discovery: which arrows are probable, and how sure we are."""


@app.command()
def demo() -> None:
    """Compute the exact posterior of the Sachs protein data and print the arrows."""
    from svidag import datasets, exact
    from svidag.data import Dataset

    example = datasets.sachs(rows="observational", truth="consensus17")
    console.print(
        f"Sachs et al. (2005): {len(example.data)} cells, {example.data.shape[1]} proteins, "
        "log scale, no intervention.\nExact posterior over all causal graphs, linear mechanisms:"
    )
    started = time.perf_counter()
    posterior = exact.posterior(Dataset.from_any(example.data, transforms="log"))
    probability = posterior.edge_probabilities()
    seconds = time.perf_counter() - started
    console.print(matrix_table(probability, example.truth))
    console.print(strongest_table(probability, example.truth))
    console.print(
        f"✓ marks the arrows of the consensus network ({int(example.truth.to_numpy().sum())} in "
        f"all). Took {seconds:.1f} s."
    )


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="The data set: sachs.")],
    rows: Annotated[
        SachsRows, typer.Option(help="All conditions, or the observational rows alone.")
    ] = SachsRows.pooled,
) -> None:
    """Print a bundled data set as CSV."""
    from svidag import datasets

    if name != "sachs":
        typer.echo(f"unknown data set {name!r}; there is: sachs", err=True)
        raise typer.Exit(2)
    datasets.sachs(rows=rows.value).data.to_csv(sys.stdout, index=False)


def matrix_table(probability: pd.DataFrame, truth: pd.DataFrame) -> Table:
    """All arrow probabilities, causes in rows and effects in columns, known arrows marked."""
    table = Table(title="P(cause → effect)", title_justify="left", pad_edge=False)
    table.add_column("cause", no_wrap=True)
    for name in probability.columns:
        table.add_column(str(name), justify="right", no_wrap=True)
    for cause in probability.index:
        cells = [_cell(cause, effect, probability, truth) for effect in probability.columns]
        table.add_row(str(cause), *cells)
    return table


def strongest_table(probability: pd.DataFrame, truth: pd.DataFrame, count: int = 20) -> Table:
    """The most probable arrows, one to a line."""
    table = Table(title="Most probable arrows", title_justify="left", pad_edge=False)
    for heading in ("arrow", "probability", "reverse", "consensus"):
        table.add_column(heading, justify="right" if heading != "arrow" else "left")
    values = probability.to_numpy()
    names = list(probability.index)
    for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
        i, j = np.unravel_index(flat, values.shape)
        known = truth.iloc[i, j], truth.iloc[j, i]
        mark = "✓" if known[0] else "reversed" if known[1] else ""
        table.add_row(
            f"{names[i]} → {names[j]}", f"{values[i, j]:.3f}", f"{values[j, i]:.3f}", mark
        )
    return table


def _cell(cause: str, effect: str, probability: pd.DataFrame, truth: pd.DataFrame) -> str:
    if cause == effect:
        return "·"
    mark = "✓" if truth.loc[cause, effect] else ""
    return f"{mark}{probability.loc[cause, effect]:.2f}"
