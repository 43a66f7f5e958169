"""`svidag demo` and `svidag data`: commands for the data set that comes with the package."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from svidag.cli.messages import BAD_INPUT, explain_errors, output, write_line, write_note

FITS, FIT_ROWS = 16, 500
"""Fits of the demo, and rows of each: cells of many batches do not follow one linear model, and a
single fit of all of them would be sure of too much."""

LEFT_OPEN = (
    f"Asked for were {FITS} linear fits of {FIT_ROWS} resampled rows each, which take seconds. By "
    "itself `svidag fit` lets the evidence decide and checks the fit, which takes minutes here."
)
"""What the demo leaves out."""


class SachsRows(StrEnum):
    """Which rows of the Sachs data to print."""

    pooled = "pooled"
    observational = "observational"


def demo(
    directory: Annotated[
        Path, typer.Option("--output", "-o", help="Where the result and its report go.")
    ] = Path("svidag-demo"),
) -> None:
    """Fit the bundled protein-signalling data with its interventions and write a report.

    A mixture of linear fits of resampled rows, which takes seconds.
    """
    import svidag
    from svidag.cli.run_directory import RunDirectory
    from svidag.cli.tables import pair_table, print_matrix
    from svidag.report.summary import summarise, verdict_lines

    with explain_errors():
        example = svidag.datasets.sachs(rows="pooled", truth="consensus17")
        screen = output()
        screen.print(
            f"Sachs et al. (2005): {len(example.data)} cells, {example.data.shape[1]} proteins and "
            "lipids, log scale, five of them set from outside in some cells."
        )
        started = time.perf_counter()
        data = svidag.Dataset.from_any(
            example.data, interventions=example.interventions, transforms="log"
        )
        posterior = svidag.fit(data, mechanism="linear", bags=FITS, bag_rows=FIT_ROWS)
        run = RunDirectory(directory)
        posterior.save(run.result)
        posterior.report(run.report)
        print_matrix(screen, posterior.edge_probabilities(), example.truth)
        found = summarise(posterior)
        screen.print(pair_table(found.decisions, example.truth))
        known = int(example.truth.to_numpy().sum())
        write_line(f"✓ marks the {known} arrows of the consensus network.")
        for line in [found.counts, found.mechanism, *verdict_lines(found.verdict)]:
            write_line(line)
        write_line(f"Took {time.perf_counter() - started:.0f} s. {LEFT_OPEN}")
        write_line(f"Open {run.report} in a browser.")


def data(
    name: Annotated[str, typer.Argument(help="The data set: sachs.")],
    rows: Annotated[
        SachsRows, typer.Option(help="All conditions, or the observational rows alone.")
    ] = SachsRows.pooled,
    targets: Annotated[
        bool,
        typer.Option(help="Add the column `target`: what was set from outside in each row."),
    ] = False,
) -> None:
    """Print a bundled data set as CSV."""
    from svidag import datasets

    if name != "sachs":
        write_note(f"error: unknown data set {name!r}; the only bundled data set is sachs")
        raise typer.Exit(BAD_INPUT)
    example = datasets.sachs(rows=rows.value)
    table = example.data
    if targets and example.interventions is not None:
        table = table.assign(target=example.interventions.dot(table.columns))
    table.to_csv(sys.stdout, index=False)
