"""Where rows are kept: one JSON file for each cell, written whole or not at all.

``results/STUDY/rows/DIGEST.json`` is a finished cell, ``results/STUDY/failed/DIGEST.json`` one that
failed and will be tried again. `pack` gathers finished rows in ``results/STUDY/rows.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svidag.atomic import replacing

Row = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The rows of one study.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "quality")
    >>> store.keep({"digest": "ab", "metrics": {}})
    >>> sorted(store.rows())
    ['ab']
    """

    folder: Path

    @classmethod
    def of(cls, results: Path, study: str, quick: bool) -> Store:
        """The store of a study; its quick size has one of its own."""
        return cls(results / "quick" / study if quick else results / study)

    def keep(self, row: Row) -> None:
        """Write a finished row; it is no longer a failed one."""
        _write(self._file("rows", row["digest"]), row)
        self._file("failed", row["digest"]).unlink(missing_ok=True)

    def keep_failure(self, failure: Row) -> None:
        """Write why a cell failed."""
        _write(self._file("failed", failure["digest"]), failure)

    def rows(self) -> dict[str, Row]:
        """All finished rows by digest, packed or not."""
        return {row["digest"]: row for row in self._finished()}

    def failures(self) -> dict[str, Row]:
        """All failures by digest."""
        return {f["digest"]: f for f in _read_all(self.folder / "failed")}

    def done(self) -> set[str]:
        """The digests of finished rows."""
        files = {path.stem for path in (self.folder / "rows").glob("*.json")}
        return files | {row["digest"] for row in self._packed()}

    def pack(self, wanted: set[str] | None = None) -> int:
        """Gather finished rows in one file, sorted by digest, and remove the single ones.

        With `wanted`, rows of other cells, which the study no longer asks for, are left out.
        """
        rows = self.rows()
        kept = sorted(digest for digest in rows if wanted is None or digest in wanted)
        compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
        lines = [json.dumps(rows[d], ensure_ascii=False, **compact) + "\n" for d in kept]
        _write_text(self.folder / "rows.jsonl", "".join(lines))
        for digest in rows:
            self._file("rows", digest).unlink(missing_ok=True)
        return len(kept)

    def _finished(self) -> Iterator[Row]:
        yield from self._packed()
        yield from _read_all(self.folder / "rows")

    def _packed(self) -> Iterator[Row]:
        path = self.folder / "rows.jsonl"
        if path.exists():
            with path.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

    def _file(self, kind: str, digest: str) -> Path:
        return self.folder / kind / f"{digest}.json"


def _read_all(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, row: Row) -> None:
    text = json.dumps(row, ensure_ascii=False, sort_keys=True, allow_nan=False, indent=1)
    _write_text(path, text + "\n")


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
