"""Checks of the arguments of effect queries, with all their error messages."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from svidag.data.columns import closest, show
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


def fixed_values(names: tuple[str, ...], values: Mapping[Any, Any]) -> Float[np.ndarray, " m"]:
    """The values by column, NaN elsewhere."""
    fixed = np.full(len(names), np.nan)
    for name, value in values.items():
        fixed[index(names, name, "a variable in do")] = number(value, f"do of {show(name)}")
    return fixed


def held_values(names: tuple[str, ...], holding: Any, cause: str, effect: str) -> dict[str, float]:
    """Variables held meanwhile, neither the cause nor the effect, and their values."""
    if not isinstance(holding, Mapping):
        raise ValueError(f"holding must map variables to values; got {show(holding)}")
    for role, name in (("cause", cause), ("effect", effect)):
        if name in holding:
            raise ValueError(f"holding fixes {show(name)}, which is the {role}")
    for name in holding:
        index(names, name, "a variable in holding")
    return {name: number(value, f"holding {show(name)}") for name, value in holding.items()}


def require_evidence(posterior: Posterior, y: int) -> None:
    """Refuse an effect whose own equation no row of the table says anything about."""
    if posterior.problem is not None and posterior.problem.data.intervened[:, y].all():
        raise ValueError(
            f"effect {show(posterior.names[y])} was set from outside in every row, so that the "
            "data say nothing about what moves it"
        )


def usual_value(posterior: Posterior, j: int) -> float:
    """The mean of a variable over the rows where it was not set from outside."""
    problem = posterior.problem
    if problem is None:
        raise ValueError("at must be given: this posterior does not carry its data")
    if problem.scaling is not None:
        return float(problem.scaling.centre[j])
    free = ~problem.data.intervened[:, j]
    return float(problem.data.values[free if free.any() else slice(None), j].mean())
