"""`svidag bench`: run studies, and turn their rows into tables and plots."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

app = typer.Typer(help="Run studies and make their tables and plots.", no_args_is_help=True)
console = Console()


class Layout(StrEnum):
    """How a table is written."""

    md = "md"
    latex = "latex"
    csv = "csv"


StudyArgument = Annotated[
    str, typer.Argument(help="A study file, or the name of one in the folder studies.")
]
ResultsOption = Annotated[Path, typer.Option(help="The folder of rows, tables and plots.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Use the small version that the study defines in [quick].")
]
OnlyOption = Annotated[
    str | None,
    typer.Option(help="Only cells whose name contains these words, or matches it with * and ?."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cells computed at once; by default 1, or with --dask as many as memory allows.",
    ),
]


def _explain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print errors in a study file as a message without a traceback."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        from svidag.bench.schema import StudyError

        try:
            command(*arguments, **options)
        except StudyError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None

    return run


@app.command()
@_explain_errors
def run(
    study: StudyArgument,
    quick: QuickOption = False,
    listing: Annotated[
        bool, typer.Option("--list", help="List the cells and their state; compute nothing.")
    ] = False,
    only: OnlyOption = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--again", help="Skip cells that have a row, or compute all cells again."
        ),
    ] = True,
    workers: WorkersOption = None,
    memory_gb: Annotated[
        float | None,
        typer.Option(
            help="Stop a cell that uses more memory than this; by default the study's limit."
        ),
    ] = None,
    dask: Annotated[bool, typer.Option("--dask", help="Start a Dask cluster here.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Use a running Dask scheduler, tcp://host:port.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="Start the Dask cluster that this file describes.")
    ] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Compute the cells of a study that have no row yet."""
    from dataclasses import replace

    from svidag.bench.progress import watcher
    from svidag.bench.rows import Store
    from svidag.bench.runner import run as run_cells

    found = _study(study, quick)
    store = Store.of(results, found.name, quick)
    cells = _selected(found, only)
    if listing:
        _list(cells, store)
        return
    limits = found.limits if memory_gb is None else replace(found.limits, memory_gb=memory_gb)
    execute = _executor(limits, (str(found.folder),), workers, dask, scheduler, cluster)
    tally = run_cells(cells, store, execute, watcher(), again=not resume)
    console.print(
        f"{tally.finished} finished, {tally.failed} failed, {tally.skipped} had a row already; "
        f"rows in {store.folder}"
    )
    for failure in store.failures().values():
        if failure["digest"] in {cell.digest for cell in cells}:
            console.print(f"[red]failed[/] {escape(failure['name'])}: {escape(failure['error'])}")
    if tally.failed:
        raise typer.Exit(1)


