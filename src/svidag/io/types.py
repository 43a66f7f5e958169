"""The types whose objects can be stored, by the name they have in files.

A name never changes; the class behind it may move. A class is imported when it is met. Its parts
are its fields, or what its ``parts()`` gives, and it is built again from them by its constructor,
or its ``from_parts(parts)``.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jaxtyping
import numpy as np

from svidag import __version__

TYPES: Mapping[str, str] = types.MappingProxyType(
    {
        "posterior": "svidag.posterior.posterior:Posterior",
        "problem": "svidag.problem:Problem",
        "dataset": "svidag.data.dataset:Dataset",
        "scaling": "svidag.data.scaling:Scaling",
        "finding": "svidag.data.audit:Finding",
        "missing cells": "svidag.data.imputation:MissingCells",
        "environments": "svidag.data.environments:Environments",
        "edge prior": "svidag.prior.edges:EdgePrior",
        # Distributions over graphs.
        "graphs": "svidag.posterior.distributions:DrawnGraphs",
        "graphs by magnitude": "svidag.posterior.distributions:MagnitudeGraphs",
        "exact orders": "svidag.exact.orders:ExactOrders",
        "exact structures": "svidag.exact.structures:ExactStructures",
        "orders": "svidag.samplers.sampled_graphs:SampledOrders",
        "visited graphs": "svidag.samplers.sampled_graphs:VisitedGraphs",
        "guide": "svidag.variational.particle_posterior:GuideGraphs",
        "sorted graphs": "svidag.variational.dds_posterior:SortedGraphs",
        "mixture": "svidag.posterior.mixture:MixtureGraphs",
        # Distributions over parameters.
        "linear": "svidag.mechanisms.linear_parameters:LinearParameters",
        "wide": "svidag.mechanisms.wide_parameters:WideParameters",
        "flexible": "svidag.mechanisms.flexible_parameters:FlexibleParameters",
        "discrete": "svidag.mechanisms.discrete_parameters:DiscreteParameters",
        "mixed": "svidag.mechanisms.mixed_parameters:MixedParameters",
        "environment parameters": "svidag.mechanisms.environment_parameters:EnvironmentParameters",
        "networks": "svidag.variational.particle_posterior:NetworkParameters",
        "mixture parameters": "svidag.posterior.mixture:MixtureParameters",
        # What these are made of.
        "parent weights": "svidag.exact.orders:ParentWeights",
        "layer states": "svidag.exact.structures:States",
        "score tables": "svidag.scores.tables:ScoreTables",
        "linear model": "svidag.mechanisms.linear:LinearGaussian",
        "wide model": "svidag.mechanisms.wide:WideNetwork",
        "flexible model": "svidag.mechanisms.flexible:FlexibleMechanism",
        "screened flexible model": "svidag.mechanisms.flexible_screen:ScreenedFlexible",
        "gaussian blocks": "svidag.mechanisms.gaussian_blocks:GaussianBlocks",
        "environment model": "svidag.mechanisms.environments:EnvironmentScores",
        "discrete model": "svidag.mechanisms.discrete:DiscreteTables",
        "mixed model": "svidag.mechanisms.mixed:MixedMechanism",
        "order-averaged model": "svidag.mechanisms.order_averaged:OrderAveraged",
        "screened mixed model": "svidag.mechanisms.mixed_screen:ScreenedMixed",
        "jax edge prior": "svidag.prior.jax_edges:JaxEdgePrior",
        "network pair": "svidag.variational.particle_bound:Networks",
        "gaussian orders": "svidag.variational.order_guide:GaussianOrders",
        "mlp": "svidag.mechanisms.mlp:MLPMechanism",
        "bernoulli guide": "svidag.variational.guide:BernoulliGuide",
        "mean-field guide": "svidag.variational.guide:MeanFieldGuide",
        "flow guide": "svidag.variational.guide:FlowGuide",
        # Diagnostics.
        "diagnostics": "svidag.posterior.diagnostics:Diagnostics",
        "reason": "svidag.posterior.diagnostics:Reason",
        "structure weights": "svidag.posterior.diagnostics:StructureWeights",
        "sensitivity": "svidag.posterior.sensitivity:Sensitivity",
        "fit check": "svidag.posterior.fit_check:FitCheck",
        "mixture diagnostics": "svidag.posterior.mixture:MixtureDetails",
        "search diagnostics": "svidag.methods.search_diagnostics:SearchDiagnostics",
        "guide diagnostics": "svidag.methods.svi_dag_chains:GuideDiagnostics",
        "gradient diagnostics": "svidag.methods.gradient_diagnostics:GradientDiagnostics",
        "dibs diagnostics": "svidag.methods.dibs:DiBSDiagnostics",
        "bayesdag diagnostics": "svidag.methods.bayesdag:BayesDAGDiagnostics",
        "dds diagnostics": "svidag.methods.dds:DDSDiagnostics",
        "bcd-nets diagnostics": "svidag.methods.bcd_nets:BCDDiagnostics",
        "prodag diagnostics": "svidag.methods.prodag:ProDAGDiagnostics",
        # Unfinished fits.
        "loop state": "svidag.run.loop:ResumeState",
        "half": "svidag.search.growth:Half",
        "round": "svidag.search.growth:Round",
        "parent sets": "svidag.scores.parent_sets:ParentSets",
        "parent set tables": "svidag.search.parent_set_tables:ParentSetTables",
        "order chains": "svidag.samplers.order_chains:OrderChains",
        "node state": "svidag.variational.node_inference:NodeResumeState",
        "sampled rounds": "svidag.variational.node_inference:SampledRounds",
        "estimated chains": "svidag.variational.pseudo_marginal:EstimatedChains",
    }
)
"""Where each class is, by the name of its type."""

_NAMES = {place: name for name, place in TYPES.items()}


def name_of(value: Any) -> str | None:
    """The name of an object's type; None where it has none."""
    return _NAMES.get(f"{type(value).__module__}:{type(value).__qualname__}")


