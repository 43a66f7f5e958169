"""`preset="default"`: mechanisms integrated out, exact conditionals given an order, moving orders.

Parents given an order come from tables of parent sets (``edges="table"``) or, where tables do not
fit, from a guide per node that needs none (``"flow"``, ``"mean-field"``).
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

from svidag.inference.cautions import FallbackWarning, SettingWarning
from svidag.inference.chains import Schedule
from svidag.inference.guided import Settings
from svidag.inference.progress import meter
from svidag.inference.savepoint import Savepoint, resumable
from svidag.inference.tabulated import TableSettings
from svidag.mechanisms.collapsed import parameter_law
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.wide import WideNetwork
from svidag.methods import guided, tabulated
from svidag.methods.choice import Choice, choose
from svidag.methods.stages import Stages
from svidag.methods.task import Found, Task
from svidag.posterior import Posterior
from svidag.problem import Problem
from svidag.scores import TableSizeError

MECHANISMS = ("linear", "nonlinear")
EDGES = ("auto", "table", "flow", "mean-field")

NETWORKS = MappingProxyType({"units": 200, "sketch_units": 32})
"""Units of a nonlinear mechanism and of the sketch of it, unless they are given."""

USUAL: Mapping[str, Any] = MappingProxyType(
    {f.name: f.default for kind in (Schedule, TableSettings, Settings) for f in fields(kind)}
    | NETWORKS
)
"""Every setting as it is unless it is given; figures of when to end are not among them."""

KINDS = MappingProxyType(
    {
        int: (Integral, "a whole number"),
        float: (Real, "a number"),
        str: (str, "text"),
        tuple: (Sequence, "a list of numbers"),
    }
)
"""What a setting may be, by the type of its usual value, and what that is called."""

SKETCH_FROM = 300
"""Rows from which a sketch with fewer units pays for itself."""


def fit(
    problem: Problem,
    *,
    mechanism: str,
    seed: int,
    progress: Any,
    checkpoint: Path | None,
    edges: str = "auto",
    **settings: Any,
) -> Posterior:
    """Choose the mechanism, find orders and parents, and wrap what was found as a posterior."""
    started = time.perf_counter()
    check(mechanism=mechanism, edges=edges, **settings)
    networks = {name: settings.get(name, usual) for name, usual in NETWORKS.items()}
    units, sketch_units = networks["units"], networks["sketch_units"]
    asked, given = mechanism, frozenset(settings)
    identity = problem.fingerprint(
        preset="default", mechanism=mechanism, seed=seed, edges=edges, **{**settings, **networks}
    )
    savepoint = Savepoint(checkpoint, identity)
    with Stages(meter(progress)) as stages, resumable(savepoint):
        kept = savepoint.load()
        choice = _choice(problem, sketch_units, seed, savepoint) if mechanism == "auto" else None
        mechanism = mechanism if choice is None else choice.mechanism
        model, sketch = _mechanisms(problem, mechanism, units, sketch_units, seed)
        task = Task(problem, mechanism, model, sketch, seed, stages.report, savepoint, kept)
        found = _run(task, edges, settings)
        savepoint.write()
    unused = _unused(given, asked, found.figures)
    if unused:
        warnings.warn(
            f"settings {unused} were given but not used with mechanism={mechanism!r} and parents "
            f"from edges={found.figures['edges']!r}",
            SettingWarning,
            stacklevel=4,
        )
    diagnostics = {
        "method": "svi-dag",
        "preset": "default",
        "mechanism": mechanism,
        "mechanism_margin": None if choice is None else choice.margin,
        **found.figures,
        "seconds": time.perf_counter() - started,
        "settings": {**found.settings, **networks},
        "fingerprint": identity,
        "findings": problem.findings,
    }
    return Posterior(
        problem.data.names,
        found.law,
        parameter_law(model, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def _run(task: Task, edges: str, settings: dict[str, Any]) -> Found:
    own = {name: value for name, value in settings.items() if name in guided.SETTINGS}
    if edges in ("flow", "mean-field"):
        return guided.run(task, edges, own)
    why = task.savepoint.notes.get("fallback")
    if why is None:
        tables = {name: value for name, value in settings.items() if name in tabulated.SETTINGS}
        try:
            return tabulated.run(task, tables, crowds=edges == "table")
        except TableSizeError as reason:
            if edges == "table":
                raise ValueError(
                    f"{reason}. Choose edges='flow' or 'mean-field', which need no tables, fewer "
                    "candidates (fewest, most) or a larger table_gib"
                ) from None
            why = task.savepoint.notes["fallback"] = str(reason)
    warnings.warn(
        f"{why}; parents come from a guide instead (edges='flow'), which takes longer. "
        "See diagnostics['fallback'].",
        FallbackWarning,
        stacklevel=5,
    )
    return guided.run(task, "flow", own, fallback=why)


def _unused(given: frozenset[str], mechanism: str, figures: Mapping[str, Any]) -> list[str]:
    """Which settings had no part in a fit that was asked for this mechanism and came out so."""
    tables, fallback = figures["edges"] == "table", figures["fallback"] is not None
    used = tabulated.SETTINGS if tables else guided.SETTINGS
    if fallback:
        used |= tabulated.GROWTH
    if mechanism != "linear":
        used |= {"units"}
    if mechanism == "auto" or (mechanism == "nonlinear" and (tables or fallback)):
        used |= {"sketch_units"}
    return sorted(given - used)


def check(*, mechanism: str = "auto", edges: str = "auto", **given: Any) -> None:
    """Refuse choices that are unknown or of a wrong type."""
    _one_of("mechanism", mechanism, ("auto", *MECHANISMS))
    _one_of("edges", edges, EDGES)
    known = frozenset(NETWORKS)
    if edges in ("auto", "table"):
        known |= tabulated.SETTINGS
    if edges != "table":
        known |= guided.SETTINGS
    unknown = sorted(given.keys() - known)
    if unknown:
        listed = sorted(known | {"edges"})
        raise ValueError(
            f"unknown settings {unknown} for preset='default' with edges={edges!r}; "
            f"known are {listed}"
        )
    for name, value in given.items():
        kind, words = KINDS[type(USUAL.get(name, 0.0))]
        if isinstance(value, bool) or not isinstance(value, kind):
            raise ValueError(f"{name} must be {words}; got {value!r}")


def _choice(problem: Problem, units: int, seed: int, savepoint: Savepoint) -> Choice:
    """Compare the network with its own linear part, so that nothing but the bends differs.

    BGe's evidence does not compare: its prior on scales is another one, and that difference, some
    nats a node, would decide.
    """
    if "choice" in savepoint.notes:
        return Choice(**savepoint.notes["choice"])
    candidates: dict[str, FamilyScores] = {
        "linear": _network(problem, 0, seed),
        "nonlinear": _network(problem, units, seed),
    }
    choice = choose(candidates, problem.prior)
    savepoint.notes["choice"] = dataclasses.asdict(choice)
    return choice


def _mechanisms(
    problem: Problem, mechanism: str, units: int, sketch_units: int, seed: int
) -> tuple[LinearGaussian | WideNetwork, WideNetwork | None]:
    """The mechanism, and a stand-in for it where that saves time."""
    data = problem.data
    if mechanism == "linear":
        return LinearGaussian.from_values(data.values, data.intervened), None
    dear = len(data.values) >= SKETCH_FROM and sketch_units < units
    sketch = _network(problem, sketch_units, seed) if dear else None
    return _network(problem, units, seed), sketch


def _network(problem: Problem, units: int, seed: int) -> WideNetwork:
    data = problem.data
    return WideNetwork.from_values(data.values, data.names, data.intervened, units=units, seed=seed)


def _one_of(argument: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{argument} must be one of {list(known)}; got {name!r}")
