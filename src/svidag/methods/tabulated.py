"""`edges="table"`: parents from tables of parent sets."""

from __future__ import annotations

import dataclasses
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from svidag.inference.chains import OrderChains, Schedule, run_chains
from svidag.inference.order_law import OrderLaw
from svidag.inference.savepoint import (
    pack_chains,
    pack_growth,
    unpack_chains,
    unpack_growth,
)
from svidag.inference.tabulated import (
    CELL_BYTES,
    TableSettings,
    Tabulated,
    tabulate,
)
from svidag.methods.figures import (
    AGREEMENT,
    agreement,
    chain_figures,
    stated,
    warn_of_doubts,
)
from svidag.methods.ladder import ladder
from svidag.methods.task import Found, Task
from svidag.scores import TableSizeError

TABLES = MappingProxyType(
    {
        "linear": TableSettings(fewest=13, slack=12.0),
        "nonlinear": TableSettings(fewest=11, slack=6.0),
    }
)
"""Linear evidence is cheap, so its tables can afford more candidates and more slack."""

SKETCH_NATS = 150.0
"""A sketch errs in proportion to the rows: this over N is the power of the first trial."""

_SCHEDULE = frozenset(f.name for f in dataclasses.fields(Schedule)) - {"power", "enough"}
GROWTH = frozenset(f.name for f in dataclasses.fields(TableSettings)) - {"trial"}
"""Settings of the tables themselves."""

SETTINGS = _SCHEDULE | AGREEMENT | GROWTH
"""What may be set."""


def run(task: Task, settings: dict[str, Any], *, crowds: bool) -> Found:
    """Tabulate the evidence of parent sets and move orders.

    Where a node has more plausible parents than its table has room for, the best are kept if
    `crowds`; otherwise the tables are given up.
    """
    schedule, tables = _settings(task, settings)
    begun = task.begun("tables", "chains")
    made = tabulate(
        task.scores,
        task.problem.prior,
        tables,
        sketch=task.sketch,
        seed=task.seed,
        report=lambda scored: task.report("scoring parent sets", scored, None),
        keep=lambda growth: task.savepoint.keep("tables", partial(pack_growth, growth)),
        begun=None if begun is None else unpack_growth(begun),
    )
    if made.crowded and not crowds:
        raise TableSizeError(
            f"{made.crowded} pairs of variables press into tables that hold no more than "
            f"most={tables.most} candidate parents"
        )
    begun = task.begun("chains")
    chains = run_chains(
        made.tables,
        task.problem.prior,
        schedule,
        seed=task.seed,
        report=lambda done: task.report("moving orders", done, schedule.sweeps),
        keep=lambda chains: task.savepoint.keep("chains", partial(_packed, made, chains)),
        begun=None if begun is None else unpack_chains(begun),
    )
    law = OrderLaw(made.tables, np.concatenate(list(chains.orders)), chains.edges.mean(axis=0))
    chosen = _chosen(schedule, tables)
    figures = {"edges": "table", "fallback": None, **_figures(made, chains, schedule)}
    warn_of_doubts(figures)
    return Found(law, figures, chosen)


def _packed(made: Tabulated, chains: OrderChains) -> dict[str, np.ndarray]:
    return pack_growth(made.growth) | pack_chains(chains)


def _settings(task: Task, given: dict[str, Any]) -> tuple[Schedule, TableSettings]:
    rows, m = task.problem.data.values.shape
    own = {name: value for name, value in given.items() if name in _SCHEDULE}
    schedule = Schedule(**{**own, **ladder(rows, m, given)}, enough=agreement(given))
    tables = TABLES[task.mechanism]
    if task.sketch is not None:
        tables = dataclasses.replace(tables, powers=_powers(rows))
    trial = dataclasses.replace(tables.trial, levels=schedule.levels, flattest=schedule.flattest)
    own = {name: value for name, value in given.items() if name in GROWTH}
    return schedule, dataclasses.replace(tables, trial=trial, **own)


def _powers(rows: int) -> tuple[float, ...]:
    """From flat enough to forgive the sketch, half way, and then the posterior itself."""
    first = float(np.clip(SKETCH_NATS / rows, 0.01, 0.3))
    return first, first**0.5, 1.0


def _chosen(schedule: Schedule, tables: TableSettings) -> dict[str, Any]:
    """Every setting as one would pass it."""
    named = {**dataclasses.asdict(tables), **dataclasses.asdict(schedule)}
    named |= {"edges": "table", **stated(schedule.enough)}
    return {name: named[name] for name in sorted(SETTINGS | {"edges"})}


def _figures(made: Tabulated, chains: OrderChains, schedule: Schedule) -> dict[str, Any]:
    """What the fit reports about its own quality."""
    return {
        **chain_figures(chains.edges, chains.orders, chains.log_evidence, rule=schedule.enough),
        "moved": chains.moved,
        "exchanged": chains.exchanged,
        "sweeps": chains.sweeps,
        "scored_sets": made.tables.scored,
        "table_cells": len(made.tables.sums),
        "table_bytes": CELL_BYTES * len(made.tables.sums),
        "candidates": tuple(len(node.candidates) for node in made.tables.nodes),
        "crowded": made.crowded,
        "sketched_share": made.sketched(chains),
        "rounds": tuple(dataclasses.asdict(done) for done in made.rounds),
        "settled": made.settled,
    }
