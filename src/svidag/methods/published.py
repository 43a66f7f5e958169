"""SVI-DAG as the paper states it: `preset="paper"`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from svidag.posterior import Posterior
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint
from svidag.run.convergence import Plateau
from svidag.run.deadline import Deadline
from svidag.run.loop import Schedule, run
from svidag.run.progress import meter
from svidag.variational.algorithm import Published, Settings
from svidag.variational.fitted import GuideGraphs, NetworkParameters
from svidag.variational.published_bound import Beliefs, Rows

FIGURES = (("bound", "ELBO"), ("edges", "edges"))


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
    algorithm = Published.build(_rows(problem), _beliefs(problem), chosen, seed)
    identity = problem.fingerprint(preset="paper", seed=seed, **_identity(chosen))
    outcome = run(
        algorithm,
        seed,
        _schedule(chosen, chunk),
        expired=deadline.passed,
        meter=meter(progress),
        checkpoint=Checkpoint(checkpoint, identity),
        title="SVI-DAG (paper)",
    )
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
        GuideGraphs(networks, outcome.state.orders, algorithm.beliefs),
        NetworkParameters(networks, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def check(*, mechanism: str = "auto", chunk: int = 50, **given: Any) -> Settings:
    """The settings; choices that are unknown or cannot be are refused."""
    if mechanism not in ("auto", "mlp"):
        raise ValueError(f"preset='paper' has mechanism 'mlp' (or 'auto'); got {mechanism!r}")
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk must be a positive whole number; got {chunk!r}")
    known = {field.name for field in dataclasses.fields(Settings)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(
            f"unknown settings {unknown} for preset='paper'; known are {sorted(known)} and 'chunk'"
        )
    return Settings(**given)


def _identity(settings: Settings) -> dict[str, Any]:
    """The settings as far as they can be told from one run to the next.

    Functions have no lasting name, so of an optimiser of one's own only its presence is told; a
    checkpoint is refused where the shapes of its state differ.
    """
    named = dataclasses.asdict(settings)
    for name in ("optimiser", "particle_optimiser"):
        named[name] = None if named[name] is None else "given"
    return named


def _schedule(settings: Settings, chunk: int) -> Schedule:
    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(steps=settings.iterations, chunk=chunk, stop=stop, figures=FIGURES)


def _rows(problem: Problem) -> Rows:
    values = np.asarray(problem.data.values, np.float32)
    return Rows(*jax.device_put((values, ~problem.data.intervened)))


def _beliefs(problem: Problem) -> Beliefs:
    prior = problem.prior
    alpha, beta = np.asarray([prior.alpha, prior.beta], np.float32)
    return Beliefs(*jax.device_put((alpha, beta, prior.allowed, prior.required)))
