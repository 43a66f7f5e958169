"""Rows of a study brought together: one line for each setting, averaged over replicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from svidag.bench.cell import PARTS, Cell, measure
from svidag.bench.measures import averaged
from svidag.bench.rows import Row
from svidag.bench.study import Study

Line = dict[str, Any]
"""A line of a table: dimensions and metrics by name."""


@dataclass(frozen=True, eq=False)
class Group:
    """The cells that differ only in their replicate, with their finished rows.

    Attributes
    ----------
    labels
        What the study calls their parts, and every option that it varies anywhere.
    cells, rows
        The cells, and the finished rows among them.
    """

    labels: Mapping[str, Any]
    cells: tuple[Cell, ...]
    rows: tuple[Row, ...]


def groups(study: Study, rows: Mapping[str, Row]) -> list[Group]:
    """All settings of a study, in its order."""
    listed = (name for cell in study.cells for name in cell.labels if name not in PARTS)
    varied = dict.fromkeys([study.show.x, *listed])
    members: dict[tuple, list[Cell]] = {}
    for cell in study.cells:
        members.setdefault(tuple(_labels(cell, varied).items()), []).append(cell)
    return [
        Group(
            dict(labels),
            tuple(cells),
            tuple(rows[cell.digest] for cell in cells if cell.digest in rows),
        )
        for labels, cells in members.items()
    ]


def _labels(cell: Cell, varied: Mapping[str, None]) -> dict[str, Any]:
    """The parts and the varied options; where one is not varied its fixed value counts."""
    options = {name: cell.data.get(name, cell.method.get(name)) for name in varied}
    parts = {kind: cell.labels.get(kind, "") for kind in PARTS}
    shown = {k: str(v) if isinstance(v, list) else v for k, v in options.items()}
    return {"data": parts["data"], **shown, "method": parts["method"], "prior": parts["prior"]}


def summarise(study: Study, rows: Mapping[str, Row], name: str) -> list[Line]:
    """Means with standard errors of one measure, with times and memory, a line for each setting.

    Settings without any row are left out; ``count`` of ``asked`` replicates are there.
    """
    return [
        line
        for group in groups(study, rows)
        if group.rows and name in group.cells[0].measures
        for line in _lines(group, name)
    ]


def costs(study: Study, rows: Mapping[str, Row]) -> list[Line]:
    """Times and memory of every setting with rows."""
    return [dict(group.labels) | _cost(group) for group in groups(study, rows) if group.rows]


def _lines(group: Group, name: str) -> Iterator[Line]:
    records = [row["metrics"][name] for row in group.rows]
    for record in measure(name).summarise(records):
        yield dict(group.labels) | record | _cost(group)


def _cost(group: Group) -> Line:
    """Seconds to fit (of them compiling), of a whole fresh process, and peak memory.

    Times of cells that shared the machine with other cells say little and are left out.
    """
    spent = [(_times(row) if ran_alone(row) else {}) | _memory(row) for row in group.rows]
    (mean,) = averaged([[{k: v for k, v in each.items() if v is not None} for each in spent]])
    return mean | {"count": len(group.rows), "asked": len(group.cells)}


def ran_alone(row: Row) -> bool:
    """Whether no other cell of the run was computed meanwhile on the same machine."""
    return row.get("workers", 1) == 1


def _times(row: Row) -> Line:
    return {
        "seconds": row["seconds"]["fit"],
        "compile_seconds": row["seconds"].get("compile"),
        "total_seconds": row["seconds"]["total"] if row.get("fresh_process") else None,
    }


def _memory(row: Row) -> Line:
    """The peak is of the process, so it is the cell's own in a fresh one only."""
    return {"peak_gb": row.get("peak_gb") if row.get("fresh_process") else None}
