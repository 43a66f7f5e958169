"""Which mechanism the kinds of columns ask for, and which kinds a mechanism accepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from svidag.data import Dataset, Kind
from svidag.data.columns import listing, show
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.mixed import MixedMechanism
from svidag.methods.base import Method

DISCRETE, MIXED = "discrete", "mixed"
"""Mechanisms of tables with discrete columns only, and of any others."""

MORE = 2.0
"""Regressions replace tables of probabilities where they gain so many times as much."""
LEAST_GAIN = 3.0
"""And so much log evidence at least."""
MOST_COLUMNS, MOST_ROWS, LEAST_ROWS = 20, 2000, 20
"""Of a table for that comparison: columns and complete rows, evenly spread."""


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
    found = mechanism_for_kinds(data)
    if found == DISCRETE and "auto" in method.support.mechanisms and order_of_levels_counts(data):
        found = MIXED
    return found, data


def mechanism_for_kinds(data: Dataset) -> str:
    """What the kinds of a table ask for where nothing else is said.

    Examples
    --------
    >>> import pandas as pd
    >>> mechanism_for_kinds(Dataset.from_any(pd.DataFrame({"a": [0.5, 1.5], "b": [1.0, 2.0]})))
    'auto'
    """
    if data.continuous.all():
        return "auto"
    return DISCRETE if data.discrete.all() else MIXED


def order_of_levels_counts(data: Dataset) -> bool:
    """Whether regressions, which know that codes are ordered, explain them far better than tables.

    A table of probabilities has a number for each pair of levels. With many levels and few rows
    these cost more evidence than any dependence gains, and no arrow is found at all. Compared are
    the gains of log evidence by the best single cause of each column, Σ_j max_i log p(x_j | x_i) −
    log p(x_j), by each mechanism against its own p(x_j).

    Examples
    --------
    >>> import pandas as pd
    >>> x = np.random.default_rng(0).normal(size=(150, 2)) @ np.array([[1.3, 1.0], [0.0, 1.0]])
    >>> order_of_levels_counts(Dataset.from_any(pd.DataFrame(x.round().astype(int))))
    True
    """
    ordered = [kind is Kind.ORDINAL for kind in data.kinds]
    if data.m < 2 or not any(ordered):
        return False
    kept = np.linspace(0, data.m - 1, min(data.m, MOST_COLUMNS)).astype(int).tolist()
    table = data.columns(kept)
    rows = np.flatnonzero(~np.isnan(table.values).any(axis=1))
    rows = rows[:: max(1, -(-len(rows) // MOST_ROWS))]
    if len(rows) < LEAST_ROWS or np.any(np.ptp(table.values[rows], axis=0) == 0):
        return False
    table = replace(table, values=table.values[rows], intervened=table.intervened[rows])
    tabulated = _gain_of_single_causes(DiscreteTables.of(table), table.m)
    regressed = _gain_of_single_causes(MixedMechanism(table), table.m)
    return regressed > MORE * tabulated + LEAST_GAIN


def _gain_of_single_causes(scores: FamilyScores, m: int) -> float:
    nodes = np.arange(m)
    alone = scores.family_scores(nodes, np.zeros((m, m), dtype=bool))
    effect, cause = np.nonzero(~np.eye(m, dtype=bool))
    given = scores.family_scores(effect, np.eye(m, dtype=bool)[cause]).reshape(m, m - 1)
    return float(np.maximum(given.max(axis=1) - alone, 0.0).sum())
