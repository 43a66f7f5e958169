"""CSV tables of edges with columns `from` and `to`: beliefs, or bnlearn's white and black lists."""

import csv
from io import StringIO
from typing import Any

from svidag.prior.statement import prefixed

_STATUS = {
    "required": "required",
    "whitelist": "required",
    "forbidden": "forbidden",
    "blacklist": "forbidden",
}
_COLUMNS = {"probability": "p", "prob": "p", "list": "status"}


def read(text: str, stem: str) -> dict[str, Any]:
    r"""Read a table of edges; for a plain list, the stem of its file's name says of what.

    Examples
    --------
    >>> print(read("from,to,p\na,b,0.9", "beliefs"))
    {'beliefs': [{'from': 'a', 'to': 'b', 'p': 0.9}]}
    """
    heading = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t;" if mark in heading), ",")
    lines = StringIO(text, newline="")
    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    listed_as = next((word for word in _STATUS if word in stem.lower()), "")
    words: dict[str, Any] = {}
    try:
        columns = _columns(next(rows, []))
        for cells in filter(any, rows):
            with prefixed(f"line {rows.line_num}"):
                name, entry = _entry(columns, cells, listed_as)
            words.setdefault(name, []).append(entry)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num} is not valid CSV: {error}") from None
    return words


def _columns(header: list[str]) -> list[str]:
    columns = [_COLUMNS.get(name.strip().lower(), name.strip().lower()) for name in header]
    known = ("from", "to", "p", "confidence", "status")
    for name in columns:
        # R writes row names under an empty heading.
        if name and (name not in known or columns.count(name) > 1):
            raise ValueError(f"line 1: the columns are {known}, each once; got {name!r}")
    if "from" not in columns or "to" not in columns:
        raise ValueError(f"line 1: there must be columns 'from' and 'to', got {header}")
    return columns


def _entry(columns: list[str], cells: list[str], listed_as: str) -> tuple[str, dict[str, Any]]:
    """Give the word that a row belongs to, and the row as an entry of it."""
    if len(cells) != len(columns):
        raise ValueError(f"there are {len(columns)} columns, but {len(cells)} values")
    row = {name: cell.strip() for name, cell in zip(columns, cells, strict=True) if cell.strip()}
    entry: dict[str, Any] = {side: row.get(side, "") for side in ("from", "to")}
    if not all(entry.values()):
        raise ValueError(f"both 'from' and 'to' must name a variable, got {cells}")
    status = row.get("status", listed_as if "p" not in columns else "").lower()
    numbers = {key: _float(row[key]) for key in ("p", "confidence") if key in row}
    if numbers if status else "p" not in numbers:
        raise ValueError(
            "a row has either 'p' or a 'status' (required or forbidden); a plain list of pairs "
            "needs 'whitelist' or 'blacklist' in its file name"
        )
    if status and status not in _STATUS:
        raise ValueError(f"status must be one of {tuple(_STATUS)}, got {status!r}")
    return (_STATUS[status], entry) if status else ("beliefs", entry | numbers)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None
