"""Checks of the arguments of effect queries, with all their error messages."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from svidag.data import Kind
from svidag.data.columns import closest, listing, show
from svidag.data.kinds import Level, coded
from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior import Posterior


def mechanisms(posterior: Posterior) -> ParameterDistribution:
    """The distribution of the parameters, without which there is no answer."""
    if posterior.mechanisms is None:
        raise ValueError(
            "this posterior is over graphs alone: it has no mechanisms, so it cannot say what an "
            "intervention would do"
        )
    return posterior.mechanisms


def index(names: tuple[str, ...], name: Any, what: str) -> int:
    """The column of a variable."""
    if not isinstance(name, str) or name not in names:
        raise ValueError(
            f"{what} is {show(name)}, which is not a variable{closest(str(name), names)}"
        )
    return names.index(name)


def number(value: Any, what: str) -> float:
    """A finite number as a float; True and False are refused.

    Examples
    --------
    >>> number(2, "change")
    2.0
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        with contextlib.suppress(OverflowError):
            if np.isfinite(float(value)):
                return float(value)
    raise ValueError(f"{what} must be a finite number; got {show(value)}")


def levels_of(posterior: Posterior, j: int) -> tuple[Level, ...]:
    """The levels of a discrete variable; none of others."""
    return () if posterior.problem is None else posterior.problem.data.levels[j]


def setting(posterior: Posterior, j: int, value: Any, what: str) -> float:
    """The value to which a variable is set, as equations know it: the code of a level, a number.

    Only values that exist: levels of a discrete variable, whole numbers from 0 on of a count.
    """
    levels = levels_of(posterior, j)
    if levels:
        try:
            return float(coded(pd.Series([value], dtype=object), levels, posterior.names[j])[0])
        except ValueError:
            raise ValueError(
                f"{what} is {show(value)}; the values of {show(posterior.names[j])} are "
                f"{listing(levels)}"
            ) from None
    found = number(value, what)
    if kind_of(posterior, j) is Kind.COUNT and (found < 0 or found != round(found)):
        raise ValueError(f"{what} is {found:g}; a count is a whole number from 0 on")
    return found


def kind_of(posterior: Posterior, j: int) -> Kind:
    """The kind of a variable; continuous where the table is not known."""
    return Kind.CONTINUOUS if posterior.problem is None else posterior.problem.data.kinds[j]


def fixed_values(posterior: Posterior, values: Mapping[Any, Any]) -> Float[np.ndarray, " m"]:
    """The values by column, NaN elsewhere."""
    names = posterior.names
    fixed = np.full(len(names), np.nan)
    for name, value in values.items():
        j = index(names, name, "a variable in do")
        fixed[j] = setting(posterior, j, value, f"do of {show(name)}")
    return fixed


def held_values(posterior: Posterior, holding: Any, cause: str, effect: str) -> dict[str, Any]:
    """Variables held meanwhile, neither the cause nor the effect, and their values."""
    names = posterior.names
    if not isinstance(holding, Mapping):
        raise ValueError(f"holding must map variables to values; got {show(holding)}")
    for role, name in (("cause", cause), ("effect", effect)):
        if name in holding:
            raise ValueError(f"holding fixes {show(name)}, which is the {role}")
    for name, value in holding.items():
        setting(posterior, index(names, name, "a variable in holding"), value, f"holding {name!r}")
    return {
        name: value if levels_of(posterior, names.index(name)) else float(value)
        for name, value in holding.items()
    }


def require_evidence(posterior: Posterior, y: int) -> None:
    """Refuse an effect whose own equation no row of the table says anything about."""
    if posterior.problem is not None and posterior.problem.data.intervened[:, y].all():
        raise ValueError(
            f"effect {show(posterior.names[y])} was set from outside in every row, so that the "
            "data say nothing about what moves it"
        )


def usual_value(posterior: Posterior, j: int) -> float:
    """The mean of a variable over the rows where it was not set from outside.

    Of a discrete variable or a count, the most frequent value.
    """
    problem = posterior.problem
    if problem is None:
        raise ValueError("at must be given: this posterior does not carry its data")
    if kind_of(posterior, j) is not Kind.CONTINUOUS:
        return float(_ranked(posterior, j)[0])
    if problem.scaling is not None:
        return float(problem.scaling.centre[j])
    free = ~problem.data.intervened[:, j]
    return float(problem.data.values[free if free.any() else slice(None), j].mean())


def _ranked(posterior: Posterior, j: int) -> Float[np.ndarray, " k"]:
    """The values of a discrete variable or a count, the most frequent first."""
    assert posterior.problem is not None
    data = posterior.problem.data
    free = ~data.intervened[:, j]
    found, count = np.unique(
        data.values[free if free.any() else slice(None), j], return_counts=True
    )
    return found[np.argsort(-count, kind="stable")]


def next_value(posterior: Posterior, j: int, at: float) -> float:
    """The value to which a discrete cause goes by default.

    The next level of an ordinal one (the one before, from the last), and else the most frequent of
    the others.
    """
    last = len(levels_of(posterior, j)) - 1
    if kind_of(posterior, j) is Kind.ORDINAL:
        return at + 1 if at < last else at - 1
    others = [float(value) for value in _ranked(posterior, j) if value != at]
    return others[0] if others else float(at != last) * last


def usual_outcome(posterior: Posterior, j: int) -> int:
    """The level of a discrete effect that is meant by default.

    The last one of a binary or ordinal variable, the most frequent one of a categorical variable.
    """
    if kind_of(posterior, j) is Kind.CATEGORICAL:
        return int(_ranked(posterior, j)[0])
    return len(levels_of(posterior, j)) - 1
