"""The loop of all gradient methods: chunks of steps, with everything else between chunks.

Step t draws its randomness from ``fold_in(key, t)``, so that neither the chunk size nor a resumed
run changes any number; stopping rules look at a fixed grid of steps for the same reason. Steps of a
`CompiledAlgorithm` run under one jit, a chunk at a time; those of a `HostAlgorithm` run in Python
and may ask for scores that are computed there.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from svidag.run import streams
from svidag.run.array_tree import arrays_of, with_arrays
from svidag.run.status import Status
from svidag.run.streams import Stream

__all__ = [
    "COMPILER",
    "GRID",
    "Algorithm",
    "CompiledAlgorithm",
    "FitError",
    "HostAlgorithm",
    "Keys",
    "Outcome",
    "ResumeState",
    "Schedule",
    "compiled",
    "run",
]

State = TypeVar("State")
Trace = Mapping[str, np.ndarray]
"""Each metric of the steps, by its name."""

GRID = 100  # steps between two checks of the stopping rule
COMPILER = {
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": True,
    "xla_disable_hlo_passes": "cse_barrier_expander",
}
"""Without these options a step takes 12 % longer, without the last alone 10 % by the clock and up
to a third more to compile (`python benchmarks/kernels.py options passes`)."""
REJECTIONS = "rejected"  # the metric that counts rejected steps in a row, where there is one

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A function of trees of arrays, compiled as steps are; whatever is no array is static."""
    return eqx.filter_jit(function, compiler_options=COMPILER)  # pyright: ignore[reportCallIssue]


class Algorithm(abc.ABC, Generic[State]):
    """An inference algorithm: a first state, a step, and how a state is saved."""

    @abc.abstractmethod
    def init(self, key: jax.Array) -> State:
        """The state before the first step."""

    @abc.abstractmethod
    def step(self, state: State, key: jax.Array) -> tuple[State, Any]:
        """The state after one more step, and the step's metrics as a named tuple of scalars.

        A field may itself be a named tuple; its fields then count as metrics of their own. A metric
        called ``rejected`` says how many steps in a row, up to this one, left the state as it was
        because the next would not have been finite.
        """

    @abc.abstractmethod
    def advance(
        self, state: State, key: jax.Array, start: int, limit: int, chunk: int
    ) -> tuple[State, Trace]:
        """The state after steps start … limit − 1, at most `chunk` of them, and their metrics."""

    def save(self, state: State) -> Any:
        """The state as a tree of arrays and plain values, for a checkpoint: its arrays by path."""
        return arrays_of(state)

    def restore(self, template: State, saved: Any) -> State:
        """The state that `save` was given, in the structure of a first state."""
        return with_arrays(template, saved)


class CompiledAlgorithm(eqx.Module, Algorithm[State]):
    """An algorithm whose step is pure: arrays are traced, everything else is static.

    Its states consist of arrays only.
    """

    def advance(
        self, state: State, key: jax.Array, start: int, limit: int, chunk: int
    ) -> tuple[State, Trace]:
        """Run the steps in one compiled call."""
        bounds = jnp.asarray(start), jnp.asarray(limit)
        moved, info = jax.block_until_ready(_compiled_steps(self, state, key, *bounds, chunk))
        return moved, {name: np.asarray(x)[: limit - start] for name, x in _metrics(info)}


class HostAlgorithm(Algorithm[State]):
    """An algorithm whose step runs in Python."""

    def advance(
        self, state: State, key: jax.Array, start: int, limit: int, chunk: int
    ) -> tuple[State, Trace]:
        """Run the steps one after the other."""
        taken = []
        for t in range(start, limit):
            state, info = self.step(state, jax.random.fold_in(key, t))
            taken.append(dict(_metrics(info)))
        names = taken[0] if taken else {}
        return state, {name: np.asarray([info[name] for info in taken]) for name in names}


class FitError(RuntimeError):
    """A fit that could not go on; `status` says why."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class Keys(NamedTuple):
    """Where the randomness of a run comes from: its first state, and its steps."""

    init: jax.Array
    steps: jax.Array

    @classmethod
    def of_seed(cls, seed: int) -> Keys:
        """The keys of a seed's own streams."""
        start, steps = Stream.ALGORITHM_START, Stream.ALGORITHM_STEPS
        return cls(streams.key(seed, start), streams.key(seed, steps))


class ResumeState(NamedTuple):
    """What a run needs to go on: the steps taken, their metrics, and the saved state."""

    step: int
    trace: Mapping[str, np.ndarray]
    state: Any


@dataclass(frozen=True, eq=False)
class Outcome(Generic[State]):
    """The last state, the metrics of every step, and what the run took."""

    state: State
    trace: Trace
    status: Status
    steps: int
    compile_seconds: float
    run_seconds: float

    def resume_state(self, algorithm: Algorithm[State]) -> ResumeState:
        """What a later stage saves of this one."""
        return _snapshot(algorithm, self.state, self.steps, self.trace)


