"""`svidag check` and `svidag fit`: from a table to a run."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from svidag.cli.messages import as_options, explain_errors, output, write_line, write_note
from svidag.cli.run_directory import Request, RunDirectory

DataFile = Annotated[
    Path, typer.Argument(help="A CSV, TSV or Parquet file: one named column for each variable.")
]
Knowledge = Annotated[
    Path | None,
    typer.Option(
        "--knowledge",
        "-k",
        help="Beliefs, required and forbidden arrows, tiers: YAML, JSON, CSV or Tetrad.",
    ),
]
Interventions = Annotated[
    str | None,
    typer.Option(help="The column that names each row's intervention targets, empty for none."),
]
Environments = Annotated[
    str | None,
    typer.Option(
        help="The column of batch, laboratory or experiment, with which mechanisms may change; "
        "several are separated by commas."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Columns that are not variables, separated by commas; or repeat it."),
]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        help="log or rank-gaussian for every column before the fit, or COLUMN=log for one; repeat "
        "for more."
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="Missing cells: error; drop: leave out their rows; impute: average over completed "
        "tables."
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(help="A column that names groups of rows, which are resampled as a whole."),
]
KindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="What a column is: COLUMN=continuous, binary, categorical, ordinal or count; repeat "
        "for more. By default dtype and values say it.",
    ),
]


def _workers(text: str) -> int | str:
    """A number of processes, or the address of a scheduler."""
    from svidag.run.workers import check_workers

    found = int(text) if text.removeprefix("-").isdecimal() else text
    try:
        check_workers(found)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a whole number from 1 on nor the address of a Dask scheduler, "
            "such as tcp://127.0.0.1:8786"
        ) from None
    return found


def check(
    data: DataFile,
    knowledge: Knowledge = None,
    interventions: Interventions = None,
    environments: Environments = None,
    groups: Groups = None,
    drop: Drop = None,
    kind: KindOption = None,
    transform: Transform = None,
    missing: Missing = "error",
) -> None:
    """Say all that is worth knowing about a table before a fit, and what to do about it.

    Options are those of `svidag fit`: what is suggested can be tried here first.
    """
    from svidag.cli.checking import check_table

    request = Request(
        str(data),
        None if knowledge is None else str(knowledge),
        interventions,
        environments,
        groups,
        tuple(drop or ()),
        missing=missing,
    )
    with explain_errors():
        request = dataclasses.replace(request, transform=_transform(transform), kinds=_kinds(kind))
        check_table(request)


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="A CSV, TSV or Parquet file with one named column for each variable, "
            "or the directory of an unfinished run, to go on with it."
        ),
    ],
    directory: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run's directory.")
    ] = None,
    knowledge: Knowledge = None,
    interventions: Interventions = None,
    environments: Environments = None,
    groups: Groups = None,
    drop: Drop = None,
    kind: KindOption = None,
    transform: Transform = None,
    missing: Missing = "error",
    method: Annotated[
        str, typer.Option(help="How the posterior is found; `svidag methods` lists them.")
    ] = "order-mcmc",
    mechanism: Annotated[
        str,
        typer.Option(
            help="linear, nonlinear, flexible, or auto: decided by evidence; discrete or mixed for "
            "tables with discrete columns, which auto means there."
        ),
    ] = "auto",
    standardise: Annotated[bool, typer.Option(help="Centre and scale every column.")] = True,
    graph_weights: Annotated[
        str, typer.Option(help="order: the paper's model; structure: each graph counts once.")
    ] = "order",
    coarsen: Annotated[
        float | None,
        typer.Option(help="Beyond about this many rows, more rows make the result no surer."),
    ] = None,
    bags: Annotated[
        str,
        typer.Option(
            help="Fits of a mixture over resamples; 0: none; auto: where one fit does not explain "
            "the table, or its sure arrows do not survive other models."
        ),
    ] = "auto",
    bag_rows: Annotated[
        int | None,
        typer.Option(help="Rows of each resample; by default all, with --bags auto fewer."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="End after this time with what was found; the report says what was cut short."
        ),
    ] = None,
    workers: Annotated[
        Any,
        typer.Option(
            parser=_workers,
            metavar="N|ADDRESS",
            help="Cores to use, and fits of a mixture at a time, by default all that there are; or "
            "the address of a Dask scheduler, tcp://127.0.0.1:8786. The result is the same.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, as name=value; repeat for more."),
    ] = None,
    restart: Annotated[
        bool, typer.Option(help="Delete the run that is in the directory and start again.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, for programs.")
    ] = False,
    quiet: Annotated[bool, typer.Option(help="Show no progress.")] = False,
) -> None:
    """Find the posterior over causal graphs of a table and save it in a directory.

    To go on with an interrupted run, repeat the command or give `svidag fit` its directory.
    """
    asked = {
        "knowledge": None if knowledge is None else _absolute(knowledge),
        "interventions": interventions,
        "environments": environments,
        "groups": groups,
        "drop": tuple(drop or ()),
        "missing": missing,
        "method": method,
        "mechanism": mechanism,
        "standardise": standardise,
        "graph_weights": graph_weights,
        "coarsen": coarsen,
        "bag_rows": bag_rows,
        "minutes": minutes,
        "seed": seed,
    }
    with explain_errors():
        asked["bags"] = _bags(bags)
        asked["transform"] = _transform(transform)
        asked["kinds"] = _kinds(kind)
        asked["settings"] = dict(_setting(text) for text in setting or ())
        if data.is_dir():
            run, request = _resumed_run(data, directory, asked)
        else:
            run = RunDirectory(directory or _default_directory(data))
            request = _new_run(run, Request(_absolute(data), **asked), restart)
        if run.finished and not restart:
            write_note(f"The run in {run.path} is finished; --restart would repeat it.")
        else:
            if run.checkpoint.exists() and not restart:
                write_note(f"Going on with the run in {run.path}.")
            if not (quiet or as_json):  # what a fit needs takes seconds to import
                write_note(f"Reading {request.data}.")
            with run.running(request, restart=restart):
                _run(run, request, False if quiet or as_json else None, workers)
                if not (quiet or as_json):
                    write_note("Summing up.")
        _write_summary(run, as_json)


def _run(run: RunDirectory, request: Request, progress: Any, workers: int | str | None) -> None:
    from svidag.export import write

    try:
        posterior = request.fit(run.checkpoint, progress, workers)
    except KeyboardInterrupt:
        again = f"`svidag fit {shlex.quote(str(run.path))}`"
        if run.checkpoint.exists():
            message = f"interrupted; what was done is saved. {again} goes on."
        else:
            message = f"interrupted before there was anything to save. {again} starts again."
        raise KeyboardInterrupt(message) from None
    write(posterior, run.edges)
    posterior.save(run.result)
    run.checkpoint.unlink(missing_ok=True)


def _write_summary(run: RunDirectory, as_json: bool) -> None:
    from svidag.cli.tables import pair_table, print_matrix, sensitivity_lines
    from svidag.report.summary import more_line, summarise, verdict_lines

    posterior = run.load()
    found = summarise(posterior)
    verdict = found.verdict
    if as_json:
        edges = posterior.edge_probabilities()
        content = {
            "run": str(run.path),
            "names": list(posterior.names),
            "edge_probabilities": edges.to_numpy().tolist(),
            "pairs": found.decisions.to_frame().to_dict("records"),
            "mechanism": posterior.mechanism,
            "verdict": str(verdict.level),
            "reasons": [reason.text for reason in verdict.reasons],
            "flipped": _flipped(posterior),
        }
        typer.echo(json.dumps(content))
        return
    screen = output()
    print_matrix(screen, posterior.edge_probabilities())
    screen.print(pair_table(found.decisions))
    lines = [*more_line(found.decisions), found.counts, found.mechanism]
    for line in [*lines, *verdict_lines(verdict), *sensitivity_lines(posterior)]:
        write_line(as_options(line))
    place = shlex.quote(str(run.path))
    write_note(f"Saved in {run.path}. `svidag report {place}` makes a page to read.")


def _flipped(posterior: Any) -> list[dict[str, Any]]:
    """Sure arrows that another specification contradicts, with their probabilities."""
    found = posterior.diagnostics.sensitivity
    return [] if found is None else found.to_frame().to_dict("records")


def _new_run(run: RunDirectory, asked: Request, restart: bool) -> Request:
    """The request of a new or repeated run; a run with other arguments is not overwritten."""
    found = None if restart else run.request()
    if found is not None and found != asked:
        raise ValueError(
            f"{run.path} holds a run with other arguments ({_difference(found, asked)}); "
            "choose another directory, or --restart to delete it"
        )
    return asked


def _resumed_run(
    directory: Path, other: Path | None, asked: dict[str, Any]
) -> tuple[RunDirectory, Request]:
    """The unfinished run in a directory, with the arguments that it was started with."""
    run = RunDirectory(directory)
    if other is not None and other != directory:
        raise ValueError(f"{directory} holds a run, which cannot go on in {other}")
    found = run.request()
    if found is None:
        raise ValueError(f"{directory} is a directory without a run; expected a table")
    plain = Request(found.data)
    given = {name: value for name, value in asked.items() if value != getattr(plain, name)}
    wanted = dataclasses.replace(found, **given)
    if wanted != found:
        raise ValueError(
            f"{directory} holds a run with other arguments ({_difference(found, wanted)}); it can "
            "only go on with those: leave the new ones out, or start another run from the table"
        )
    return run, found


def _difference(found: Request, asked: Request) -> str:
    differing = [
        f"{name}: {value!r} there, {getattr(asked, name)!r} now"
        for name, value in vars(found).items()
        if value != getattr(asked, name)
    ]
    return "; ".join(differing)


def _default_directory(data: Path) -> Path:
    return data.with_name(f"{data.stem}-svidag")


def _bags(text: str) -> int | str | None:
    if text == "auto" or text.isdecimal():
        return text if text == "auto" else int(text) or None
    raise ValueError(f"--bags takes a number of fits, or auto; got {text!r}")


def _transform(texts: list[str] | None) -> str | dict[str, str] | None:
    """A transform for all columns, or one by name for some; a name may hold an equals sign."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    named = {}
    for text in texts:
        column, equals, name = text.rpartition("=")
        if not equals or not column:
            raise ValueError(
                "--transform takes one transform for every column, or COLUMN=TRANSFORM as often "
                f"as needed, for instance --transform CRP=log; got {text!r}"
            )
        named[column] = name
    return named


def _kinds(texts: list[str] | None) -> dict[str, str] | None:
    """Kinds by column; a name may hold an equals sign."""
    named = {}
    for text in texts or ():
        column, equals, name = text.rpartition("=")
        if not equals or not column:
            raise ValueError(
                f"--kind takes COLUMN=KIND, for instance --kind stage=ordinal; got {text!r}"
            )
        named[column] = name
    return named or None


def _absolute(path: Path) -> str:
    return os.path.abspath(path)


def _setting(text: str) -> tuple[str, Any]:
    """Read name=value; a value that is not JSON is taken as text."""
    import svidag

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--set takes name=value, for instance --set chains=8; got {text!r}")
    if name.strip() in inspect.signature(svidag.fit).parameters:
        raise ValueError(
            f"--set {name.strip()}: that is an argument of svidag.fit, not a setting of a method"
        )
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value
