"""Column names and the conversion of columns to float64."""

import difflib
import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

MISSING_WORDS = frozenset(
    ["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "-nan", "null"]
)
"""Cells of a text file that stand for a missing value."""
NUMBER = numbers.Real | np.bool_ | Decimal


def show(value: object) -> str:
    """Return ``repr(value)``, shortened in the middle when it is long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 80 else f"{text[:50]}…{text[-20:]}"


def listing(values: Sequence[object], limit: int = 8) -> str:
    """Return names or levels joined as in a sentence; texts are quoted.

    Examples
    --------
    >>> listing((1, 2, 3)), listing(("high", "low"))
    ('1, 2 and 3', "'high' and 'low'")
    """
    shown = [show(value) for value in values[:limit]]
    return joined([*shown, f"{len(values) - limit} more"] if len(values) > limit else shown)


def joined(words: Sequence[str]) -> str:
    """Join words as a sentence does.

    Examples
    --------
    >>> joined(["the margins", "the rows"])
    'the margins and the rows'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def closest(name: str, names: Sequence[str]) -> str:
    """Return a hint at the column nearest in spelling to a name that is not a column.

    Examples
    --------
    >>> closest("pka", ["PKA", "PKC"])
    "; the nearest column is 'PKA'"
    """
    folded = {other.casefold(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.0)
    return f"; the nearest column is {show(folded[near[0]])}" if near else ""


def column_names(labels: Iterable[object], source: str) -> tuple[str, ...]:
    """Return the labels as strings, exactly as spelt; each must be non-blank and occur once."""
    labels = tuple(labels)
    names = tuple(str(label) for label in labels)
    for position, (label, name) in enumerate(zip(labels, names, strict=True)):
        if not name.strip() or (pd.api.types.is_scalar(label) and np.any(pd.isna(label))):
            raise ValueError(
                f"{source} has a blank column name at position {position} (counting from 0); "
                "name the column, or drop it if it is a saved index (to_csv(..., index=False))"
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{source} has more than one column named {listing(repeated)}; "
            "column names must be distinct"
        )
    return names


def float_column(column: pd.Series, name: str, source: str) -> Float64[np.ndarray, " N"]:
    """Return the column as float64; missing entries become NaN.

    Integers, floats, booleans (as 0 and 1), their nullable and Arrow kinds, and objects that are
    numbers are accepted. Text, categories, dates and complex numbers are not.
    """
    dtype = column.dtype
    if _is_real(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if pd.api.types.is_object_dtype(dtype):
        return _float_objects(column, name, source)
    raise not_numeric(column, name, source)


def _is_real(dtype: Any) -> bool:
    types = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype) or types.is_complex_dtype(dtype):
        return False
    return types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)


def _float_objects(column: pd.Series, name: str, source: str) -> Float64[np.ndarray, " N"]:
    values = np.full(len(column), np.nan)
    cells = column.to_numpy()
    for row in np.flatnonzero(column.notna()):
        if not isinstance(cells[row], NUMBER):
            raise not_numeric(column, name, source)
        try:
            values[row] = float(cells[row])
        except OverflowError:
            raise ValueError(
                f"{source} has a number that float64 cannot hold in column {show(name)}, "
                f"row {row} (counting from 0)"
            ) from None
    return values


def not_numeric(column: pd.Series, name: str, source: str) -> ValueError:
    """The error of a column that holds something else than numbers."""
    row = _first_offender(column)
    example = "" if row is None else f": {show(column.iloc[row])} in row {row} (counting from 0)"
    text = "" if row is None else str(column.iloc[row])
    comma = "," in text and reads_as_number(text.replace(",", ".", 1))
    advice = "write decimals with a point" if comma else "convert, encode or drop the column"
    if reads_as_number(text):
        advice = f"pandas.to_numeric converts column {show(name)}"
    if pd.api.types.is_string_dtype(column.dtype) and not comma:
        advice += f", or say kinds={{{show(name)}: 'categorical'}}"
    return ValueError(
        f"{source} has non-numeric values in column {show(name)} (dtype {column.dtype})"
        f"{example}; expected numbers: {advice}"
    )


def _first_offender(column: pd.Series) -> int | None:
    """Return the first row with no number in any form, else with text, else not missing."""
    cells = column.to_numpy(dtype=object)
    present = np.flatnonzero(column.notna())
    rows = {_suspicion(cells[row]): int(row) for row in present[::-1]}
    return rows[max(rows)] if rows else None


def _suspicion(value: object) -> int:
    if isinstance(value, str):
        return 1 if reads_as_number(value) else 2
    return 0 if isinstance(value, NUMBER) else 2


def reads_as_number(text: str) -> bool:
    """Say whether a cell of text is the decimal form of a number.

    Examples
    --------
    >>> reads_as_number("1e-3"), reads_as_number("1,5")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