@dataclass(frozen=True)
class Schedule:
    """How far to run.

    Attributes
    ----------
    steps
        The budget.
    chunk
        Steps between two reports.
    max_rejected
        Steps in a row that may be rejected before the fit ends.
    stop
        Called with the metrics every `grid` steps; True ends the run.
    grid
        Steps between two such calls.
    """

    steps: int
    chunk: int = 50
    max_rejected: int = 50
    stop: Callable[[Trace], bool] | None = None
    grid: int = GRID


def run(
    algorithm: Algorithm[State],
    keys: Keys,
    schedule: Schedule,
    *,
    report: Callable[[int, Trace], None] = lambda done, trace: None,
    keep: Callable[[Callable[[], ResumeState]], None] = lambda snapshot: None,
    resume: ResumeState | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> Outcome[State]:
    """Run an algorithm from the start, or from where it was left, to the end of its schedule.

    Parameters
    ----------
    algorithm, keys, schedule
        What to run, with which randomness, and how far.
    report
        Is called with the number of steps taken and all their metrics: once when everything is
        compiled and steps begin, then after each chunk.
    keep
        Is called before the first step and after each chunk with a function that returns what is
        needed to go on from there.
    resume
        What an interrupted call with the same other arguments last passed to `keep`.
    expired
        Called after each chunk; True means that the time is over.
    """
    state, done, status = algorithm.init(keys.init), 0, Status.COMPLETED
    trace: Trace = {}
    if resume is not None:
        state, done, trace = algorithm.restore(state, resume.state), resume.step, resume.trace
        status = _judge(schedule, trace, done)
    keep(partial(_snapshot, algorithm, state, done, trace))
    started = time.perf_counter()
    _, names = algorithm.advance(state, keys.steps, done, done, schedule.chunk)  # only compiles
    ready = time.perf_counter()
    trace = trace or names
    report(done, trace)
    while done < schedule.steps and status is Status.COMPLETED:
        following = (done // schedule.grid + 1) * schedule.grid
        limit = min(done + schedule.chunk, following, schedule.steps)
        moved, new = algorithm.advance(state, keys.steps, done, limit, schedule.chunk)
        longer = {name: np.concatenate([trace.get(name, new[name][:0]), new[name]]) for name in new}
        state, trace, done = moved, longer, limit
        keep(partial(_snapshot, algorithm, state, done, trace))
        report(done, trace)
        status = _judge(schedule, trace, done)
        if status is Status.COMPLETED and done < schedule.steps and expired():
            status = Status.TIME
    if status is Status.DIVERGED:
        raise FitError(
            status,
            f"{schedule.max_rejected} steps in a row were not finite, the last at step {done}. "
            "A smaller learning rate or standardised data may help.",
        )
    return Outcome(state, trace, status, done, ready - started, time.perf_counter() - ready)


def _snapshot(algorithm: Algorithm[State], state: State, step: int, trace: Trace) -> ResumeState:
    return ResumeState(step, trace, algorithm.save(state))


def _judge(schedule: Schedule, trace: Trace, done: int) -> Status:
    if trace.get(REJECTIONS, np.zeros(0)).max(initial=0) >= schedule.max_rejected:
        return Status.DIVERGED
    if schedule.stop and done % schedule.grid == 0 and schedule.stop(trace):
        return Status.CONVERGED
    return Status.COMPLETED


def _metrics(info: Any) -> Iterator[tuple[str, Any]]:
    """The fields of nested named tuples, by the innermost name."""
    for name, value in info._asdict().items():
        if isinstance(value, tuple):
            yield from _metrics(value)
        else:
            yield name, value


@compiled
def _compiled_steps(
    algorithm: CompiledAlgorithm[State],
    state: State,
    key: jax.Array,
    start: jax.Array,
    limit: jax.Array,
    chunk: int,
) -> tuple[State, Any]:
    """The state after steps start … limit − 1, and their metrics, with room for `chunk` steps.

    No conditional encloses the step: XLA runs the branches of one on a single core.
    """
    take_step = eqx.filter_closure_convert(algorithm.step, state, key)  # traced once, for its shape
    shapes = take_step.out_struct  # pyright: ignore[reportFunctionMemberAccess]
    metrics = jax.tree.structure(shapes[1])

    def step(carried):
        t, state, trace = carried
        state, info = take_step(state, jax.random.fold_in(key, t))
        row = [x.astype(jnp.float32) for x in jax.tree.leaves(info)]
        return t + 1, state, trace.at[:, t - start].set(jnp.stack(row))

    trace = jnp.zeros((metrics.num_leaves, chunk), jnp.float32)
    _, state, trace = jax.lax.while_loop(
        lambda carried: carried[0] < limit, step, (start, state, trace)
    )
    return state, metrics.unflatten(list(trace))
