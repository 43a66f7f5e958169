"""`preset="default"`: mechanisms integrated out, exact conditionals given an order, moving orders.

Small problems are summed over all orders, exactly. Elsewhere chains move over orders, and parents
given an order come from tables of parent sets (``edges="table"``) or from a guide per node
(``"flow"``, ``"mean-field"``).
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

from svidag.mechanisms.collapsed import parameter_distribution
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.wide import WideNetwork
from svidag.methods import guided, summed, tabulated
from svidag.methods.choice import Choice, choose
from svidag.methods.task import Found, Task
from svidag.posterior import Posterior
from svidag.problem import Problem
from svidag.run.cautions import SettingWarning
from svidag.run.checkpoint import Checkpoint, resumable
from svidag.run.deadline import Deadline
from svidag.run.progress import meter
from svidag.run.stages import Stages
from svidag.samplers.order_chains import Schedule
from svidag.search.growth import GrowthSettings
from svidag.variational.node_settings import NodeSettings

MECHANISMS = ("linear", "nonlinear")
EDGES = ("table", "flow", "mean-field")

NETWORKS = MappingProxyType({"units": 200, "sketch_units": 32})
"""Units of a nonlinear mechanism and of the sketch of it, unless they are given."""

USUAL: Mapping[str, Any] = MappingProxyType(
    {f.name: f.default for kind in (Schedule, GrowthSettings, NodeSettings) for f in fields(kind)}
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
    deadline: Deadline,
    edges: str = "table",
    exact: bool = True,
    **settings: Any,
) -> Posterior:
    """Choose the mechanism, find orders and parents, and wrap what was found as a posterior."""
    started = time.perf_counter()
    check(mechanism=mechanism, edges=edges, exact=exact, **settings)
    networks = {name: settings.get(name, usual) for name, usual in NETWORKS.items()}
    units, sketch_units = networks["units"], networks["sketch_units"]
    asked, given = mechanism, frozenset(settings)
    identity = problem.fingerprint(
        preset="default",
        mechanism=mechanism,
        seed=seed,
        edges=edges,
        exact=exact,
        **{**settings, **networks},
    )
    kept = Checkpoint(checkpoint, identity)
    with Stages(meter(progress)) as stages, resumable(kept):
        saved = kept.load()
        choice = _choice(problem, sketch_units, seed, kept) if mechanism == "auto" else None
        mechanism = mechanism if choice is None else choice.mechanism
        model, sketch = _mechanisms(problem, mechanism, units, sketch_units, seed)
        task = Task(problem, mechanism, model, sketch, seed, stages.report, kept, saved, deadline)
        found = _run(task, edges, exact, settings)
        kept.write()
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
        "settings": {**found.settings, "exact": exact, **networks},
        "fingerprint": identity,
        "findings": problem.findings,
    }
    return Posterior(
        problem.data.names,
        found.distribution,
        parameter_distribution(model, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        log_evidence=found.log_evidence,
        problem=problem,
    )


def _run(task: Task, edges: str, exact: bool, settings: dict[str, Any]) -> Found:
    if edges != "table":
        return guided.run(task, edges, settings)
    if exact and summed.feasible(task.scores):
        return summed.run(task)
    return tabulated.run(task, settings)


def _unused(given: frozenset[str], mechanism: str, figures: Mapping[str, Any]) -> list[str]:
    """Which settings had no part in a fit that was asked for this mechanism and came out so."""
    by_chains = {"table": tabulated.SETTINGS, "all orders": frozenset()}
    used = by_chains.get(figures["edges"], guided.SETTINGS)
    if mechanism != "linear":
        used |= {"units"}
    if mechanism == "auto" or (mechanism == "nonlinear" and figures["edges"] == "table"):
        used |= {"sketch_units"}
    return sorted(given - used)


def check(
    *, mechanism: str = "auto", edges: str = "table", exact: bool = True, **given: Any
) -> None:
    """Refuse choices that are unknown or of a wrong type."""
    _one_of("mechanism", mechanism, ("auto", *MECHANISMS))
    _one_of("edges", edges, EDGES)
    if not isinstance(exact, bool):
        raise ValueError(f"exact must be true or false; got {exact!r}")
    known = frozenset(NETWORKS)
    known |= tabulated.SETTINGS if edges == "table" else guided.SETTINGS
    unknown = sorted(given.keys() - known)
    if unknown:
        listed = sorted(known | {"edges", "exact"})
        raise ValueError(
            f"unknown settings {unknown} for preset='default' with edges={edges!r}; "
            f"known are {listed}"
        )
    for name, value in given.items():
        kind, words = KINDS[type(USUAL.get(name, 0.0))]
        if isinstance(value, bool) or not isinstance(value, kind):
            raise ValueError(f"{name} must be {words}; got {value!r}")
    own = {f.name for f in fields(Schedule)} & given.keys()
    Schedule(**{name: given[name] for name in own})  # says what cannot be


def _choice(problem: Problem, units: int, seed: int, checkpoint: Checkpoint) -> Choice:
    """Compare the network with its own linear part, so that nothing but the bends differs.

    BGe's evidence does not compare: its prior on scales is another one, and that difference, some
    nats a node, would decide.
    """
    if "choice" in checkpoint.notes:
        return Choice(**checkpoint.notes["choice"])
    candidates: dict[str, FamilyScores] = {
        "linear": _network(problem, 0, seed),
        "nonlinear": _network(problem, units, seed),
    }
    choice = choose(candidates, problem.prior)
    checkpoint.notes["choice"] = dataclasses.asdict(choice)
    return choice


def _mechanisms(
    problem: Problem, mechanism: str, units: int, sketch_units: int, seed: int
) -> tuple[LinearGaussian | WideNetwork, WideNetwork | None]:
    """The mechanism, and a stand-in for it where that saves time."""
    data = problem.data
    if mechanism == "linear":
        return LinearGaussian.from_values(data.values, data.intervened), None
    expensive = len(data.values) >= SKETCH_FROM and sketch_units < units
    sketch = _network(problem, sketch_units, seed) if expensive else None
    return _network(problem, units, seed), sketch


def _network(problem: Problem, units: int, seed: int) -> WideNetwork:
    data = problem.data
    return WideNetwork.from_values(data.values, data.names, data.intervened, units=units, seed=seed)


def _one_of(argument: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{argument} must be one of {list(known)}; got {name!r}")
