"""Mechanisms of a problem with their parameters integrated out, environments included.

Where rows come from several environments, contrasts between these stand beside the variables as
further columns, and the evidence is averaged over what an environment may change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from svidag.data import Dataset
from svidag.mechanisms.environments import SIZES, EnvironmentScores
from svidag.mechanisms.flexible import LOCATIONS, FlexibleMechanism
from svidag.mechanisms.linear import STANDARDISED_SCALE, LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.problem import Problem

FLEXIBLE_UNITS = 64
"""Hidden units of flexible mechanisms at most."""


@dataclass(frozen=True, eq=False)
class MechanismBuilder:
    """Mechanisms of one problem.

    Attributes
    ----------
    problem
        The table, and the environments of its rows.
    seed
        The seed of hidden units.
    weight
        How many times every row counts.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> build = MechanismBuilder(Problem.build(example.data, prior=None, standardise=True), 0)
    >>> type(build.linear()).__name__, type(build.flexible(8)).__name__
    ('LinearGaussian', 'FlexibleMechanism')
    """

    problem: Problem
    seed: int
    weight: float = 1.0

    def few_rows(self, most: int) -> MechanismBuilder:
        """The same for so many rows at most, spread over the table.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
        >>> build = MechanismBuilder(Problem.build(example.data, prior=None, standardise=True), 0)
        >>> build.few_rows(40).problem.data.n_rows, build.few_rows(200) is build
        (34, True)
        """
        problem, n = self.problem, self.problem.data.n_rows
        if n <= most:
            return self
        rows = np.arange(0, n, -(-n // most))
        data, environments = problem.data, problem.environments
        part = dataclasses.replace(data, values=data.values[rows], intervened=data.intervened[rows])
        few = dataclasses.replace(
            problem,
            data=part,
            environments=None if environments is None else environments.rows(rows),
        )
        return dataclasses.replace(self, problem=few)

    def linear(self) -> LinearGaussian | EnvironmentScores:
        """Linear mechanisms with Gaussian noise (BGe)."""
        _, values, intervened = self._columns()
        base = self._bge(values, intervened)
        environments = self.problem.environments
        if environments is None:
            return base
        m, labels = self.problem.data.m, environments.labels
        parts = (
            self._bge(values[labels == e, :m], intervened[labels == e, :m])
            for e in range(len(environments.levels))
        )
        return self._changing(base, tuple(parts))

    def network(self, units: int) -> WideNetwork | EnvironmentScores:
        """Wide networks with Gaussian noise."""
        names, values, intervened = self._columns()
        return self._changing(
            WideNetwork.from_values(
                values, names, intervened, units=units, seed=self.seed, weight=self.weight
            )
        )

    def flexible(self, units: int = FLEXIBLE_UNITS) -> FlexibleMechanism | EnvironmentScores:
        """Flexible mechanisms, of which no more hidden units than `FLEXIBLE_UNITS` are used."""
        names, values, intervened = self._columns()
        return self._changing(
            FlexibleMechanism.from_values(
                values,
                names,
                intervened,
                units=max(1, min(units, FLEXIBLE_UNITS)),
                seed=self.seed,
                weight=self.weight,
                prior_scale=self.prior_scale,
                locations=LOCATIONS if units else LOCATIONS[:1],
            )
        )

    def of_kinds(self, make: Callable[[Dataset], Any]) -> Any:
        """Mechanisms of a table with discrete columns; the environment is one more of them."""
        data, environments = self.problem.data, self.problem.environments
        if environments is None:
            return make(data)
        numbers = np.arange(float(len(environments.levels)))[:, None]
        return EnvironmentScores(make(environments.beside(data)), numbers, self._shares())

    def _bge(self, values: np.ndarray, intervened: np.ndarray) -> LinearGaussian:
        return LinearGaussian.from_values(
            values, intervened, prior_scale=self.prior_scale, weight=self.weight
        )

    @property
    def prior_scale(self) -> float | None:
        """The prior scale of BGe; None for its default, in the units of the table."""
        return None if self.problem.scaling is None else STANDARDISED_SCALE

    def _columns(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Names, values and mask of the variables, and of contrasts between environments."""
        data, environments = self.problem.data, self.problem.environments
        if environments is None:
            return data.names, data.values, data.intervened
        contrasts = environments.contrasts()[1]
        names = tuple(f"contrast {k}\0" for k in range(contrasts.shape[1]))
        free = np.zeros(contrasts.shape, dtype=bool)
        return (
            (*data.names, *names),
            np.column_stack([data.values, contrasts]),
            np.column_stack([data.intervened, free]),
        )

    def _changing(self, base: Any, parts: tuple[LinearGaussian, ...] = ()) -> Any:
        """The mechanism itself, or averaged over what environments may change."""
        environments = self.problem.environments
        if environments is None:
            return base
        _, values, intervened = self._columns()
        m, sizes = self.problem.data.m, []
        for size in SIZES:
            scaled = np.column_stack([values[:, :m], size * values[:, m:]])
            sizes.append(self._bge(scaled, intervened))
        contrasts = environments.contrasts()[0]
        return EnvironmentScores(base, contrasts, self._shares(), tuple(sizes), parts)

    def _shares(self) -> np.ndarray:
        """The share of rows in each environment."""
        assert self.problem.environments is not None
        labels = self.problem.environments.labels
        return np.bincount(labels) / len(labels)
