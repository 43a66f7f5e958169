"""Reading a TOML table field by field, with errors that name the key and its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svidag.run.settings import suggest


class StudyError(ValueError):
    """A study file that cannot be understood: which key, which line, what was expected."""


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a TOML file, kept to say where a key stands."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Source:
        """Read a file; a missing one is an error that names it."""
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"cannot read {path}: {error}") from None

    def parse(self) -> dict[str, Any]:
        """The whole file as a dictionary; duplicate keys and bad syntax are errors with a line."""
        try:
            return tomllib.loads(self.text)
        except ValueError as error:  # not TOML, or a number of thousands of digits
            raise StudyError(f"{self.path}: {error}") from None
        except RecursionError:
            raise StudyError(f"{self.path}: is nested too deeply") from None

    def line(self, key: tuple[str, ...], start: int = 1) -> int | None:
        r"""The first line from `start` on that sets a key or opens its table.

        Examples
        --------
        >>> Source(Path("s.toml"), "a = 1\n[data.x]\nm.n = 2").line(("data", "x", "m", "n"))
        3
        """
        header: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), start=1):
            opened = re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line)
            assigned = re.match(r"\s*([\w.\"'-]+)\s*=", line)
            if opened:
                header = _parts(opened[1])
            here = header if opened else header + _parts(assigned[1]) if assigned else ()
            if number >= start and here[: len(key)] == key:
                return number
        return None

    def openings(self, key: tuple[str, ...]) -> list[int]:
        """The lines with the header ``[[key]]``."""
        headers = (re.match(r"\s*\[\[([^\[\]]+)\]\]", line) for line in self.text.splitlines())
        return [at for at, head in enumerate(headers, start=1) if head and _parts(head[1]) == key]


@dataclass(eq=False)
class Table:
    """A table of the file whose fields are taken one by one; what is left over is an error.

    Examples
    --------
    >>> source = Source(Path("s.toml"), "draws = 'many'")
    >>> Table(source, source.parse()).whole("draws", 1000)
    Traceback (most recent call last):
        ...
    svidag.bench.schema.StudyError: s.toml, line 1: draws must be a whole number, got 'many'
    """

    source: Source
    values: Mapping[str, Any]
    key: tuple[str, ...] = ()
    start: int = 1
    change: Table | None = None
    _taken: set[str] = field(default_factory=set, init=False, repr=False)

    def error(self, name: str, problem: str) -> StudyError:
        """An error about one field; `problem` continues a sentence that begins with its name.

        It names the line of the field or, where that is not set, of the table it belongs to.
        """
        if self.change is not None and name in self.change.values:
            return self.change.error(name, problem)
        full = (*self.key, name) if name else self.key
        line = self.source.line(full, self.start)
        if line is None and self.key:
            line = self.source.line(self.key, self.start)
        place = f"{self.source.path}, line {line}" if line else f"{self.source.path}"
        return StudyError(f"{place}: {'.'.join(full)} {problem}")

    def changed_by(self, change: Table) -> Table:
        """Put in the fields of another table; errors about those name that one."""
        values = {**self.values, **change.values}
        return Table(self.source, values, self.key, self.start, change)

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a field as it stands."""
        self._taken.add(name)
        return self.values.get(name, default)

    def whole(self, name: str, default: int | None, least: int = 1) -> Any:
        """A whole number, at least `least`."""
        value = self.take(name, default)
        if value is default:
            return value
        if type(value) is not int:
            raise self.error(name, f"must be a whole number, got {value!r}")
        if value < least:
            raise self.error(name, f"must be at least {least}, got {value}")
        return value

    def number(self, name: str, default: float | None) -> float | None:
        """A positive number."""
        value = self.take(name, default)
        if value is None:
            return None
        if type(value) not in (int, float) or not value > 0:
            raise self.error(name, f"must be a positive number, got {value!r}")
        return float(value)

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self.take(name, default)
        if not isinstance(value, str):
            raise self.error(name, f"must be text, got {value!r}")
        return value

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A string or a list of different strings."""
        value = self.take(name, default)
        entries = (value,) if isinstance(value, str) else value
        if not isinstance(entries, list | tuple) or not all(isinstance(e, str) for e in entries):
            raise self.error(name, f"must be text or a list of texts, got {value!r}")
        self._once(name, entries)
        return tuple(entries)

    def wholes(self, name: str, default: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Different whole numbers from a list, or 0, …, k − 1 from a number k."""
        value = self.take(name)
        if value is None:
            return default
        if type(value) is int and value > 0:
            return tuple(range(value))
        if not isinstance(value, list) or not value or any(type(v) is not int for v in value):
            raise self.error(name, f"must be a positive whole number or a list, got {value!r}")
        if min(value) < 0:
            raise self.error(name, f"must not be negative, got {value!r}")
        self._once(name, value)
        return tuple(value)

    def table(self, name: str) -> Table:
        """A table within this one, empty if it is not there."""
        value = self.take(name, {})
        if not isinstance(value, dict):
            raise self.error(name, f"must be a table, got {value!r}")
        return Table(self.source, value, (*self.key, name), self.start)

    def tables(self, name: str) -> list[Table]:
        """An array of tables, ``[[name]]``."""
        value = self.take(name, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.error(name, f"must be tables headed [[{name}]], got {value!r}")
        key = (*self.key, name)
        starts = [*self.source.openings(key), *[1] * len(value)]
        return [Table(self.source, e, key, at) for e, at in zip(value, starts, strict=False)]

    def named(self, name: str) -> Iterator[tuple[str, Table]]:
        """Every table ``[name.…]``, by its own name."""
        outer = self.table(name)
        for inner in outer.values:
            yield inner, outer.table(inner)

    def close(self) -> None:
        """Raise if a field was never taken."""
        for name in self.values:
            if name not in self._taken:
                raise self.error(name, f"is not a known key{suggest(name, self._taken)}")

    def _once(self, name: str, entries: Any) -> None:
        for entry in entries:
            if list(entries).count(entry) > 1:
                raise self.error(name, f"lists {entry!r} twice")


def _parts(dotted: str) -> tuple[str, ...]:
    """The keys of a dotted name; quotes around a key fall away."""
    return tuple(
        (quoted or bare).strip("\"'")
        for quoted, bare in re.findall(r"(\"[^\"]*\"|'[^']*')|([^.\s\"']+)", dotted)
    )
