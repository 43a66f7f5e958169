"""SVI-DAG with every approximation replaced by the exact thing: `preset="default"`."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from svidag.inference.chains import Schedule
from svidag.inference.order_law import OrderLaw
from svidag.inference.progress import Meter, meter
from svidag.inference.tabulated import TableSettings, Tabulated, infer
from svidag.mechanisms.collapsed import parameter_law
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.wide import WideNetwork
from svidag.methods.choice import Choice, choose
from svidag.posterior import Posterior
from svidag.problem import Problem

TABLES = MappingProxyType(
    {
        "linear": TableSettings(fewest=13, slack=12.0),
        "nonlinear": TableSettings(fewest=11, slack=6.0),
    }
)
"""Linear evidence is cheap, so its tables can afford more candidates and more slack."""

SKETCH_FROM = 300
"""Rows from which a sketch with fewer units pays for itself."""

SKETCH_NATS = 150.0
"""A sketch errs in proportion to the rows: this over N is the power of the first trial."""


def fit(
    problem: Problem,
    *,
    mechanism: str,
    seed: int,
    progress: Any,
    checkpoint: Path | None,
    units: int = 200,
    sketch_units: int = 32,
    **settings: Any,
) -> Posterior:
    """Tabulate the evidence of parent sets, move orders, and wrap what the chains visited."""
    started = time.perf_counter()
    if mechanism not in (*TABLES, "auto"):
        known = ["auto", *TABLES]
        raise ValueError(f"mechanism must be one of {known}; got {mechanism!r}")
    if checkpoint is not None:
        raise ValueError("checkpoint is for preset='paper'; preset='default' cannot resume yet")
    choice = _choice(problem, sketch_units, seed) if mechanism == "auto" else None
    mechanism = mechanism if choice is None else choice.mechanism
    scores, sketch = _mechanisms(problem, mechanism, units, sketch_units, seed)
    if sketch is not None:
        settings = {"powers": _powers(len(problem.data.values)), **settings}
    schedule, tables = _settings(mechanism, settings)
    stages = _Stages(meter(progress))
    try:
        found = infer(
            scores, problem.prior, tables, schedule, sketch=sketch, seed=seed, report=stages.report
        )
    finally:
        stages.close()
    chosen = {**dataclasses.asdict(schedule), **dataclasses.asdict(tables), "units": units}
    identity = problem.fingerprint(preset="default", mechanism=mechanism, seed=seed, **chosen)
    diagnostics = {
        "method": "svi-dag",
        "preset": "default",
        "mechanism": mechanism,
        "mechanism_margin": None if choice is None else choice.margin,
        **_figures(found),
        "seconds": time.perf_counter() - started,
        "settings": chosen,
        "fingerprint": identity,
        "findings": problem.findings,
    }
    law = OrderLaw(
        found.tables,
        np.concatenate(list(found.chains.orders)),
        found.chains.edges.mean(axis=0),
    )
    return Posterior(
        problem.data.names,
        law,
        parameter_law(scores, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def _choice(problem: Problem, units: int, seed: int) -> Choice:
    """Compare the network with its own linear part, so that nothing but the bends differs.

    BGe's evidence does not compare: its prior on scales is another one, and that difference, some
    nats a node, would decide.
    """
    data = problem.data
    candidates: dict[str, FamilyScores] = {
        name: WideNetwork.from_values(
            data.values, data.names, data.intervened, units=width, seed=seed
        )
        for name, width in (("linear", 0), ("nonlinear", units))
    }
    return choose(candidates, problem.prior)


def _mechanisms(
    problem: Problem, mechanism: str, units: int, sketch_units: int, seed: int
) -> tuple[LinearGaussian | WideNetwork, WideNetwork | None]:
    """The mechanism, and a stand-in for it where that saves time."""
    data = problem.data
    if mechanism == "linear":
        return LinearGaussian.from_values(data.values, data.intervened), None

    def network(width: int) -> WideNetwork:
        return WideNetwork.from_values(
            data.values, data.names, data.intervened, units=width, seed=seed
        )

    dear = len(data.values) >= SKETCH_FROM and sketch_units < units
    return network(units), network(sketch_units) if dear else None


def _powers(rows: int) -> tuple[float, ...]:
    """From flat enough to forgive the sketch, half way, and then the posterior itself."""
    first = float(np.clip(SKETCH_NATS / rows, 0.01, 0.3))
    return first, first**0.5, 1.0


def _settings(mechanism: str, given: dict[str, Any]) -> tuple[Schedule, TableSettings]:
    schedule = {field.name for field in dataclasses.fields(Schedule)} - {"power"}
    tables = {field.name for field in dataclasses.fields(TableSettings)} - {"trial"}
    unknown = sorted(given.keys() - schedule - tables)
    if unknown:
        known = sorted(schedule | tables | {"units", "sketch_units"})
        raise ValueError(f"unknown settings {unknown} for preset='default'; known are {known}")
    return (
        Schedule(**{name: value for name, value in given.items() if name in schedule}),
        dataclasses.replace(
            TABLES[mechanism], **{name: value for name, value in given.items() if name in tables}
        ),
    )


def _figures(found: Tabulated) -> dict[str, Any]:
    """What the fit reports about its own quality."""
    chains = found.chains
    half = chains.edges.shape[0] // 2
    flat = chains.orders.reshape(-1, chains.orders.shape[-1])
    return {
        "moved": chains.moved,
        "distinct_orders": len(np.unique(flat, axis=0)),
        "kept_orders": len(flat),
        "log_evidence_by_chain": chains.log_evidence.mean(axis=1),
        "log_evidence_spread": chains.log_evidence.std(axis=1),
        "edge_disagreement": chains.disagreement,
        "half_disagreement": _halves(chains.edges, half),
        "scored_sets": found.tables.scored,
        "table_cells": len(found.tables.sums),
        "sketched_share": found.sketched,
        "rounds": tuple(dataclasses.asdict(done) for done in found.rounds),
        "settled": bool(found.rounds) and found.rounds[-1].settled,
    }


def _halves(edges: np.ndarray, half: int) -> float:
    """The largest difference of an edge's probability between two halves of the chains."""
    if half == 0:
        return float("nan")
    return float(np.abs(edges[:half].mean(axis=0) - edges[half:].mean(axis=0)).max())


class _Stages:
    """Shows stage after stage on one meter; chains report from several threads."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._stage: str | None = None
        self._lock = threading.Lock()

    def report(self, stage: str, done: int, total: int | None) -> None:
        if total is None:
            return
        with self._lock:
            if stage != self._stage:
                self.close()
                self._stage = stage
                self._meter.open(f"SVI-DAG: {stage}", 0, total)
            self._meter.update(done, {})

    def close(self) -> None:
        if self._stage is not None:
            self._meter.close()
            self._stage = None
