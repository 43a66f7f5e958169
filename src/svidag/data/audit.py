"""Checks of a table before a fit: errors that prevent it, and warnings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from svidag.data import collinearity
from svidag.data.columns import listing, show
from svidag.data.kinds import Kind
from svidag.data.scaling import SMALLEST, centre_and_scale

LARGEST = 1e150
"""Magnitude beyond which squares leave the range of float64."""
MIN_ROWS = 3
"""With two rows all columns are perfectly correlated, so the data hold no evidence about edges."""
SKEWNESS = 2.0
"""Skewness from which a column is reported; that of the exponential distribution."""
OUTLIER = 10.0
"""Standard deviations from the mean from which a value is reported."""
SCALE_RATIO = 3.0
"""Ratio of largest to smallest standard deviation from which their order is reported."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Range, relative to the largest value, below which a column varies by rounding alone."""

Values = Float64[np.ndarray, "N m"]
Mask = Bool[np.ndarray, "N m"]
Column = Float64[np.ndarray, " N"]


@dataclass(frozen=True)
class Finding:
    """One thing the audit found: its kind, the columns concerned, and a sentence for the user.

    Kinds of error: ``few-columns``, ``few-rows``, ``missing``, ``infinite``, ``magnitude``,
    ``constant``, ``duplicate``, ``collinear``. Kinds of warning: ``near-collinear``, ``skew``,
    ``outlier``, ``varsortability``.

    Examples
    --------
    >>> Finding("constant", ("a",), "column 'a' is constant (0) in every row; drop it").columns
    ('a',)
    """

    kind: str
    columns: tuple[str, ...]
    message: str


class DataWarning(UserWarning):
    """A property of the data that does not prevent a fit but may affect its result."""