@app.command()
@_explain_errors
def check(
    study: StudyArgument,
    quick: QuickOption = False,
    only: OnlyOption = None,
    workers: WorkersOption = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Compute cells again and print where their metrics differ from the stored rows."""
    from svidag.bench.progress import watcher
    from svidag.bench.rows import Store
    from svidag.bench.runner import Local, compare

    found = _study(study, quick)
    rows = Store.of(results, found.name, quick).rows()
    cells = [cell for cell in _selected(found, only) if cell.digest in rows]
    if not cells:
        _fail("none of these cells has a row yet")
    execute = Local(workers or 1, found.limits, (str(found.folder),))
    wrong = compare(cells, rows, execute, watcher())
    for name, differences in wrong.items():
        console.print(f"[red]differs[/] {escape(name)}")
        for difference in differences:
            console.print(f"  {escape(difference)}", soft_wrap=True)
    console.print(f"{len(cells) - len(wrong)} of {len(cells)} rows come out the same")
    if wrong:
        console.print("Rounding can differ on another processor or with another number of cores.")
        raise typer.Exit(1)


@app.command()
@_explain_errors
def table(
    study: StudyArgument,
    quick: QuickOption = False,
    layout: Annotated[
        Layout, typer.Option("--format", help="Markdown, LaTeX, or CSV with everything.")
    ] = Layout.md,
    results: ResultsOption = Path("results"),
) -> None:
    """Print the tables of a study, published results beside ours."""
    from svidag.bench.rows import Store
    from svidag.bench.tables import FORMATS, tables

    found = _study(study, quick)
    rows = Store.of(results, found.name, quick).rows()
    shown = list(tables(found, rows, results / "published"))
    if not shown:
        _fail(f"no rows yet: svidag bench run {study}{' --quick' if quick else ''}")
    for each in shown:
        typer.echo(FORMATS[layout.value](each) + "\n")


@app.command()
@_explain_errors
def plot(
    study: StudyArgument,
    quick: QuickOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Draw the curves of a study as PNG and SVG, beside its rows."""
    from svidag.bench.plots import plot as draw
    from svidag.bench.rows import Store

    found = _study(study, quick)
    store = Store.of(results, found.name, quick)
    files = draw(found, store.rows(), results / "published", store.folder / "plots")
    if not files:
        _fail("nothing to draw: no rows of scores over several sizes, or of forecasts")
    for path in files:
        typer.echo(str(path))


@app.command()
@_explain_errors
def pack(
    study: StudyArgument,
    results: ResultsOption = Path("results"),
) -> None:
    """Pack the rows of a study into one file, drop rows of removed cells, and write its tables."""
    from svidag.bench.page import write_tables
    from svidag.bench.rows import Store

    found = _study(study, False)
    store = Store.of(results, found.name, False)
    count = store.pack({cell.digest for cell in found.cells})
    written = write_tables(found, store, results / "published")
    typer.echo(f"{count} rows in {store.folder / 'rows.jsonl'}, tables in {written}")


@app.command()
@_explain_errors
def docs(
    out: Annotated[Path, typer.Option("-o", help="The page to write.")] = Path(
        "docs/benchmarks.md"
    ),
    quick: QuickOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Write the page of all studies in the folder studies that have rows."""
    from svidag.bench.page import write_page

    names = sorted(path.stem for path in Path("studies").glob("*.toml"))
    write_page([_study(name, quick) for name in names], results, out)
    typer.echo(str(out))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


def _executor(
    limits: Any,
    paths: tuple[str, ...],
    workers: int | None,
    dask: bool,
    scheduler: str | None,
    cluster: Path | None,
) -> Any:
    from svidag.bench.cluster import Cluster, Distributed
    from svidag.bench.runner import Local

    chosen = [dask, scheduler is not None, cluster is not None]
    if sum(chosen) > 1:
        raise typer.BadParameter("give one of --dask, --scheduler and --cluster")
    if scheduler is not None:
        return Distributed(scheduler, limits, paths)
    if cluster is not None:
        return Distributed(Cluster.read(cluster), limits, paths)
    if dask:
        return Distributed(Cluster.local(workers, limits), limits, paths)
    return Local(workers or 1, limits, paths)


def _selected(study: Any, only: str | None) -> Any:
    cells = study.select(only)
    if not cells:
        _fail(f"no cell of {study.name} matches {only!r}; --list shows their names")
    return cells


def _list(cells: Any, store: Any) -> None:
    done, failed = store.done(), store.failures()
    for cell in cells:
        state = "done" if cell.digest in done else "failed" if cell.digest in failed else "to do"
        console.print(f"{cell.digest}  {state:6}  {escape(cell.name)}", soft_wrap=True)
    count = sum(cell.digest in done for cell in cells)
    console.print(f"{len(cells)} cells, {count} done")


def _study(name: str, quick: bool) -> Any:
    """Read a study by the path of its file or by its name."""
    from svidag.bench.study import Study

    path = Path(name)
    if path.suffix != ".toml":
        path = Path("studies") / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in Path("studies").glob("*.toml"))) or "none"
        raise typer.BadParameter(f"no study file {path}; in the folder studies: {known}")
    return Study.read(path, quick=quick)