def parts_of(value: Any) -> dict[str, Any]:
    """What an object is made of.

    Examples
    --------
    >>> from svidag.data import Finding
    >>> parts_of(Finding("skew", ("a",), "column 'a' is skewed"))["columns"]
    ('a',)
    """
    if hasattr(value, "from_parts"):
        return value.parts()
    return {name: getattr(value, name) for name in _fields(type(value))}


def build(name: str, parts: Mapping[str, Any]) -> Any:
    """The object of these parts; arrays must have the shapes that its class states.

    Examples
    --------
    >>> import numpy as np
    >>> build("scaling", {"centre": np.zeros(2), "scale": np.ones(3)})
    Traceback (most recent call last):
        ...
    ValueError: scale of 'scaling' has the shape (3,) and the type float64; expected ...
    """
    if name not in TYPES:
        raise ValueError(f"the type {name!r} is unknown to svidag {__version__}")
    module, _, attribute = TYPES[name].partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    if hasattr(cls, "from_parts"):
        return cls.from_parts(parts)
    if parts.keys() != set(_fields(cls)):
        raise ValueError(f"a {name!r} has the parts {sorted(parts)}; expected {_fields(cls)}")
    hints = _hints(cls)
    fitted = {part: _converted(value, hints[part]) for part, value in parts.items()}
    # Here and not in a function of its own, so that all parts share the sizes of their axes.
    with jaxtyping.jaxtyped("context"):
        for part, value in fitted.items():
            for array, options in _arrays(value, hints[part]):
                if not any(isinstance(array, option) for option in options):
                    wanted = " or ".join(map(_words, options))
                    raise ValueError(
                        f"{part} of {name!r} has the shape {array.shape} and the type "
                        f"{array.dtype}; expected {wanted}"
                    )
    if inspect.signature(cls).parameters.keys() == parts.keys():
        return cls(**fitted)
    made = object.__new__(cls)  # a module whose constructor draws what is here already
    for part, value in fitted.items():
        object.__setattr__(made, part, value)
    return made


def _fields(cls: type) -> list[str]:
    if issubclass(cls, tuple):
        return list(cls._fields)  # type: ignore[attr-defined]
    return [field.name for field in dataclasses.fields(cls)]


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _converted(value: Any, hint: Any) -> Any:
    """The value with arrays for JAX, and members of enumerations, where its annotation asks."""
    for option in _options(hint):
        if isinstance(option, type) and issubclass(option, enum.Enum):
            return option(value)
    if isinstance(value, tuple) and type(value) is tuple:
        members = [option for option in _options(hint) if typing.get_origin(option) is tuple]
        inner = typing.get_args(members[0])[:1] if members else ()
        return tuple(_converted(member, inner[0]) for member in value) if inner else value
    arrays = [option for option in _options(hint) if _is_array_type(option)]
    if not hasattr(value, "dtype") or all(option.array_type is np.ndarray for option in arrays):
        return value
    import jax  # only results of gradient methods need it

    return jax.numpy.asarray(value)


def _arrays(value: Any, hint: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The arrays of a part, each with what it may be."""
    options = [option for option in _options(hint) if _is_array_type(option)]
    if options and hasattr(value, "dtype"):
        yield value, options
    for option in _options(hint):
        if typing.get_origin(option) is tuple and isinstance(value, tuple):
            for member in value:
                yield from _arrays(member, typing.get_args(option)[0])


def _words(hint: Any) -> str:
    return f"{hint.dtype.__name__}[{hint.array_type.__name__}, {hint.dim_str!r}]"


def _options(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _is_array_type(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
