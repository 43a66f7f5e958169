"""One door to every method: `svidag.fit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from numbers import Integral
from types import MappingProxyType
from typing import Any

from svidag.posterior import Posterior
from svidag.posterior.structure_weights import structure_weighted
from svidag.prior import Prior
from svidag.problem import Problem, checkpoint_path
from svidag.run.deadline import Deadline

__all__ = ["METHODS", "fit"]


METHODS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "svi-dag": MappingProxyType(
            {"default": "svidag.methods.default", "paper": "svidag.methods.published"}
        )
    }
)
"""The module of every method and preset, by name; it is imported when it is used.

A module has ``fit(problem, **choices)``, which gives a posterior, and ``check(**choices)``, which
raises what is wrong with choices before there are data.
"""

WEIGHTS = ("order", "structure")
"""Ways to weigh graphs."""


def fit(
    data: Any,
    *,
    prior: Prior | None = None,
    mechanism: str = "auto",
    preset: str = "default",
    interventions: Any = None,
    standardise: bool = True,
    graph_weights: str = "order",
    seed: int = 0,
    progress: Any = None,
    checkpoint: Any = None,
    minutes: float | None = None,
    method: str = "svi-dag",
    **settings: Any,
) -> Posterior:
    """Find the posterior over causal graphs.

    Parameters
    ----------
    data
        DataFrame, 2-d array, `Dataset`, or the path of a CSV, TSV or Parquet file.
    prior
        Beliefs and hard knowledge; by default one expected parent per variable.
    mechanism
        How effects follow from causes: ``"linear"`` or ``"nonlinear"`` for the default preset,
        ``"mlp"`` for the published one. ``"auto"`` lets the default preset decide by evidence; the
        diagnostics say what it chose and by how much.
    preset
        ``"default"``: exact conditionals given an order, Metropolis moves over orders.
        ``"paper"``: Algorithm 1 as published.
    interventions
        Boolean frame or array [N, m] of entries set from outside, or the name of the column that
        names each row's target. Such an entry is no evidence about its own causes.
    standardise
        Centre and scale each column by its entries that were not set from outside.
    graph_weights
        ``"order"``: uniform over orders, the model of the paper. ``"structure"``: each graph counts
        once; draws are reweighted, and the diagnostics give the effective sample size.
    seed
        The same seed gives the same result, whatever the chunk size or interruptions.
    progress
        None shows a bar on a terminal and plain lines elsewhere; False shows nothing.
    checkpoint
        A file to save to and, if it exists, to resume from, to the same result.
    minutes
        When this time is over, the fit ends with what it has found; the diagnostics and the verdict
        of the report say what was cut short. By default there is no limit.
    method
        The algorithm; ``"svi-dag"``.
    settings
        Of the preset; unknown ones are errors. For instance ``chains`` (default preset) or
        ``iterations`` (published preset).

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=5, edges=5, n=300, seed=1)
    >>> posterior = svidag.fit(example.data, mechanism="linear", progress=False)
    >>> posterior.edge_probabilities().shape
    (5, 5)
    """
    module = _module(method, preset, graph_weights)
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0 on; got {seed!r}")
    problem = Problem.build(data, prior=prior, interventions=interventions, standardise=standardise)
    posterior = module.fit(
        problem,
        mechanism=mechanism,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint_path(checkpoint),
        deadline=Deadline(minutes),
        **settings,
    )
    return posterior if graph_weights == "order" else structure_weighted(posterior, seed)


def check(
    *,
    preset: str = "default",
    method: str = "svi-dag",
    graph_weights: str = "order",
    standardise: bool = True,
    **choices: Any,
) -> None:
    """Raise what `fit` would say of its choices, without data.

    Examples
    --------
    >>> check(preset="paper", iterations=0)
    Traceback (most recent call last):
        ...
    ValueError: iterations must be a positive whole number; got 0
    """
    if not isinstance(standardise, bool):
        raise ValueError(f"standardise must be true or false; got {standardise!r}")
    _module(method, preset, graph_weights).check(**choices)


def _module(method: str, preset: str, graph_weights: str) -> Any:
    presets = METHODS[_known(METHODS, "method", method)]
    _known(WEIGHTS, "graph_weights", graph_weights)
    return import_module(presets[_known(presets, "preset", preset)])


def _known(names: Iterable[str], argument: str, name: str) -> str:
    if name not in names:
        raise ValueError(f"{argument} must be one of {sorted(names)}; got {name!r}")
    return name
