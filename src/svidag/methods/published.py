"""SVI-DAG as the paper states it: `preset="paper"`."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from svidag.posterior import Posterior
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, resumable
from svidag.run.convergence import Plateau
from svidag.run.deadline import Deadline
from svidag.run.loop import Keys, Schedule, Trace, run
from svidag.run.progress import meter
from svidag.variational.fitted import GuideGraphs, NetworkParameters
from svidag.variational.published_algorithm import PublishedAlgorithm
from svidag.variational.published_bound import Rows
from svidag.variational.published_settings import PublishedSettings

SHOWN = (("bound", "ELBO"), ("edges", "edges"))


def fit(
    problem: Problem,
    *,
    mechanism: str,
    seed: int,
    progress: Any,
    checkpoint: Path | None,
    deadline: Deadline,
    chunk: int = 50,
    **settings: Any,
) -> Posterior:
    """Run Algorithm 1 and wrap its guide as a posterior."""
    started = time.perf_counter()
    chosen = check(mechanism=mechanism, chunk=chunk, **settings)
    algorithm = PublishedAlgorithm.build(_rows(problem), problem.prior.to_jax(), chosen, seed)
    identity = problem.fingerprint(preset="paper", seed=seed, **_identity(chosen))
    kept, bar = Checkpoint(checkpoint, identity), meter(progress)
    saved = kept.load()
    resume = None if saved is None else saved.state

    def report(done: int, trace: Trace) -> None:
        shown = {label: float(trace[name][-1]) for name, label in SHOWN if len(trace[name])}
        bar.update(done, shown)

    bar.open("SVI-DAG (paper)", 0 if resume is None else resume.step, chosen.iterations)
    with contextlib.closing(bar), resumable(kept):
        outcome = run(
            algorithm,
            Keys.of_seed(seed),
            _schedule(chosen, chunk),
            report=report,
            keep=lambda snapshot: kept.keep("steps", snapshot),
            resume=resume,
            expired=deadline.passed,
        )
        kept.write()
    networks = algorithm.complete(outcome.state.networks)
    diagnostics = {
        "method": "svi-dag",
        "preset": "paper",
        "mechanism": "mlp",
        "status": outcome.status.value,
        "steps": outcome.steps,
        "trace": outcome.trace,
        "rejected_steps": int((outcome.trace["rejected"] > 0).sum()),
        "compile_seconds": outcome.compile_seconds,
        "run_seconds": outcome.run_seconds,
        "seconds": time.perf_counter() - started,
        "settings": _identity(chosen),
        "fingerprint": identity,
        "findings": problem.findings,
    }
    return Posterior(
        problem.data.names,
        GuideGraphs(networks, outcome.state.orders, algorithm.prior),
        NetworkParameters(networks, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def check(*, mechanism: str = "auto", chunk: int = 50, **given: Any) -> PublishedSettings:
    """The settings; choices that are unknown or cannot be are refused."""
    if mechanism not in ("auto", "mlp"):
        raise ValueError(f"preset='paper' has mechanism 'mlp' (or 'auto'); got {mechanism!r}")
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk must be a positive whole number; got {chunk!r}")
    known = {field.name for field in dataclasses.fields(PublishedSettings)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(
            f"unknown settings {unknown} for preset='paper'; known are {sorted(known)} and 'chunk'"
        )
    return PublishedSettings(**given)


def _identity(settings: PublishedSettings) -> dict[str, Any]:
    """The settings as far as they can be told from one run to the next.

    Functions have no lasting name, so of an optimiser of one's own only its presence is told; a
    checkpoint is refused where the shapes of its state differ.
    """
    named = dataclasses.asdict(settings)
    for name in ("optimiser", "particle_optimiser"):
        named[name] = None if named[name] is None else "given"
    return named


def _schedule(settings: PublishedSettings, chunk: int) -> Schedule:
    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(steps=settings.iterations, chunk=chunk, stop=stop)


def _rows(problem: Problem) -> Rows:
    values = np.asarray(problem.data.values, np.float32)
    return Rows(*jax.device_put((values, ~problem.data.intervened)))
