"""What a table asks for before a fit, all at once, each with what to do about it.

Unlike the audit, a survey reads columns that are no numbers too, and raises nothing: identifiers,
dates, free text, missing cells, parts of a whole, rows in time order, repeated identifiers, more
columns than rows, and columns that nothing is likely to cause.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from svidag.data.columns import MISSING_WORDS, listing
from svidag.data.kinds import Kind, read_column

IDENTIFIER = re.compile(
    r"^(?:.*[_\W])?(?:id|ids|uuid|index|idx|row|record|code|number|nr|no|unnamed.*)$", re.IGNORECASE
)
OWNER = re.compile(
    r"(?:^|[_\W])(?:subject|patient|person|participant|family|household|animal|mouse|donor|"
    r"country|firm|school|individual)(?:$|[_\W]|id)",
    re.IGNORECASE,
)
CONTEXT = re.compile(
    r"(?:^|[_\W])(?:batch|plate|lab|laboratory|site|centre|center|hospital|experiment|"
    r"environment|study|cohort|instrument|run)(?:$|[_\W]|\d)",
    re.IGNORECASE,
)
FIRST = re.compile(r"^(?:age|sex|gender|birth.*|ethnicity|race|genotype)$", re.IGNORECASE)
"""Names of what other columns are unlikely to cause."""
MOST_LEVELS = 20
"""Values of a column of text up to which it may be a batch."""
LAG = 4.0
"""Standard errors of the correlation between neighbouring rows from which it is reported."""
ROWS_OF_A_BLOCK = 10
"""Rows of each value of a column, on average, for a table to count as sorted by it."""
WHOLE = 0.01
"""Relative spread of a sum of columns below which they are parts of a whole."""


@dataclass(frozen=True)
class Advice:
    """One thing that a table asks for.

    Attributes
    ----------
    columns
        The columns concerned; none for the table as a whole.
    found
        What was found.
    advice
        What to do.
    option
        The option of `svidag fit` that does it, to paste; empty where none does.

    Examples
    --------
    >>> Advice(("id",), "a different value in every row", "leave it out", "--drop id").option
    '--drop id'
    """

    columns: tuple[str, ...]
    found: str
    advice: str
    option: str = ""


def survey(frame: pd.DataFrame, kinds: Mapping[str, str] | None = None) -> list[Advice]:
    """Everything that a table asks for, with kinds of columns where they were said.

    Examples
    --------
    >>> table = pd.DataFrame({"id": ["a", "b", "c", "d"], "x": [1.0, None, 2.0, 5.0]})
    >>> [advice.option for advice in survey(table)]
    ['--drop id', '--missing impute']
    """
    names = [str(name) for name in frame.columns]
    frame = frame.set_axis(pd.Index(names, dtype=object), axis=1)
    found = [advice for j, name in enumerate(names) for advice in _column(frame.iloc[:, j], name)]
    excluded = {name for advice in found for name in advice.columns}
    kept = [j for j, name in enumerate(names) if name not in excluded]
    variables = frame.iloc[:, kept]
    asked = {} if kinds is None else kinds
    measured = [
        _kind(variables.iloc[:, k], name, asked.get(name)) is Kind.CONTINUOUS
        for k, name in enumerate(variables.columns)
    ]
    numbers = variables.loc[:, measured].astype(float)
    return [
        *found,
        *_missing(variables),
        *_few_rows(variables),
        *_whole(numbers),
        *_time_order(numbers, variables),
        *_knowledge(list(variables.columns)),
    ]


def _column(column: pd.Series, name: str) -> Iterator[Advice]:
    """What a column is that is no variable."""
    if not _is_simple(column):
        what = "values that are no single numbers or words"
        yield Advice((name,), what, "leave it out, or make columns of their parts", _drop(name))
        return
    known = column.where(~column.astype(object).isin(list(MISSING_WORDS))).dropna()
    different = known.nunique()
    if not len(known) or different <= 1:
        what = "no value at all" if not len(known) else "the same value in every row"
        yield Advice((name,), what, "leave it out", _drop(name))
    elif OWNER.search(name) and different < 0.8 * len(known):
        what = f"{different:,} identifiers, repeated in {len(known):,} rows"
        advice = "rows that belong together: resample them together"
        yield Advice((name,), what, advice, f"--groups {shlex.quote(name)}")
    elif _is_date(known):
        advice = "leave it out, or give the difference to another date"
        yield Advice((name,), "dates", advice, _drop(name))
    elif _is_text(known) or CONTEXT.search(name):
        yield from _label(known, name, different)
    elif different == len(known) and (IDENTIFIER.match(name) or OWNER.search(name)):
        yield Advice((name,), "a different value in every row", "leave it out", _drop(name))
    elif different == len(known) and _is_counter(known):
        yield Advice((name,), "a counter of rows", "leave it out", _drop(name))


def _is_simple(column: pd.Series) -> bool:
    """Whether values can be told apart, as lists, dictionaries and tables cannot."""
    try:
        column.nunique()
    except (TypeError, NotImplementedError):
        return False
    return True


def _label(known: pd.Series, name: str, different: int) -> Iterator[Advice]:
    text = _is_text(known)
    if CONTEXT.search(name) and 2 <= different <= MOST_LEVELS:
        what = f"{different} batches or the like"
        advice = "mechanisms may change with it, and nothing causes it"
        yield Advice((name,), what, advice, f"--environments {shlex.quote(name)}")
    elif text and different == len(known):
        yield Advice((name,), "a different text in every row", "leave it out", _drop(name))
    elif text and _kind(known, name) is None:
        what = f"text, {different:,} different values"
        yield Advice((name,), what, "leave it out, or write numbers for the values", _drop(name))


def _kind(column: pd.Series, name: str, asked: str | None = None) -> Kind | None:
    """What a fit would read a column as; None if it could not."""
    try:
        return read_column(column, name, "data", asked).kind
    except ValueError:
        return None


def _is_text(known: pd.Series) -> bool:
    if pd.api.types.is_numeric_dtype(known) or pd.api.types.is_bool_dtype(known):
        return False
    return bool(_as_numbers(known).isna().any())


def _as_numbers(known: pd.Series) -> pd.Series:
    try:
        found = pd.Series(pd.to_numeric(known, errors="coerce"))
    except OverflowError:  # whole numbers beyond all floats
        found = pd.Series(pd.to_numeric(known.astype(str), errors="coerce"))
    if pd.api.types.is_complex_dtype(found):  # a fit refuses them
        return pd.Series(np.nan, index=found.index)
    return found


def _is_date(known: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(known):
        return True
    if not _is_text(known):
        return False
    pattern = r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*"
    return bool(known.astype(str).str.fullmatch(pattern).all())


def _is_counter(known: pd.Series) -> bool:
    values = _as_numbers(known).to_numpy(dtype=np.float64)
    return len(values) > 2 and bool((np.diff(values) == 1).all())


def _drop(name: str) -> str:
    return f"--drop {shlex.quote(name)}"


def _missing(variables: pd.DataFrame) -> Iterator[Advice]:
    gone = variables.isna()
    if gone.to_numpy().any():
        columns = [str(name) for name in variables.columns[gone.any()]]
        rows = int(gone.any(axis=1).sum())
        worst = str(gone.mean().idxmax())
        what = (
            f"{int(gone.to_numpy().sum()):,} missing cells in {rows:,} of {len(variables):,} rows; "
            f"most, {gone.mean().max():.0%}, in {worst}"
        )
        advice = "average over their possible values (or --missing drop: leave the rows out)"
        yield Advice(tuple(columns), what, advice, "--missing impute")


def _few_rows(numbers: pd.DataFrame) -> Iterator[Advice]:
    n, m = numbers.shape
    if n < m:
        what = f"{n} rows and {m} columns"
        yield Advice((), what, "expect little to be decided; state what you know, or drop columns")


def _whole(numbers: pd.DataFrame) -> Iterator[Advice]:
    """Columns from 0 to 100, or to 1, that add up to that in every row."""
    names, known = list(map(str, numbers.columns)), numbers.dropna().to_numpy(dtype=np.float64)
    for whole in (100.0, 1.0):
        parts = [
            j
            for j, part in enumerate(known.T)
            if len(part) > 2 and 0 <= part.min() <= part.max() <= whole and len(np.unique(part)) > 2
        ]
        chosen = _adding_up(known[:, parts], whole) if len(parts) > 1 else []
        if chosen:
            columns = tuple(names[parts[k]] for k in chosen)
            advice = "one more of one is one less of the others: leave one out"
            yield Advice(columns, f"they add up to {whole:g}", advice, _drop(columns[-1]))
            return


def _adding_up(values: Float[np.ndarray, "n k"], whole: float) -> list[int]:
    """Columns that add up to the whole, by regression of it on all of them; else none."""
    weights = np.linalg.lstsq(values, np.full(len(values), whole), rcond=None)[0]
    chosen = np.flatnonzero(np.abs(weights - 1) < 0.1)
    off = np.abs(values[:, chosen].sum(axis=1) - whole) if len(chosen) > 1 else np.array([whole])
    return [int(k) for k in chosen] if (off < WHOLE * whole).all() else []


def _time_order(numbers: pd.DataFrame, variables: pd.DataFrame) -> Iterator[Advice]:
    """Neighbouring rows that are alike in the column second in line, as a sorted table is in one.

    With a correlation ρ between neighbours, N rows are worth N (1 − ρ)/(1 + ρ). What a column
    explains by which the table is sorted, level after level, is no such correlation.
    """
    n = len(numbers)
    if n < 20 or numbers.shape[1] < 2:
        return
    ranks = numbers.rank()
    for j in range(variables.shape[1]):
        codes = pd.Series(pd.factorize(variables.iloc[:, j])[0], index=numbers.index)
        if _in_blocks(codes.to_numpy()):
            ranks = ranks - ranks.groupby(codes).transform("mean")
    neighbours = {
        str(name): float(np.nan_to_num(column.corr(pd.Series(column.shift()))))
        for name, column in ranks.items()
    }
    ordered = sorted(neighbours.values(), reverse=True)
    rho = ordered[1]
    if rho > LAG / np.sqrt(n):
        alike = [name for name, value in neighbours.items() if value > LAG / np.sqrt(n)]
        worth = max(10, round(n * (1 - rho) / (1 + rho)))
        what = f"neighbouring rows are alike (correlation up to {ordered[0]:.2f}): time order?"
        advice = f"{n:,} rows are worth about {worth:,} independent ones: count them as that"
        yield Advice(tuple(alike), what, advice, f"--coarsen {worth}")


def _in_blocks(codes: Int[np.ndarray, " N"]) -> bool:
    """Whether the rows of each of few values stand together."""
    different = len(np.unique(codes))
    changes = np.count_nonzero(np.diff(codes))
    return bool(1 < different <= len(codes) / ROWS_OF_A_BLOCK and changes == different - 1)


def _knowledge(names: Sequence[str]) -> Iterator[Advice]:
    first = [name for name in names if FIRST.match(name)]
    if first and len(first) < len(names):
        rest = [name for name in names if name not in first]
        tiers = f"tiers: [[{', '.join(map(_yaml, first))}], [{', '.join(map(_yaml, rest))}]]"
        what = f"nothing else is likely to cause {listing(first)}"
        advice = f"if so, write a file knowledge.yaml: {tiers}"
        yield Advice(tuple(first), what, advice, "--knowledge knowledge.yaml")


def _yaml(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w ]*", name) else "'" + name.replace("'", "''") + "'"
