"""What every method is given: data that passed their audit, and beliefs bound to their columns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from svidag import __version__
from svidag.data import Dataset, Finding, Scaling
from svidag.data.environments import Environments
from svidag.data.imputation import MissingCells, impute
from svidag.prior import EdgePrior, Prior
from svidag.run.streams import Stream, generator


@dataclass(frozen=True, eq=False)
class Problem:
    """A data set that passed its audit, in the scale of the fit, with beliefs by column.

    Where cells are missing, the data are the first of the completed tables.
    """

    data: Dataset
    scaling: Scaling | None
    prior: EdgePrior
    findings: tuple[Finding, ...]
    original_checksum: str
    missing: MissingCells | None = None
    environments: Environments | None = None

    @classmethod
    def build(
        cls,
        data: Any,
        *,
        prior: Any,
        standardise: bool,
        tables: int = 0,
        seed: int = 0,
        notes: tuple[Finding, ...] = (),
        environments: Environments | None = None,
    ) -> Problem:
        """Read, audit, bind and standardise; errors about the input come from here.

        Missing cells are drawn for so many `tables`; with none they are an error. `notes` are
        findings that nobody needs to be warned of.
        """
        if prior is not None and not isinstance(prior, Prior):
            raise ValueError(
                f"prior must be a svidag.Prior; got {type(prior).__name__}. Prior(...) states "
                "beliefs, Prior.from_file reads a knowledge file, Prior.from_dict a dictionary"
            )
        dataset = Dataset.from_any(data)
        checksum, missing = dataset.checksum, None
        if tables and np.isnan(dataset.values).any():
            rng = generator(seed, Stream.MISSING_CELLS)
            dataset, missing = impute(dataset, tables, rng, environments)
        findings = dataset.audit()
        edges = (Prior() if prior is None else prior).bind(dataset.names)
        scaling = None
        if standardise:
            dataset, scaling = dataset.standardise()
        return cls(dataset, scaling, edges, (*notes, *findings), checksum, missing, environments)

    @property
    def values(self) -> np.ndarray:
        """The table in its own units."""
        values = self.data.values
        return values if self.scaling is None else self.scaling.invert(values)

    def fingerprint(self, **choices: Any) -> dict[str, Any]:
        """All that a result depends on, as text and numbers: the identity of a run."""
        beliefs = np.stack([self.prior.alpha, self.prior.beta])
        knowledge = np.stack([self.prior.allowed, self.prior.required])
        return {
            "svidag": __version__,
            "data": self.original_checksum,
            "standardised": self.scaling is not None,
            "prior": _digest(beliefs.tobytes() + knowledge.tobytes()),
            **{name: _plain(value) for name, value in choices.items()},
        }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _digest(value.tobytes())
    return value if isinstance(value, bool | int | float | str | None) else repr(value)
