"""Columns of every kind that pandas can hold, and what a refusal of one must look like."""

import datetime
import decimal
import fractions
import traceback

import numpy as np
import pandas as pd

WHEN = pd.Timestamp("2020-01-01")


def normal(rng, n):
    return rng.normal(size=n)


def objects(values, rng, n):
    found = np.empty(n, dtype=object)
    found[:] = [values[k] for k in rng.integers(0, len(values), n)]
    return found


def holed(column, rng, value=None):
    column = pd.Series(column).astype(object)
    column[rng.random(len(column)) < 0.2] = value
    return column


GOOD = {
    "floats": normal,
    "float32": lambda rng, n: normal(rng, n).astype(np.float32),
    "float16": lambda rng, n: normal(rng, n).astype(np.float16),
    "longdouble": lambda rng, n: normal(rng, n).astype(np.longdouble),
    "small": lambda rng, n: 1e-140 * normal(rng, n),
    "large": lambda rng, n: 1e140 * normal(rng, n),
    "far from zero": lambda rng, n: 1e9 + normal(rng, n),
    "whole": lambda rng, n: rng.integers(-(10**9), 10**9, n),
    "bytes": lambda rng, n: rng.integers(0, 255, n).astype(np.uint8),
    "nullable": lambda rng, n: pd.array(rng.integers(0, 10**6, n), dtype="Int64"),
    "nullable float": lambda rng, n: pd.array(normal(rng, n), dtype="Float32"),
    "arrow": lambda rng, n: pd.array(normal(rng, n), dtype="float64[pyarrow]"),
    "sparse": lambda rng, n: pd.arrays.SparseArray(normal(rng, n)),
    "truth": lambda rng, n: rng.random(n) < 0.5,
    "nullable truth": lambda rng, n: pd.array(rng.random(n) < 0.5, dtype="boolean"),
    "decimals": lambda rng, n: [decimal.Decimal(str(x)) for x in normal(rng, n)],
    "fractions": lambda rng, n: [fractions.Fraction(float(x)) for x in normal(rng, n)],
    "few texts": lambda rng, n: objects(["a", "b", "c"], rng, n),
    "strings": lambda rng, n: pd.array(objects(["<b>", "é\n", ""], rng, n), dtype="string"),
    "arrow texts": lambda rng, n: pd.array(objects(["x", "y"], rng, n), dtype="string[pyarrow]"),
    "categories": lambda rng, n: pd.Categorical(objects(["a", "b"], rng, n)),
    "numbers as categories": lambda rng, n: pd.Categorical(objects([1, 2.5, 7], rng, n)),
    "ordered": lambda rng, n: pd.Categorical(objects(list("abc"), rng, n), ordered=True),
    "codes": lambda rng, n: rng.integers(1, 4, n),
    "counts": lambda rng, n: rng.geometric(0.1, n) - 1,
    "mixed categories": lambda rng, n: pd.Categorical(objects([1, "one"], rng, n)),
    "dates as categories": lambda rng, n: pd.Categorical(
        objects([WHEN, WHEN + pd.Timedelta("1D")], rng, n)
    ),
    "intervals as categories": lambda rng, n: pd.cut(normal(rng, n), [-9, 0, 9]),
}
"""Columns that a fit accepts in a table of enough rows."""

BAD = {
    "missing": lambda rng, n: holed(normal(rng, n), rng),
    "missing text": lambda rng, n: holed(objects(["a", "b"], rng, n), rng),
    "missing truth": lambda rng, n: holed(rng.random(n) < 0.5, rng, pd.NA),
    "missing codes": lambda rng, n: holed(rng.integers(1, 4, n), rng, np.nan).astype("Int64"),
    "missing category": lambda rng, n: pd.Categorical(objects(["a", "b", None], rng, n)),
    "no value": lambda rng, n: np.full(n, np.nan),
    "nothing": lambda rng, n: [None] * n,
    "no category": lambda rng, n: pd.Categorical([None] * n),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.3, np.inf, normal(rng, n)),
    "huge": lambda rng, n: 1e200 * normal(rng, n),
    "tiny": lambda rng, n: 1e-300 * normal(rng, n),
    "huge whole": lambda rng, n: objects([10**400, 2, 3], rng, n),
    "constant": lambda rng, n: np.full(n, 3.0),
    "constant text": lambda rng, n: ["a"] * n,
    "constant truth": lambda rng, n: [True] * n,
    "identifiers": lambda rng, n: [f"p{k}" for k in range(n)],
    "numbers as text": lambda rng, n: [f"{x:.3f}" for x in normal(rng, n)],
    "commas": lambda rng, n: [f"{x:.3f}".replace(".", ",") for x in normal(rng, n)],
    "text and numbers": lambda rng, n: objects([1, "a", 2.5], rng, n),
    "dates": lambda rng, n: WHEN + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
    "dates in a zone": lambda rng, n: pd.DatetimeIndex([WHEN] * n).tz_localize("UTC"),
    "days": lambda rng, n: [datetime.date(2020, 1, 1 + k % 28) for k in range(n)],
    "times": lambda rng, n: pd.to_timedelta(rng.integers(0, 99, n), unit="s"),
    "periods": lambda rng, n: pd.PeriodIndex([pd.Period("2020-01", "M")] * n),
    "intervals": lambda rng, n: pd.arrays.IntervalArray.from_breaks(np.arange(n + 1.0)),
    "complex": lambda rng, n: normal(rng, n) + 1j,
    "lists": lambda rng, n: objects([[1], [2, 3]], rng, n),
    "dictionaries": lambda rng, n: objects([{"a": 1}, {}], rng, n),
    "raw bytes": lambda rng, n: objects([b"a", b"b"], rng, n),
    "frames": lambda rng, n: objects([pd.DataFrame({"a": [1]}), 2], rng, n),
    "arrow lists": lambda rng, n: pd.Series([[1]] * n, dtype=_arrow_list()),
}
"""Columns that a fit refuses, if it is not told what to do about them."""


def _arrow_list():
    import pyarrow

    return pd.ArrowDtype(pyarrow.list_(pyarrow.int64()))


def frame_of(kinds, rows, seed, makers):
    rng = np.random.default_rng(seed)
    columns = {f"{k}: {kind}": pd.Series(makers[kind](rng, rows)) for k, kind in enumerate(kinds)}
    return pd.DataFrame(columns, index=pd.RangeIndex(rows))


def refused(error: BaseException) -> str:
    """The message of an error that we made ourselves, and not NumPy, pandas or JAX."""
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    assert "svidag" in where, f"raised in {where}: {error}"
    assert str(error)
    return str(error)
