"""A study file: named data sets, methods and priors, and which of them are combined.

::

    title = "Quality on fresh graphs"
    replicates = 10                     # or a list of numbers
    draws = 1000
    measures = ["scores"]
    levels = ["dag", "cpdag"]

    [data.linear-p25]
    source = "synthetic"
    kind = "linear"
    m = 25
    edges = 40
    n = [100, 1000, 10000]              # a list is one cell for each entry

    [method.linear]
    mechanism = "linear"                # arguments and settings; method = "order-mcmc" unless given

    [prior.sparse]
    p = 0.025                           # the words of a knowledge file; lists are not expanded

    [[cells]]
    data = "linear-p25"                 # or a list of names
    method = "linear"
    prior = "sparse"                    # left out: no prior stated

    [quick]                             # what `--quick` changes
    replicates = 1
    data.linear-p25.n = 100

An option whose value is itself a list is written ``[[32, 32]]``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from svidag.bench.cell import PARTS, Cell, measure
from svidag.bench.measures import CONVENTIONS
from svidag.bench.parts import combinations, look_up, read_parts
from svidag.bench.schema import Source, StudyError, Table
from svidag.run.settings import suggest

__all__ = ["Limits", "Study", "StudyError"]

LEVELS = ("dag", "cpdag")


@dataclass(frozen=True)
class Limits:
    """What a cell may use before it is stopped, and how many cells share a process.

    Attributes
    ----------
    memory_gb
        Resident memory.
    minutes
        Wall time.
    cells_per_process
        With 1 every cell starts a process of its own, so that its time includes importing and
        compiling as a user's does.
    """

    memory_gb: float | None = None
    minutes: float | None = None
    cells_per_process: int = 1


@dataclass(frozen=True)
class Presentation:
    """How the results of a study are shown: ``[show]``.

    Attributes
    ----------
    levels
        The level at which each data set is scored; all levels for those not named.
    conventions
        Conventions shown, of ``"standard"`` and ``"reference"``.
    published
        Files of published results that are shown beside ours.
    x
        The option along the horizontal axis of a plot.
    """

    levels: Mapping[str, str]
    conventions: tuple[str, ...]
    published: tuple[str, ...]
    x: str


@dataclass(frozen=True)
class Block:
    """Which data sets, methods and priors are combined, and how often."""

    parts: Mapping[str, tuple[str, ...]]
    replicates: tuple[int, ...]
    draws: int
    measures: tuple[str, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Study:
    """A study as its file defines it.

    Attributes
    ----------
    name
        The file's name without its suffix; results are kept under it.
    title, about
        What it is, and what it shows.
    cells
        All cells, in the order of the file.
    limits
        Of every cell.
    folder
        Where the file is; modules beside it can be named as ``module:attribute``.
    quick
        Whether these are the cells of the quick size.
    show
        How its results are presented.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.toml"
    >>> text = '''
    ... replicates = 3
    ... [data.tiny]
    ... source = "synthetic"
    ... m = 4
    ... edges = 3
    ... n = [50, 100]
    ... [method.exact]
    ... method = "exact"
    ... [[cells]]
    ... data = "tiny"
    ... method = "exact"
    ... '''
    >>> _ = path.write_text(text)
    >>> study = Study.read(path)
    >>> len(study.cells), study.cells[0].name
    (6, 'tiny n=50 exact #0')
    """

    name: str
    title: str
    about: str
    cells: tuple[Cell, ...]
    limits: Limits
    folder: Path
    quick: bool
    show: Presentation

    @classmethod
    def read(cls, path: str | Path, *, quick: bool = False) -> Study:
        """Read and check a study file."""
        source = Source.read(Path(path))
        with _importing_from(source.path.resolve().parent):
            if "quick" in source.parse():
                cls._read(source, quick=True)  # an error in the quick size is reported in any case
            return cls._read(source, quick)

    @classmethod
    def _read(cls, source: Source, quick: bool) -> Study:
        table = Table(source, source.parse())
        changes = table.table("quick")
        used = changes if quick else Table(source, {}, ("quick",))
        if quick and not changes.values:
            raise StudyError(f"{source.path}: there is no [quick] size; run without --quick")
        parts = {kind: dict(read_parts(kind, table, used)) for kind in PARTS}
        skip = used.words("skip", ())
        _check_known(used, "skip", skip, {name for part in parts.values() for name in part})
        defaults = _block(table, None, None)
        replicates = used.wholes("replicates", None)
        draws = used.whole("draws", None)
        blocks = [
            _block(entry, defaults, parts, replicates, draws) for entry in table.tables("cells")
        ]
        if not blocks:
            raise table.error(
                "cells",
                "is missing: [[cells]] lists which data sets, methods and priors are combined",
            )
        study = cls(
            name=source.path.stem,
            title=table.text("title", source.path.stem),
            about=table.text("about").strip(),
            cells=_unique(_expand(blocks, parts, skip), table),
            limits=_limits(table),
            folder=source.path.resolve().parent,
            quick=quick,
            show=_presentation(table.table("show"), parts),
        )
        table.close()
        used.close()
        return study

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure that some cell asks for."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.measures))

    def select(self, pattern: str | None) -> tuple[Cell, ...]:
        """The cells whose name has these words, or matches the pattern if it has ``*`` or ``?``."""
        if pattern is None:
            return self.cells
        if set(pattern) & set("*?"):
            return tuple(cell for cell in self.cells if fnmatch(cell.name, pattern))
        return tuple(cell for cell in self.cells if f" {pattern} " in f" {cell.name} ")


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let modules in the folder be imported meanwhile."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _block(
    entry: Table,
    defaults: Block | None,
    parts: Mapping[str, Mapping[str, Any]] | None,
    replicates: tuple[int, ...] | None = None,
    draws: int | None = None,
) -> Block:
    """The defaults of the file, or one ``[[cells]]`` table, with what the quick size replaces."""
    base = defaults or Block({}, (0,), 1000, ("scores",), LEVELS)
    measures = entry.words("measures", base.measures)
    for name in measures:
        look_up(entry, "measures", lambda name=name: measure(name))
    levels = entry.words("levels", base.levels)
    _check_known(entry, "levels", levels, LEVELS)
    stated = entry.wholes("replicates", base.replicates)
    count = entry.whole("draws", base.draws)
    block = Block(
        {} if parts is None else {kind: _names(entry, kind, parts[kind]) for kind in PARTS},
        replicates or stated or base.replicates,
        draws or count,
        measures,
        levels,
    )
    if parts is not None:
        entry.close()
    return block


def _names(entry: Table, kind: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    names = entry.words(kind, () if kind != "prior" else ("",))
    if not names:
        raise entry.error(kind, f"is missing: which {kind}?")
    _check_known(entry, kind, [name for name in names if name], known)
    return names


def _check_known(entry: Table, key: str, names: Any, known: Any) -> None:
    for name in names:
        if name not in known:
            raise entry.error(
                key, f"names {name!r}, which the study does not define{suggest(name, known)}"
            )


def _limits(table: Table) -> Limits:
    stated = table.table("limits")
    limits = Limits(
        stated.number("memory_gb", None),
        stated.number("minutes", None),
        stated.whole("cells_per_process", 1),
    )
    stated.close()
    return limits


def _presentation(table: Table, parts: Mapping[str, Mapping[str, Any]]) -> Presentation:
    levels = table.table("levels")
    for name in levels.values:
        _check_known(levels, name, [name], parts["data"])
        _check_known(levels, name, [levels.text(name)], LEVELS)
    shown = Presentation(
        dict(levels.values),
        table.words("conventions", CONVENTIONS),
        table.words("published", ()),
        table.text("x", "n"),
    )
    _check_known(table, "conventions", shown.conventions, CONVENTIONS)
    if "x" in table.values:
        stated = {o for kind in ("data", "method") for part in parts[kind].values() for o in part}
        _check_known(table, "x", [shown.x], stated)
    table.close()
    return shown


def _expand(
    blocks: list[Block], parts: Mapping[str, Mapping[str, Any]], skip: tuple[str, ...]
) -> Iterator[Cell]:
    """Every cell: parts, then options, then replicates, the last varying fastest."""
    for block in blocks:
        for names in itertools.product(*(block.parts[kind] for kind in PARTS)):
            if not set(names) & set(skip):
                yield from _combine(block, dict(zip(PARTS, names, strict=True)), parts)


def _combine(
    block: Block, names: Mapping[str, str], parts: Mapping[str, Mapping[str, Any]]
) -> Iterator[Cell]:
    """The cells of one data set, one method and one prior."""
    stated = names["prior"]
    prior = parts["prior"][stated] if stated else {}
    for data, data_labels in combinations(parts["data"][names["data"]]):
        for fit, fit_labels in combinations(parts["method"][names["method"]]):
            labels = {"data": names["data"], **data_labels}
            labels |= {"method": names["method"], **fit_labels}
            labels |= {"prior": stated} if stated else {}
            for replicate in block.replicates:
                yield Cell(
                    data=data,
                    method=fit,
                    prior=prior,
                    replicate=replicate,
                    draws=block.draws,
                    measures=block.measures,
                    levels=block.levels,
                    labels=labels,
                )


def _unique(cells: Iterator[Cell], table: Table) -> tuple[Cell, ...]:
    """All cells; one that is asked for twice is an error, and so is none at all."""
    found: dict[str, Cell] = {}
    for cell in cells:
        if found.setdefault(cell.digest, cell) is not cell:
            raise table.error(
                "cells", f"asks twice for the same cell: {found[cell.digest].name}, {cell.name}"
            )
    if not found:
        raise table.error("cells", "leaves no cell: all are in `skip`")
    return tuple(found.values())
