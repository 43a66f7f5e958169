"""Tables in files: CSV, TSV and Parquet. Reading never runs code and never leaves the machine."""

import codecs
import csv
import importlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pandas as pd

from svidag.data.columns import MISSING_WORDS, column_names, listing, reads_as_number, show

DELIMITERS = MappingProxyType({".csv": ",", ".tsv": "\t"})
PARQUET = (".parquet", ".pq")
MARKS = ";\t,|"
"""Separators in use."""
BLOCK = 1 << 24


def read_table(path: str | os.PathLike[str], text_column: str | None = None) -> pd.DataFrame:
    """Return the table in a file, with the column names exactly as the file spells them.

    Parameters
    ----------
    path
        A ``.csv`` (commas), ``.tsv`` (tabs) or ``.parquet``/``.pq`` file. Text files are UTF-8,
        their first row names the columns and every row has as many fields.
    text_column
        A column to keep as text, such as one that names intervention targets.
    """
    path = Path(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"data file {show(str(path))} does not exist")
    if not os.path.isfile(path):
        kind = "a directory" if os.path.isdir(path) else "not a regular file"
        raise ValueError(f"data file {path} is {kind}; expected a CSV, TSV or Parquet file")
    suffix = path.suffix.lower()
    if suffix not in (*DELIMITERS, *PARQUET):
        known = listing([*DELIMITERS, *PARQUET])
        raise ValueError(f"data file {path} has the ending {suffix!r}; expected {known}")
    try:
        if suffix in PARQUET:
            return _read_parquet(path)
        return _read_delimited(path, DELIMITERS[suffix], text_column)
    except OSError as error:
        raise ValueError(f"data file {path} cannot be read: {error}") from None


def _read_delimited(path: Path, delimiter: str, text_column: str | None) -> pd.DataFrame:
    _require_text(path)
    names = _header(path, delimiter)
    # The parser mistakes a lone carriage return, so it is given translated line ends.
    with path.open(encoding="utf-8-sig", newline=None) as handle:
        next(_rows(path, handle, delimiter))
        frame = _body(path, handle, delimiter, names, text_column)
    # A row that is too short is filled up by the parser, so it shows as a gap in the last column.
    if frame.shape[1] != len(names) or frame.iloc[:, -1].hasnans:
        _require_rectangle(path, delimiter, len(names))
    if frame.shape[1] != len(names):
        raise ValueError(
            f"data file {path} is malformed: {len(names)} column names, {frame.shape[1]} columns"
        )
    frame.columns = pd.Index(names, dtype=object)
    for j, name in enumerate(names):
        if name != text_column and not pd.api.types.is_numeric_dtype(frame.dtypes.iloc[j]):
            frame.isetitem(j, _numbers_in_text(frame.iloc[:, j]))
    return frame


def _require_text(path: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as handle:
        start = 0
        while block := handle.read(BLOCK):
            if b"\0" in block:
                raise ValueError(
                    f"data file {path} is not text: it has a NUL byte at byte "
                    f"{start + block.index(0)}"
                )
            _decode(path, decoder, block, final=False)
            start += len(block)
        _decode(path, decoder, b"", final=True)


def _decode(path: Path, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool) -> None:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"data file {path} is not UTF-8 text (it has the byte 0x{byte:02x}: {error.reason}); "
            "save it as UTF-8"
        ) from None


def _header(path: Path, delimiter: str) -> tuple[str, ...]:
    with path.open(encoding="utf-8-sig", newline="") as handle:
        header = next(_rows(path, handle, delimiter), None)
    if header is None:
        raise ValueError(f"data file {path} is empty; expected a row of column names, then numbers")
    names = column_names(header, f"data file {path}")
    if len(names) == 1 and any(mark in names[0] for mark in MARKS):
        raise ValueError(
            f"data file {path} has the single column {show(names[0])}; "
            f"expected fields separated by {delimiter!r}{_advice(path, delimiter)}"
        )
    if all(map(reads_as_number, names)) and not all(name.strip().isdigit() for name in names):
        raise ValueError(
            f"data file {path} begins with numbers ({listing(names, 3)}); "
            "expected a first row of column names"
        )
    return names


def _rows(path: Path, handle: IO[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a text table; blank lines are no rows."""
    rows = csv.reader(handle, delimiter=delimiter)
    try:
        for row in filter(None, rows):
            if len(row) != 1 or not row[0] or row[0].strip(" \t"):
                yield row
    except csv.Error as error:
        raise ValueError(f"data file {path}, line {rows.line_num}: {error}") from None


def _body(
    path: Path, handle: IO[str], delimiter: str, names: Sequence[str], text_column: str | None
) -> pd.DataFrame:
    text = [j for j, name in enumerate(names) if name == text_column]
    missing: Any = {j: [""] if j in text else sorted(MISSING_WORDS) for j in range(len(names))}
    try:
        return pd.read_csv(
            handle,
            sep=delimiter,
            header=None,
            low_memory=False,
            keep_default_na=False,
            na_values=missing,
            dtype=dict.fromkeys(text, "str"),
        )
    except pd.errors.EmptyDataError:
        raise ValueError(f"data file {path} names its columns but has no rows") from None
    except pd.errors.ParserError as error:
        _require_rectangle(path, delimiter, len(names))
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise ValueError(f"data file {path} is malformed: {reason}") from None


def _require_rectangle(path: Path, delimiter: str, width: int) -> None:
    with path.open(encoding="utf-8-sig", newline="") as handle:
        for row, fields in enumerate(_rows(path, handle, delimiter), start=-1):
            if len(fields) != width:
                raise ValueError(
                    f"data file {path} is ragged: row {row} (counting from 0 after the header) "
                    f"has {len(fields)} fields; expected {width}, one for each column name"
                    f"{_advice(path, delimiter)}"
                )


def _advice(path: Path, delimiter: str) -> str:
    """What to do about a file whose first rows are regular with another separator."""
    for mark in MARKS.replace(delimiter, ""):
        with path.open(encoding="utf-8-sig", newline="") as handle:
            widths = {len(row) for row in islice(_rows(path, handle, mark), 5)}
        if len(widths) == 1 and max(widths) > 1:
            return (
                f". It seems to be separated by {mark!r}: save it with {delimiter!r} and decimal "
                f"points, or give svidag.fit pandas.read_csv(..., sep={mark!r}, decimal=',')"
            )
    return ""


def _numbers_in_text(column: pd.Series) -> pd.Series:
    """Return the column as numbers if every cell is one, such as integers beyond 64 bits."""
    values = pd.Series(pd.to_numeric(column, errors="coerce"))
    return column if (values.isna() & column.notna()).any() else values


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(
            f"reading {path} needs pyarrow: install svidag with its extra 'parquet', "
            "svidag[parquet], or save the table as CSV"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
        names = table.column_names
        index = _saved_index(table.schema.pandas_metadata)
        kept = [j for j, name in enumerate(names) if name not in index]
        frame = table.select(kept).to_pandas(ignore_metadata=True)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"data file {path} is not a readable Parquet file: {error}") from None
    column_names(names, f"data file {path}")
    return frame


def _saved_index(metadata: object) -> list[object]:
    """Return the columns that hold a DataFrame's index, which is not a variable."""
    columns = metadata.get("index_columns") if isinstance(metadata, dict) else None
    return columns if isinstance(columns, list) else []
