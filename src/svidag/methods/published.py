"""SVI-DAG as the paper states it: `preset="paper"`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from svidag.inference.checkpoint import Checkpoint
from svidag.inference.fitted import GuideLaw, NetworkLaw
from svidag.inference.loop import Schedule, run
from svidag.inference.progress import meter
from svidag.inference.published import Published, Settings
from svidag.objective import Beliefs, Rows
from svidag.posterior import Posterior
from svidag.problem import Problem

FIGURES = (("bound", "ELBO"), ("edges", "edges"))


def fit(
    problem: Problem,
    *,
    mechanism: str,
    seed: int,
    progress: Any,
    checkpoint: Path | None,
    chunk: int = 50,
    **settings: Any,
) -> Posterior:
    """Run Algorithm 1 and wrap its guide as a posterior."""
    started = time.perf_counter()
    if mechanism not in ("auto", "mlp"):
        raise ValueError(f"preset='paper' has mechanism 'mlp' (or 'auto'); got {mechanism!r}")
    chosen = _settings(settings)
    algorithm = Published.build(_rows(problem), _beliefs(problem), chosen, seed)
    identity = problem.fingerprint(preset="paper", seed=seed, **dataclasses.asdict(chosen))
    outcome = run(
        algorithm,
        seed,
        Schedule(steps=chosen.iterations, chunk=chunk, figures=FIGURES),
        meter=meter(progress),
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, identity),
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
        "settings": dataclasses.asdict(chosen),
        "fingerprint": identity,
        "findings": problem.findings,
    }
    return Posterior(
        problem.data.names,
        GuideLaw(networks, outcome.state.orders, algorithm.beliefs),
        NetworkLaw(networks, problem.scaling),
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def _settings(given: dict[str, Any]) -> Settings:
    known = {field.name for field in dataclasses.fields(Settings)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(
            f"unknown settings {unknown} for preset='paper'; known are {sorted(known)} and 'chunk'"
        )
    return Settings(**given)


def _rows(problem: Problem) -> Rows:
    values = np.asarray(problem.data.values, np.float32)
    return Rows(*jax.device_put((values, ~problem.data.intervened)))


def _beliefs(problem: Problem) -> Beliefs:
    prior = problem.prior
    alpha, beta = np.asarray([prior.alpha, prior.beta], np.float32)
    return Beliefs(*jax.device_put((alpha, beta, prior.allowed, prior.required)))
