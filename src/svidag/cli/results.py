"""`svidag report`, `graphs`, `effect`, `export`: what a finished run says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from svidag.cli.messages import note, output, tell, told
from svidag.cli.run_directory import RunDirectory

Run = Annotated[Path, typer.Argument(help="The directory of a finished `svidag fit`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def report(
    run: Run,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; by default RUN/report.html.")
    ] = None,
) -> None:
    """Write one HTML page that shows the whole result and opens offline."""
    with told():
        place = RunDirectory(run)
        target = file or place.report
        place.load().report(target)
        tell(f"Wrote {target}")


def graphs(
    run: Run,
    k: Annotated[int, typer.Option("--number", "-k", min=1, help="How many.")] = 3,
    classes: Annotated[
        bool, typer.Option(help="Equivalence classes instead of single graphs.")
    ] = False,
    consensus: Annotated[
        bool, typer.Option(help="The one graph that agrees best with the posterior.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the most probable graphs or classes, or the consensus graph."""
    from svidag.cli.tables import graph_lines

    with told():
        posterior = RunDirectory(run).load()
        if consensus:
            found = [("consensus", posterior.consensus().graph, None)]
        elif classes:
            ranked = posterior.top_classes(k)
            found = [(f"{r + 1}", one.cpdag, one.probability) for r, one in enumerate(ranked)]
        else:
            ranked = posterior.top_graphs(k)
            found = [(f"{r + 1}", one.graph, one.probability) for r, one in enumerate(ranked)]
        if as_json:
            typer.echo(json.dumps([_plain(*one) for one in found]))
            return
        for title, graph, probability in found:
            share = "" if probability is None else f"  probability {probability:.3f}"
            tell(f"{title}{share}")
            for line in graph_lines(graph) or ["no arrows"]:
                tell(f"  {line}")


def effect(
    run: Run,
    cause: Annotated[str, typer.Argument(help="The variable that is set from outside.")],
    effect: Annotated[str, typer.Argument(help="The variable whose mean may change.")],
    change: Annotated[float, typer.Option(help="By how much the cause is raised.")] = 1.0,
    at: Annotated[
        float | None, typer.Option(help="From which value; by default the cause's mean.")
    ] = None,
    holding: Annotated[
        list[str] | None,
        typer.Option(help="A variable held meanwhile, as name=value; repeat for more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what setting a cause would do to an effect, over all graphs and parameters."""
    from svidag.cli.tables import effect_table

    with told():
        held = dict(_held(text) for text in holding or ())
        posterior = RunDirectory(run).load()
        found = posterior.effect(cause, effect, change=change, at=at, holding=held)
        if as_json:
            typer.echo(json.dumps(found.to_dict()))
            return
        output().print(effect_table(found))


def export(
    run: Run,
    file: Annotated[
        Path,
        typer.Argument(help="Where to; .csv, .json, .dot, .gml or .graphml says the format."),
    ],
    kind: Annotated[
        str | None, typer.Option("--format", help="The format, if the name does not say.")
    ] = None,
) -> None:
    """Write the result for another program."""
    from svidag.export import write

    with told():
        write(RunDirectory(run).load(), file, format=kind)
        note(f"Wrote {file}")


def _plain(title: str, graph: Any, probability: float | None) -> dict[str, Any]:
    arrows = [
        [cause, other]
        for cause in graph.index
        for other in graph.columns
        if graph.loc[cause, other]
    ]
    return {"title": title, "probability": probability, "edges": arrows}


def _held(text: str) -> tuple[str, float]:
    """Read name=value; a name may hold an equals sign, a number cannot."""
    name, _, value = text.rpartition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ValueError(
            f"--holding takes name=value with a number, for instance --holding dose=1.5; "
            f"got {text!r}"
        ) from None
