"""Results that others published, kept as data with their source, to be shown beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from svidag.bench.schema import Source, Table
from svidag.bench.summary import Line

SETTINGS = ("n", "prior", "level", "convention", "truth", "measure")


def read(folder: Path, names: tuple[str, ...]) -> list[Line]:
    """The published results in some files of a folder, a line for each method and setting.

    A file says where its numbers come from and lists blocks::

        source = "the paper's table of …"
        [[block]]
        data = "linear-p25"              # the study's name for the data, or a list of names
        n = 1000
        level = "cpdag"
        convention = "reference"
        columns = ["brier", "e_shd"]
        [block.methods]
        "SVI-DAG (paper)" = [0.036, 34.5]           # or [[0.036, 0.002], [34.5, 1.2]] with errors
    """
    return [line for name in names for line in _file(folder / f"{name}.toml")]


def sources(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Where the numbers of each file come from."""
    return {name: _table(folder / f"{name}.toml").text("source") for name in names}


def _table(path: Path) -> Table:
    source = Source.read(path)
    return Table(source, source.parse())


def _file(path: Path) -> Iterator[Line]:
    table = _table(path)
    table.text("source")
    for block in table.tables("block"):
        setting = {
            name: value for name in SETTINGS if (value := block.take(name, None)) is not None
        }
        data = block.words("data", ())
        columns = block.words("columns", ())
        methods = block.table("methods")
        for method, numbers in methods.values.items():
            if not isinstance(numbers, list) or len(numbers) != len(columns):
                raise methods.error(method, f"must list {len(columns)} numbers: {columns}")
            line = {"method": method, "published": True} | dict(_metrics(columns, numbers))
            yield from (setting | {"data": name} | line for name in data)
        block.close()
    table.close()


def _metrics(columns: tuple[str, ...], numbers: list[Any]) -> Iterator[tuple[str, float]]:
    for name, number in zip(columns, numbers, strict=True):
        if isinstance(number, list):
            yield name, float(number[0])
            yield f"{name}_se", float(number[1])
        elif number != "":
            yield name, float(number)
