"""`svidag report`, `graphs`, `effect`, `next`, `export`: commands that show a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from svidag.cli.messages import explain_errors, output, waiting, write_line, write_note
from svidag.cli.run_directory import RunDirectory

Run = Annotated[Path, typer.Argument(help="The directory of a finished `svidag fit`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def report(
    run: Run,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file of the page; by default RUN/report.html."),
    ] = None,
) -> None:
    """Write one HTML page that shows the whole result and opens offline."""
    with explain_errors():
        place = RunDirectory(run)
        target = file or place.report
        with waiting("writing the report"):
            place.load().report(target)
        write_line(f"Wrote {target}")


def graphs(
    run: Run,
    k: Annotated[
        int, typer.Option("--number", "-k", min=1, help="How many graphs or classes.")
    ] = 3,
    classes: Annotated[
        bool, typer.Option(help="Equivalence classes instead of single graphs.")
    ] = False,
    consensus: Annotated[
        bool, typer.Option(help="The single graph that agrees best with the posterior.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the most probable graphs or classes, or the consensus graph."""
    from svidag.posterior.text import arrow_lines

    with explain_errors():
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
            write_line(f"{title}{share}")
            for line in arrow_lines(graph) or ["no arrows"]:
                write_line(f"  {line}")


def effect(
    run: Run,
    cause: Annotated[str, typer.Argument(help="The variable that is set by an intervention.")],
    effect: Annotated[str, typer.Argument(help="The variable whose mean may change.")],
    change: Annotated[
        float | None,
        typer.Option(
            help="By how much the cause is changed; by default one standard deviation, as in the "
            "report."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="The value of the cause before the change; by default its mean, or the most "
            "frequent value of a discrete column."
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(help="The value of the cause after the change.")] = None,
    value: Annotated[
        str | None, typer.Option(help="The value of a discrete effect whose probability is meant.")
    ] = None,
    holding: Annotated[
        list[str] | None,
        typer.Option(help="A variable held fixed, as name=value; repeat the option for more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what changing a cause would do to an effect, over all graphs and parameters."""
    from svidag.cli.tables import effect_table
    from svidag.effects import usual_change

    with explain_errors():
        posterior = RunDirectory(run).load()
        held = dict(_held(posterior, text) for text in holding or ())
        if change is None:
            change = 1.0 if to is not None else usual_change(posterior, cause)
        found = posterior.effect(
            cause,
            effect,
            change=change,
            at=_value(posterior, cause, at),
            to=_value(posterior, cause, to),
            value=_value(posterior, effect, value),
            holding=held,
        )
        if as_json:
            typer.echo(json.dumps(found.to_dict()))
            return
        output().print(effect_table(found))


def next_experiments(
    run: Run,
    rows: Annotated[int, typer.Option(min=1, help="Further rows of each experiment.")] = 100,
    about: Annotated[
        list[str] | None,
        typer.Option(
            help="Information about an effect: --about CAUSE --about EFFECT; by default about "
            "the graph."
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Values to which a variable is set, as name=value,value; by default those at "
            "10 % and 90 % of the observed ones, and all of a binary or categorical variable.",
        ),
    ] = None,
    n: Annotated[
        int, typer.Option("--number", "-n", min=2, help="Simulated experiments per variable.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say which variable to set in the next experiment: the expected information from each."""
    from svidag.cli.tables import experiment_table

    with explain_errors():
        if about is not None and len(about) != 2:
            raise ValueError("--about takes a cause and an effect: --about CAUSE --about EFFECT")
        posterior = RunDirectory(run).load()
        chosen = dict(_values(posterior, text) for text in values or ())
        with waiting("simulating experiments"):
            found = posterior.next_experiments(
                rows,
                about=None if about is None else (about[0], about[1]),
                values=chosen or None,
                n=n,
                seed=seed,
            )
        if as_json:
            typer.echo(json.dumps(found.to_dict()))
            return
        write_line(found.title)
        output().print(experiment_table(found))
        for line in found.notes:
            write_line(line)


def export(
    run: Run,
    file: Annotated[
        Path,
        typer.Argument(
            help="The file; its ending is the format: .csv, .json, .dot, .gml, .graphml, or for "
            "a drawing .svg or .png."
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option("--format", help="The format, if it is not the ending of the file."),
    ] = None,
) -> None:
    """Write the result for another program, or as an image."""
    from svidag.export import write

    with explain_errors():
        write(RunDirectory(run).load(), file, format=kind)
        write_note(f"Wrote {file}")


def _plain(title: str, graph: Any, probability: float | None) -> dict[str, Any]:
    arrows = [
        [cause, other]
        for cause in graph.index
        for other in graph.columns
        if graph.loc[cause, other]
    ]
    return {"title": title, "probability": probability, "edges": arrows}


def _values(posterior: Any, text: str) -> tuple[str, list[Any]]:
    """Read name=value,value; the name may contain an equals sign."""
    name, _, listed = text.rpartition("=")
    found = [_value(posterior, name, value) for value in listed.split(",")]
    if any(isinstance(value, str) and not _is_level(posterior, name, value) for value in found):
        raise ValueError(
            f"--set takes name=value,value with numbers, or the values of a discrete column, for "
            f"instance --set dose=0,10; got {text!r}"
        )
    return name, found


def _held(posterior: Any, text: str) -> tuple[str, Any]:
    """Read name=value; the name may contain an equals sign."""
    name, _, value = text.rpartition("=")
    found = _value(posterior, name, value)
    if isinstance(found, str) and found == value and not _is_level(posterior, name, found):
        raise ValueError(
            f"--holding takes name=value with a number, for instance --holding dose=1.5; "
            f"got {text!r}"
        )
    return name, found


def _value(posterior: Any, name: str, text: str | None) -> Any:
    """A value as the column has it: a level by its label, or else a number, or else text."""
    if text is None:
        return None
    problem = posterior.problem
    if problem is not None and name in posterior.names:
        for level in problem.data.levels[posterior.names.index(name)]:
            if str(level) == text:
                return level
    try:
        return float(text)
    except ValueError:
        return text


def _is_level(posterior: Any, name: str, value: Any) -> bool:
    problem = posterior.problem
    if problem is None or name not in posterior.names:
        return False
    return value in problem.data.levels[posterior.names.index(name)]
