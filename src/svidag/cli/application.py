"""`svidag`: the command line, with commands in the order in which a new user needs them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from svidag import __version__
from svidag.bench.commands import app as bench
from svidag.cli import bundled, fitting, methods, results

app = typer.Typer(
    help="Bayesian causal discovery: which arrows are probable, and how sure we are.",
    epilog="Begin with `svidag demo`, or `svidag fit table.csv -o run` and `svidag report run`.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


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
    # A terminal without the arrow character shows its code instead of failing.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


app.command()(bundled.demo)
app.command()(fitting.check)
app.command()(fitting.fit)
app.command()(results.report)
app.command()(results.graphs)
app.command()(results.effect)
app.command(name="next")(results.next_experiments)
app.command()(results.export)
app.command()(methods.methods)
app.command()(bundled.data)
app.add_typer(bench, name="bench")
