"""Kinds of columns: continuous, binary, categorical, ordinal and count, from dtype and values.

A discrete column (binary, categorical or ordinal) is coded 0 … K−1, and its K levels keep the
labels of the table. Continuous columns and counts are numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from svidag.data.columns import closest, float_column, listing, not_numeric, reads_as_number, show

Level = str | bool | int | float
"""The label of a level, as the table has it."""

MOST_CODES = 10
"""Different numbers up to which a column of numbers counts as codes."""
REPEATS = 10
"""Rows for each of these numbers, at least, for them to be codes."""
MOST_LEVELS = 50
"""Levels of a column that is said to be discrete, at most."""
MOST_LABELS = 30
"""Different texts of a column of text, at most."""
LONG_TAIL = 1.0
"""Skewness from which whole numbers from 0 on are taken for counts."""


class Kind(enum.StrEnum):
    """What the values of a column mean."""

    CONTINUOUS = "continuous"
    BINARY = "binary"
    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    COUNT = "count"

    @property
    def discrete(self) -> bool:
        """Whether the column is coded by its levels."""
        return self in (Kind.BINARY, Kind.CATEGORICAL, Kind.ORDINAL)


@dataclass(frozen=True, eq=False)
class Column:
    """One column as the fit sees it: numbers, or codes with their levels; NaN where missing."""

    values: Float64[np.ndarray, " N"]
    kind: Kind
    levels: tuple[Level, ...] = ()


def read_column(column: pd.Series, name: str, source: str, asked: Any = None) -> Column:
    """Read a column as the kind that is asked for, or else the one that its values suggest.

    Parameters
    ----------
    column
        Numbers, truth values, categories or text.
    name, source
        For errors.
    asked
        A kind by name, the levels of an ordinal column in their order, or None.

    Examples
    --------
    >>> stage = read_column(pd.Series(["low", "high", "low", "high"]), "stage", "data")
    >>> str(stage.kind), stage.levels, stage.values.tolist()
    ('binary', ('high', 'low'), [1.0, 0.0, 1.0, 0.0])
    """
    if asked is not None and not isinstance(asked, str):
        return Column(coded(column, asked, name), Kind.ORDINAL, tuple(asked))
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _categories(column, name, asked)
    if pd.api.types.is_bool_dtype(column.dtype):
        return _truth_values(column, name, asked)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        cells = pd.Series(column.dropna())
        if len(cells) and all(isinstance(cell, bool | np.bool_) for cell in cells):
            return _truth_values(column, name, asked)
        if len(cells) and all(isinstance(cell, str) for cell in cells):
            return _text(column, cells, name, source, asked)
    return _numbers(float_column(column, name, source), name, asked)


def asked_kinds(
    kinds: str | Mapping[str, Any] | None, names: Sequence[str]
) -> dict[str, str | tuple[Level, ...] | None]:
    """What is asked for each column: a kind by name, or the levels of an ordinal one.

    Examples
    --------
    >>> asked_kinds({"stage": "ordinl"}, ["stage"])
    Traceback (most recent call last):
        ...
    ValueError: kinds has 'ordinl' for column 'stage'; expected 'continuous', 'binary', ...
    """
    if kinds is None or isinstance(kinds, str):
        kinds = dict.fromkeys(names, kinds)
    if not isinstance(kinds, Mapping):
        raise ValueError(f"kinds must map columns to kinds; got {show(kinds)}")
    found: dict[str, str | tuple[Level, ...] | None] = dict.fromkeys(names)
    for name, kind in kinds.items():
        if name not in names:
            raise ValueError(
                f"kinds names {show(name)}, which is not a column{closest(str(name), names)}"
            )
        known = [str(each) for each in Kind]
        if isinstance(kind, list | tuple):
            if len(kind) < 2 or len(set(kind)) != len(kind):
                raise ValueError(
                    f"kinds has {show(kind)} for column {show(name)}; expected two or more "
                    "different levels in their order"
                )
            found[name] = tuple(kind)
        elif kind is None or kind in known:
            found[name] = None if kind is None else str(kind)
        else:
            raise ValueError(
                f"kinds has {show(kind)} for column {show(name)}; expected {listing(known)}, or "
                "the levels of an ordinal column in their order"
            )
    return found


def coded(column: pd.Series, levels: Sequence[Level], name: str) -> Float64[np.ndarray, " N"]:
    """The codes of labels that are among the levels; NaN where missing.

    Examples
    --------
    >>> coded(pd.Series(["b", "a"]), ("a", "b"), "group").tolist()
    [1.0, 0.0]
    """
    place = {level: k for k, level in enumerate(levels)}
    codes = np.full(len(column), np.nan)
    cells = column.to_numpy(dtype=object)
    for row in np.flatnonzero(column.notna()):
        try:
            codes[row] = place[cells[row]]
        except (KeyError, TypeError):
            raise ValueError(
                f"column {show(name)} has {show(cells[row])} in row {row} (counting from 0); its "
                f"values are {listing(levels)}"
            ) from None
    return codes


def _categories(column: pd.Series, name: str, asked: str | None) -> Column:
    used = column.cat.remove_unused_categories()
    labels = [_plain(label) for label in used.cat.categories]
    numeric = all(
        isinstance(label, int | float) and not isinstance(label, bool) for label in labels
    )
    if asked in ("continuous", "count") and numeric:
        return _numbers(column.astype(np.float64).to_numpy(), name, asked)
    codes = used.cat.codes.to_numpy().astype(np.float64)
    usual = Kind.ORDINAL if used.cat.ordered else Kind.CATEGORICAL
    if len(labels) == 2:
        usual = Kind.BINARY
    kind = _discrete_kind(
        asked, usual, len(labels), name, has_order=bool(used.cat.ordered) or numeric
    )
    return Column(np.where(codes < 0, np.nan, codes), kind, tuple(labels))


def _truth_values(column: pd.Series, name: str, asked: str | None) -> Column:
    values = np.full(len(column), np.nan)
    present = column.notna().to_numpy()
    values[present] = np.asarray(column[present], dtype=bool)
    if asked in ("continuous", "count"):
        return _numbers(values, name, asked)
    if len(np.unique(values[present])) < 2:  # constant: the audit says so
        return Column(values, Kind.CONTINUOUS)
    return Column(values, _discrete_kind(asked, Kind.BINARY, 2, name), (False, True))


def _text(column: pd.Series, cells: pd.Series, name: str, source: str, asked: str | None) -> Column:
    labels = sorted(set(cells))
    if asked in ("continuous", "count"):
        raise ValueError(
            f"kinds has {asked!r} for column {show(name)}, which holds text such as "
            f"{show(labels[0])}; expected numbers"
        )
    if asked is None and any(map(_numeric_text, labels)):
        raise not_numeric(column, name, source)
    rows = len(cells)
    if len(labels) > MOST_LABELS or 2 * len(labels) > rows:
        row = int(np.argmax(column.notna()))
        raise ValueError(
            f"{source} has non-numeric values in column {show(name)}: {show(column.iloc[row])} in "
            f"row {row} (counting from 0), and {len(labels)} different texts in {rows} rows, as "
            "identifiers and free text have; expected numbers, or few texts that repeat, each a "
            "category: convert, encode or drop the column"
        )
    usual = Kind.BINARY if len(labels) == 2 else Kind.CATEGORICAL
    kind = _discrete_kind(asked, usual, len(labels), name, has_order=False)
    return Column(coded(column, labels, name), kind, tuple(labels))


def _numeric_text(text: str) -> bool:
    return reads_as_number(text.replace(",", ".", 1)) or reads_as_number(text.replace("_", ""))


def _numbers(values: Float64[np.ndarray, " N"], name: str, asked: str | None) -> Column:
    finite = values[np.isfinite(values)]
    kind = _detected(finite, len(values)) if asked is None else Kind(asked)
    if np.isinf(values).any():
        kind = Kind.CONTINUOUS  # the audit says so
    if kind is Kind.CONTINUOUS:
        return Column(values, kind)
    if kind is Kind.COUNT:
        bad = (finite < 0) | (finite != np.round(finite))
        if bad.any():
            raise ValueError(
                f"kinds has 'count' for column {show(name)}, which holds {finite[bad][0]:g}; "
                "expected whole numbers from 0 on"
            )
        return Column(values, kind)
    distinct = np.unique(finite)
    kind = _discrete_kind(str(kind), kind, len(distinct), name)
    codes = np.searchsorted(distinct, values).astype(np.float64)
    levels = tuple(int(x) if x == np.round(x) else float(x) for x in distinct)
    return Column(np.where(np.isnan(values), np.nan, codes), kind, levels)


def _detected(finite: Float64[np.ndarray, " n"], rows: int) -> Kind:
    """Few numbers that repeat are codes; whole numbers from 0 on with a long tail are counts."""
    if len(finite) == 0:
        return Kind.CONTINUOUS
    distinct = np.unique(finite)
    if 2 <= len(distinct) <= MOST_CODES and rows >= REPEATS * len(distinct):
        return Kind.BINARY if len(distinct) == 2 else Kind.ORDINAL
    whole = distinct[0] == 0 and bool((distinct == np.round(distinct)).all())
    if whole and len(distinct) > MOST_CODES and rows >= 2 * len(distinct):
        away = finite - finite.mean()
        if (away**3).mean() > LONG_TAIL * (away**2).mean() ** 1.5:
            return Kind.COUNT
    return Kind.CONTINUOUS


def _discrete_kind(
    asked: str | None, usual: Kind, levels: int, name: str, *, has_order: bool = True
) -> Kind:
    """The kind, if so many levels allow it."""
    if asked is None:
        return usual
    kind = Kind(asked)
    if kind in (Kind.CONTINUOUS, Kind.COUNT):
        raise ValueError(
            f"kinds has {asked!r} for column {show(name)}, whose values are no numbers"
        )
    if kind is Kind.BINARY and levels != 2:
        raise ValueError(
            f"kinds has 'binary' for column {show(name)}, which has {levels} different values; "
            "expected 2"
        )
    if levels > MOST_LEVELS:
        raise ValueError(
            f"kinds has {asked!r} for column {show(name)}, which has {levels} different values; "
            f"expected at most {MOST_LEVELS}"
        )
    if kind is Kind.ORDINAL and levels > 2 and not has_order:
        raise ValueError(
            f"kinds has 'ordinal' for column {show(name)}, whose values have no order of their "
            f"own: give them in order, kinds={{{show(name)}: ['low', 'middle', 'high']}}, or as an "
            "ordered pandas Categorical"
        )
    return kind


def _plain(label: Any) -> Level:
    """A label as plain data; anything but numbers and truth values as text."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, float) and value == round(value):
        return int(value)
    return value if isinstance(value, bool | int | float | str) else str(value)
