"""One cell of a study: a data set, a method, a prior and a replicate; its row when computed."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from svidag import __version__
from svidag.bench.clock import Clock
from svidag.bench.measures import MEASURES, Measure, Outcome
from svidag.bench.methods import method
from svidag.bench.registry import find
from svidag.bench.sources import SOURCES
from svidag.datasets import content_seed
from svidag.prior import Prior
from svidag.run import cores

LIBRARIES = ("jax", "numpy", "scipy", "numba", "equinox", "flowjax")


@dataclass(frozen=True)
class Cell:
    """The content that determines a row, and labels that do not.

    Attributes
    ----------
    data, method, prior
        Data source, method and prior with their options, as in the study file.
    replicate
        Number of the repetition; another one has another data set.
    draws
        Graphs drawn from the posterior.
    measures, levels
        What is computed from them, and on which graphs: ``"dag"``, ``"cpdag"``.
    labels
        What the study calls its parts and which options it varies.

    Examples
    --------
    >>> cell = Cell(
    ...     data={"source": "synthetic", "m": 4, "edges": 3, "n": 50},
    ...     method={"method": "exact"},
    ... )
    >>> row = compute(cell)
    >>> row["digest"] == cell.digest, sorted(row["metrics"])
    (True, ['scores'])
    """

    data: Mapping[str, Any]
    method: Mapping[str, Any]
    prior: Mapping[str, Any] = field(default_factory=dict)
    replicate: int = 0
    draws: int = 1000
    measures: tuple[str, ...] = ("scores",)
    levels: tuple[str, ...] = ("dag", "cpdag")
    labels: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def content(self) -> dict[str, Any]:
        """Everything that the row depends on."""
        return self._problem | {
            "draws": self.draws,
            "measures": list(self.measures),
            "levels": list(self.levels),
        }

    @property
    def _problem(self) -> dict[str, Any]:
        """What the fit depends on."""
        return {
            "data": dict(self.data),
            "method": dict(self.method),
            "prior": dict(self.prior),
            "replicate": self.replicate,
        }

    @property
    def digest(self) -> str:
        """The name of the row: sixteen hexadecimal digits of the content's SHA-256."""
        return hashlib.sha256(_canonical(self.content).encode()).hexdigest()[:16]

    @property
    def data_seed(self) -> int:
        """Seed of the data set; it depends on the data's options and the replicate alone.

        So all methods of a study see the same data. An option ``seed`` of the data is a text in
        which ``{n}`` and the like stand for options, to name data sets made elsewhere.
        """
        options = {name: value for name, value in self.data.items() if name != "seed"}
        pattern = self.data.get("seed")
        if pattern is None:
            return content_seed(f"{_canonical(options)}|replicate={self.replicate}")
        return content_seed(pattern.format(**options, replicate=self.replicate))

    @property
    def seed(self) -> int:
        """Seed of the fit and its draws."""
        return content_seed(_canonical(self._problem)) % 2**31

    @property
    def name(self) -> str:
        """The name in lists and progress; ``--only`` matches against it."""
        shown = [v if k in PARTS else f"{k}={v}" for k, v in self.labels.items()]
        return " ".join([*map(str, shown), f"#{self.replicate}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `from_dict`."""
        return self.content | {"labels": dict(self.labels)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Cell:
        """Build from what `to_dict` gave, perhaps by way of JSON."""
        lists = {name: tuple(content[name]) for name in ("measures", "levels")}
        return cls(**{**content, **lists})


PARTS = ("data", "method", "prior")
"""The parts of a cell that a study names."""


def compute(cell: Cell) -> dict[str, Any]:
    """Make the data, fit, draw and score: the row of a cell, ready for JSON."""
    clock = Clock()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with clock.part("data"):
            example = _example(cell)
        run = method(cell.method["method"])  # imports what it needs, which is no part of the fit
        options = {k: v for k, v in cell.method.items() if k != "method"}
        prior = Prior.from_dict(cell.prior)
        with clock.compiling(), clock.part("fit"):
            posterior = run(example, prior=prior, seed=cell.seed, **options)
        with clock.part("draw"):
            draws = posterior.sample(cell.draws, seed=cell.seed)
        outcome = Outcome(example, posterior, draws, cell.levels, prior, cell.seed)
        with clock.part("score"):
            metrics = {name: measure(name).score(outcome) for name in cell.measures}
    facts = {} if posterior.diagnostics is None else posterior.diagnostics.scalars()
    # A method that measures its own compiling counts tracing too.
    clock.seconds["compile"] = float(facts.get("compile_seconds", clock.seconds["compile"]))
    clock.seconds["run"] = clock.seconds["fit"] - clock.seconds["compile"]
    return plain(
        {
            "digest": cell.digest,
            "cell": cell.content,
            "metrics": metrics,
            "seconds": clock.seconds,
            "diagnostics": facts,
            "warnings": sorted({f"{w.category.__name__}: {w.message}"[:200] for w in caught})[:5],
            "versions": versions(),
            "cores": cores.usable(),
        }
    )


def measure(name: str) -> Measure:
    """A registered measure; a bare function counts as one whose records are averaged."""
    found = find(MEASURES, "measure", name)
    return found if isinstance(found, Measure) else Measure(found)


def versions() -> dict[str, str]:
    """What computed the row."""
    return {
        "svidag": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "machine": f"{sys.platform} {platform.machine()}",
    }


def plain(value: Any) -> Any:
    """Turn arrays into lists, NumPy numbers into Python's, and NaN into None.

    Examples
    --------
    >>> plain({"a": np.float64("nan"), "b": np.arange(2)})
    {'a': None, 'b': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _example(cell: Cell) -> Any:
    options = {k: v for k, v in cell.data.items() if k not in ("source", "seed")}
    source = find(SOURCES, "data source", cell.data["source"])
    return source(**options, seed=cell.data_seed, replicate=cell.replicate)


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
