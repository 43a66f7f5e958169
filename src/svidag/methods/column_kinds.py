"""Which mechanism the kinds of columns ask for, and which kinds a mechanism accepts."""

from __future__ import annotations

from svidag.data import Dataset
from svidag.data.columns import listing, show
from svidag.methods.base import Method

DISCRETE, MIXED = "discrete", "mixed"
"""Mechanisms of tables with discrete columns only, and of any others."""


def mechanism_for_table(
    method: Method, mechanism: str, data: Dataset, able: str = ""
) -> tuple[str, Dataset]:
    """The mechanism for a table, and the table as that mechanism reads it.

    A mechanism for numbers that was asked for by name reads codes as the numbers they are. What is
    left open is chosen by the kinds of the columns; `able` says which methods know them all.

    Examples
    --------
    >>> import pandas as pd
    >>> from svidag.methods import METHODS
    >>> table = Dataset.from_any(pd.DataFrame({"a": [0, 1] * 20, "b": ["x", "y", "y", "x"] * 10}))
    >>> mechanism_for_table(METHODS["exact"], "auto", table)[0]
    'discrete'
    """
    if mechanism == MIXED:
        return mechanism, data
    if mechanism == DISCRETE:
        numbers = [name for name, one in zip(data.names, data.discrete, strict=True) if not one]
        if numbers:
            raise ValueError(
                f"mechanism 'discrete' is for discrete columns, and column {show(numbers[0])} is "
                f"{data.kinds[data.names.index(numbers[0])]}; leave mechanism='auto', or say "
                "what it is by kinds="
            )
        return mechanism, data
    if mechanism != "auto":
        return mechanism, data.numeric(f"mechanism {mechanism!r}")
    unknown = [j for j, kind in enumerate(data.kinds) if kind not in method.support.kinds]
    if unknown:
        first = unknown[0]
        named = listing([data.names[j] for j in unknown])
        raise ValueError(
            f"method {method.name!r} is for continuous columns, and {named} "
            f"{'is' if len(unknown) == 1 else 'are'} not: column {show(data.names[first])} is "
            f"{data.kinds[first]}{able}; kinds={{{show(data.names[first])}: 'continuous'}} "
            "would treat its numbers as measurements"
        )
    return mechanism_for_kinds(data), data


def mechanism_for_kinds(data: Dataset) -> str:
    """What ``"auto"`` means for the kinds of a table.

    Examples
    --------
    >>> import pandas as pd
    >>> mechanism_for_kinds(Dataset.from_any(pd.DataFrame({"a": [0.5, 1.5], "b": [1.0, 2.0]})))
    'auto'
    """
    if data.continuous.all():
        return "auto"
    return DISCRETE if data.discrete.all() else MIXED