class AuditError(ValueError):
    """The data cannot be fitted; ``findings`` holds one entry for each reason.

    Examples
    --------
    >>> str(AuditError((Finding("few-rows", (), "data has 1 row"),)))
    'data has 1 row'
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        lines = [finding.message for finding in findings]
        head = [] if len(lines) == 1 else [f"data has {len(lines)} problems:"]
        super().__init__("\n- ".join([*head, *lines]))

    def __reduce__(self):
        return AuditError, (self.findings,)


def audit(
    names: Sequence[str], values: Values, intervened: Mask, kinds: Sequence[Kind] = ()
) -> tuple[Finding, ...]:
    """Return the warnings; raise `AuditError` if there are errors.

    Warnings about distribution and scale are of continuous columns only; codes of categories have
    no linear relations, and those among three or more discrete columns prevent no fit.
    """
    values = np.asfortranarray(values)  # every check but one reads whole columns
    kinds = kinds or [Kind.CONTINUOUS] * len(names)
    errors = _errors(names, values, intervened, kinds)
    if errors:
        raise AuditError(errors)
    names = [name for name, kind in zip(names, kinds, strict=True) if kind is Kind.CONTINUOUS]
    plain = np.array([kind is Kind.CONTINUOUS for kind in kinds], dtype=bool)
    if not plain.any():
        return ()
    if not plain.all():
        values, intervened = values[:, plain], intervened[:, plain]
    return (
        *_near_collinear(names, values),
        *_distribution_warnings(names, values, intervened),
        *_varsortability(names, values, intervened),
    )


def require_usable(names: Sequence[str], values: Values) -> None:
    """Raise `AuditError` unless there are rows and every value is finite and not too large."""
    errors = tuple(_unusable(names, values))
    if not len(values):
        errors = (Finding("few-rows", (), "data has no rows"),)
    if errors:
        raise AuditError(errors)


def _errors(
    names: Sequence[str], values: Values, intervened: Mask, kinds: Sequence[Kind]
) -> tuple[Finding, ...]:
    too_small = tuple(_too_small(values))
    if len(values) < MIN_ROWS:
        return too_small
    found = [*too_small, *_unusable(names, values)]
    for check in (_constant, _duplicated, _collinear):
        # A column reported once is left out of the later checks, which it would only confuse.
        reported = {name for finding in found for name in _dropped(finding)}
        if check is _collinear:
            pairs = zip(names, kinds, strict=True)
            reported |= {name for name, kind in pairs if kind is Kind.CATEGORICAL}
        kept = [j for j, name in enumerate(names) if name not in reported]
        kept_names = [names[j] for j in kept]
        columns = values if len(kept) == len(names) else values[:, kept]
        results = check(kept_names, columns, intervened[:, kept])
        found += (one for one in results if not _among_levels(one, names, kinds))
    return tuple(found)


def _among_levels(finding: Finding, names: Sequence[str], kinds: Sequence[Kind]) -> bool:
    """Whether this is a linear relation of discrete columns alone that is not mere recoding.

    "Either of two diseases" is the sum of both where nobody has two. Such columns have tables of
    probabilities and logits as others do; only measurements would have a noise of variance 0.
    """
    if finding.kind != "collinear" or len(finding.columns) < 3:
        return False
    known = dict(zip(names, kinds, strict=True))
    return all(known[name].discrete for name in finding.columns)


def _dropped(finding: Finding) -> tuple[str, ...]:
    return finding.columns[1:] if finding.kind == "duplicate" else finding.columns


def _too_small(values: Values) -> Iterator[Finding]:
    n, m = values.shape
    if m < 2:
        message = f"data has {m} column{'s' * (m != 1)}; expected at least 2 variables"
        yield Finding("few-columns", (), message)
    if n < MIN_ROWS:
        yield Finding(
            "few-rows",
            (),
            f"data has {n} row{'s' * (n != 1)}; expected at least {MIN_ROWS}, since in two rows "
            "all columns are perfectly correlated",
        )


def _unusable(names: Sequence[str], values: Values) -> Iterator[Finding]:
    for j, name in enumerate(names):
        column = values[:, j]
        if _all_within(column):
            continue
        missing, infinite = np.isnan(column), np.isinf(column)
        large = np.isfinite(column) & (np.abs(column) > LARGEST)
        if missing.any():
            advice = 'missing="impute" draws them, missing="drop" leaves these rows out'
            yield Finding("missing", (name,), _where(missing, "missing value", name, advice))
        if infinite.any():
            advice = "drop or replace them"
            yield Finding("infinite", (name,), _where(infinite, "infinite value", name, advice))
        if large.any():
            kind = f"value beyond ±{LARGEST:g}"
            advice = "rescale the column, since squares would overflow"
            yield Finding("magnitude", (name,), _where(large, kind, name, advice))


def _all_within(column: Column) -> bool:
    # NaN makes both comparisons false.
    return bool(column.min(initial=0) >= -LARGEST and column.max(initial=0) <= LARGEST)


def _where(bad: Bool[np.ndarray, " N"], kind: str, name: str, advice: str) -> str:
    rows = np.flatnonzero(bad)
    noun = kind if len(rows) == 1 else kind.replace("value", "values")
    listed = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
    return (
        f"data has {len(rows)} {noun} in column {show(name)}, row{'s' * (len(rows) != 1)} "
        f"{listed} (counting from 0); {advice}"
    )


def _constant(names: Sequence[str], values: Values, intervened: Mask) -> Iterator[Finding]:
    for j, name in enumerate(names):
        column, free = values[:, j], ~intervened[:, j]
        flat = _flatness(column) or (_flatness(column[free]) if free.any() else None)
        if flat is None:
            continue
        kind, what = flat
        where, advice = "in every row", "drop it"
        if _flatness(column) is None:
            where = f"in the {np.count_nonzero(free)} rows where it was not intervened on"
            advice = "drop it, or mark it as intervened on in every row"
        yield Finding(kind, (name,), f"column {show(name)} {what} {where}; {advice}")


def _flatness(column: Column) -> tuple[str, str] | None:
    """Return the kind and the wording of a column that does not vary enough to be explained."""
    low, high = column.min(), column.max()
    if high == low:
        return "constant", f"is constant ({low:g})"
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return "constant", f"is constant up to rounding ({low:g})"
    if high - low < SMALLEST:
        return "magnitude", f"varies by less than {SMALLEST:g}, so that squares underflow,"
    return None


def _duplicated(names: Sequence[str], values: Values, intervened: Mask) -> Iterator[Finding]:
    for group in collinearity.identical(values):
        same = tuple(names[j] for j in group)
        yield Finding("duplicate", same, f"columns {listing(same)} are identical; keep one of them")


def _collinear(names: Sequence[str], values: Values, intervened: Mask) -> Iterator[Finding]:
    for relation in collinearity.exact(values):
        column, *others = (names[j] for j in relation)
        kind = "linear function" if len(others) == 1 else "linear combination"
        yield Finding(
            "collinear",
            (column, *others),
            f"column {show(column)} is an exact {kind} of {listing(others)}; drop one of them",
        )


def _near_collinear(names: Sequence[str], values: Values) -> Iterator[Finding]:
    for relation, unexplained in collinearity.near(values):
        column, *others = (names[j] for j in relation)
        share = f"{1 - unexplained:.4f}" if unexplained > 1e-4 else f"1 − {unexplained:.0e}"
        yield Finding(
            "near-collinear",
            (column, *others),
            f"column {show(column)} is nearly a linear combination of {listing(others)} "
            f"(adjusted R² = {share}); edges among them are hard to tell apart",
        )


def _distribution_warnings(
    names: Sequence[str], values: Values, intervened: Mask
) -> Iterator[Finding]:
    """Yield one warning for each column that is heavily skewed or has outliers.

    Columns with two values are left out, and so are the rows where a column was intervened on.
    """
    for j, name in enumerate(names):
        rows = np.flatnonzero(~intervened[:, j])
        column = values[rows, j]
        if len(rows) == 0 or _two_valued(column):
            continue
        z = _standard(column)
        skewness = _skewness(z)
        extreme = int(np.argmax(np.abs(z)))
        if abs(skewness) > SKEWNESS:
            message = f"column {show(name)} is heavily skewed (skewness {skewness:.1f}); consider "
            yield Finding("skew", (name,), message + _remedy(name, column, skewness))
        elif abs(z[extreme]) > OUTLIER:
            yield Finding(
                "outlier",
                (name,),
                f"column {show(name)} has {column[extreme]:g} in row {rows[extreme]} (counting "
                f"from 0), {abs(z[extreme]):.0f} standard deviations from its mean",
            )


def _two_valued(column: Column) -> bool:
    return bool(np.all((column == column.min()) | (column == column.max())))


def _standard(column: Column) -> Column:
    centre, scale = centre_and_scale(column)
    return (column - centre) / scale


def _skewness(z: Column) -> float:
    return float(np.mean(z * z * z))  # z**3 is much slower


def _remedy(name: str, column: Column, skewness: float) -> str:
    logs = column.min() > 0 and abs(_skewness(_standard(np.log(column)))) < abs(skewness) / 2
    return f"transforms={{{show(name)}: {'log' if logs else 'rank-gaussian'!r}}}"


def _varsortability(names: Sequence[str], values: Values, intervened: Mask) -> Iterator[Finding]:
    """Yield a warning if the variances differ so much that their order could pass for a signal.

    Varsortability (Reisach et al., 2021) is the share of causal paths along which variance grows.
    It cannot be known without the graph; a wide spread of variances is what makes it matter.
    """
    scales = np.array([_free_scale(values[:, j], ~intervened[:, j]) for j in range(len(names))])
    small, large = int(np.argmin(scales)), int(np.argmax(scales))
    ratio = float(scales[large] / scales[small])
    if ratio >= SCALE_RATIO:
        yield Finding(
            "varsortability",
            (names[small], names[large]),
            f"standard deviations differ by a factor of {ratio:.3g}, from column "
            f"{show(names[small])} to {show(names[large])}; unless the data are standardised, "
            "their order, often only a matter of units, can decide the direction of edges",
        )


def _free_scale(column: Column, free: Bool[np.ndarray, " N"]) -> float:
    return centre_and_scale(column[free] if free.any() else column)[1]
