"""Bayesian causal discovery: a table and what you believe in, a posterior over graphs out.

One convention holds everywhere: ``A[i, j] = 1`` means i → j.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svidag import datasets, exact, export, io, methods, metrics
    from svidag.data import Dataset, DataWarning
    from svidag.effects import ExtrapolationWarning
    from svidag.estimator import SVIDAG
    from svidag.io import load
    from svidag.methods import fit
    from svidag.posterior import Posterior
    from svidag.posterior.comparison import compare
    from svidag.prior import Prior
    from svidag.run.loop import FitError
    from svidag.run.warnings import FitWarning

__version__ = "0.1.0.dev0"
__all__ = [
    "SVIDAG",
    "DataWarning",
    "Dataset",
    "ExtrapolationWarning",
    "FitError",
    "FitWarning",
    "Posterior",
    "Prior",
    "compare",
    "datasets",
    "exact",
    "export",
    "fit",
    "io",
    "load",
    "methods",
    "metrics",
]

# The module of each public name. It is imported on first use: JAX and pandas take seconds, and a
# program that only reads a posterior should not have to import what fits one.
_HOMES = {
    "SVIDAG": "svidag.estimator",
    "DataWarning": "svidag.data",
    "Dataset": "svidag.data",
    "ExtrapolationWarning": "svidag.effects",
    "FitError": "svidag.run.loop",
    "FitWarning": "svidag.run.warnings",
    "Posterior": "svidag.posterior",
    "Prior": "svidag.prior",
    "compare": "svidag.posterior.comparison",
    "fit": "svidag.methods",
    "load": "svidag.io",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"svidag.{name}")
    raise AttributeError(f"module 'svidag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
