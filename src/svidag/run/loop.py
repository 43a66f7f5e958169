"""The one loop: chunks of steps under one jit, with everything else between chunks.

A chunk is a `while_loop`; step t draws its randomness from ``fold_in(key, t)``, so neither the
chunk size nor a resumed run changes any number. Stop rules look at a fixed grid of steps for the
same reason.
"""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from svidag.kernels import noise
from svidag.run.checkpoint import Checkpoint, arrays_of, resumable, with_arrays
from svidag.run.progress import Meter
from svidag.run.status import Status

State = TypeVar("State")
Trace = Mapping[str, np.ndarray]

GRID = 100  # steps between looks of the stop rule
COMPILER = {  # of the step: compiles in two thirds of the time and runs as fast
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": True,
    "xla_disable_hlo_passes": "cse_barrier_expander",
}
REJECTIONS = "rejected"  # the figure of a step's info that counts rejected steps in a row


class Algorithm(eqx.Module, Generic[State]):
    """A pure inference algorithm; its arrays are traced, everything else is static."""

    @abc.abstractmethod
    def init(self, key: jax.Array) -> State:
        """The state before the first step: arrays only."""

    @abc.abstractmethod
    def step(self, state: State, key: jax.Array) -> tuple[State, dict[str, jax.Array]]:
        """One step, and the scalars named by `figures` that tell about it.

        Among them is ``rejected``: how many steps in a row, up to this one, left the state as it
        was because the next would not have been finite.
        """

    @property
    @abc.abstractmethod
    def figures(self) -> tuple[str, ...]:
        """The names of a step's scalars."""


class FitError(RuntimeError):
    """A fit that could not go on; `status` says why."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, eq=False)
class Outcome(Generic[State]):
    """The last state, the trace of every step's info, and what it took."""

    state: State
    trace: Trace
    status: Status
    steps: int
    compile_seconds: float
    run_seconds: float


@dataclass(frozen=True)
class Schedule:
    """How far to run and what happens between chunks.

    Attributes
    ----------
    steps
        The budget.
    chunk
        Steps per compiled call.
    max_rejected
        Steps in a row that may be rejected before the fit stops.
    stop
        Looks at the trace every `GRID` steps; True ends the run.
    figures
        Entries of the info that the progress meter shows, with the name it shows.
    """

    steps: int
    chunk: int = 50
    max_rejected: int = 50
    stop: Callable[[Trace], bool] | None = None
    figures: tuple[tuple[str, str], ...] = ()


def run(
    algorithm: Algorithm[State],
    seed: int,
    schedule: Schedule,
    *,
    meter: Meter,
    checkpoint: Checkpoint | None = None,
    expired: Callable[[], bool] = lambda: False,
    title: str = "fit",
) -> Outcome[State]:
    """Run an algorithm from the start, or from its checkpoint, to the end of its schedule.

    `expired` is asked after each chunk whether time is over.
    """
    key = noise.seeded(seed, 0)
    state = algorithm.init(noise.seeded(seed, 1))
    done, status = 0, Status.COMPLETED
    trace: Trace = {name: np.zeros(0, np.float32) for name in algorithm.figures}
    checkpoint = checkpoint or Checkpoint(None, {})
    saved = checkpoint.load()
    if saved:
        done, trace = saved.state["step"], saved.state["trace"]
        state = with_arrays(state, saved.state["arrays"])
        status = _judge(schedule, trace, done)

    def keep() -> None:
        kept = {"step": done, "trace": trace, "arrays": arrays_of(state)}
        checkpoint.keep("steps", lambda: kept)

    started = time.perf_counter()
    meter.open(title, done, schedule.steps)
    with contextlib.closing(meter), resumable(checkpoint):
        keep()
        at = jnp.asarray(done)
        _advance(algorithm, state, key, at, at, schedule.chunk)  # compiles, no step
        compiled = time.perf_counter()
        meter.update(done, {})
        while done < schedule.steps and status is Status.COMPLETED:
            limit = min(done + schedule.chunk, (done // GRID + 1) * GRID, schedule.steps)
            moved, info = jax.block_until_ready(
                _advance(
                    algorithm, state, key, jnp.asarray(done), jnp.asarray(limit), schedule.chunk
                )
            )
            new = dict(zip(algorithm.figures, np.asarray(info)[:, : limit - done], strict=True))
            longer = {name: np.concatenate([trace[name], new[name]]) for name in trace}
            state, trace, done = moved, longer, limit
            keep()
            meter.update(done, {shown: float(trace[name][-1]) for name, shown in schedule.figures})
            status = _judge(schedule, trace, done)
            if status is Status.COMPLETED and done < schedule.steps and expired():
                status = Status.TIME
    checkpoint.write()
    if status is Status.DIVERGED:
        raise FitError(
            status,
            f"{schedule.max_rejected} steps in a row were not finite, the last at step {done}. "
            "A smaller learning rate or standardised data may help.",
        )
    return Outcome(state, trace, status, done, compiled - started, time.perf_counter() - compiled)


def _judge(schedule: Schedule, trace: Trace, done: int) -> Status:
    if trace[REJECTIONS].max(initial=0) >= schedule.max_rejected:
        return Status.DIVERGED
    if schedule.stop and done % GRID == 0 and schedule.stop(trace):
        return Status.CONVERGED
    return Status.COMPLETED


@eqx.filter_jit(compiler_options=COMPILER)  # pyright: ignore[reportCallIssue]
def _advance(
    algorithm: Algorithm[State],
    state: State,
    key: jax.Array,
    start: jax.Array,
    limit: jax.Array,
    chunk: int,
):
    """Steps start … limit − 1, and the figures of each in a row, with room for `chunk` steps.

    No conditional encloses the step: XLA runs the branches of one on a single core.
    """

    def step(carried):
        t, state, trace = carried
        state, info = algorithm.step(state, jax.random.fold_in(key, t))
        figures = [info[name].astype(jnp.float32) for name in algorithm.figures]
        return t + 1, state, trace.at[:, t - start].set(jnp.stack(figures))

    trace = jnp.zeros((len(algorithm.figures), chunk), jnp.float32)
    _, state, trace = jax.lax.while_loop(
        lambda carried: carried[0] < limit, step, (start, state, trace)
    )
    return state, trace
