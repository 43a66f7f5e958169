"""The loop on a toy algorithm: chunks, stop rules, checkpoints, rejected steps, interruption."""

import contextlib
import io
import re
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from svidag.run import loop
from svidag.run.checkpoint import FORMAT, Checkpoint, Interrupted, resumable
from svidag.run.loop import CompiledAlgorithm, HostAlgorithm, Keys, ResumeState, Schedule, run
from svidag.run.status import Status

traces = []


class WalkState(eqx.Module):
    place: Array
    rejected: Array


class WalkInfo(NamedTuple):
    height: Array
    rejected: Array


class Walk(CompiledAlgorithm[WalkState]):
    """A random walk that is not finite beyond `wall` steps."""

    wall: Array

    def init(self, key):
        return WalkState(jax.random.normal(key, (3,)), jnp.zeros((), jnp.int32))

    def step(self, state, key):
        traces.append(None)
        place = state.place + jax.random.normal(key, (3,))
        fine = jnp.linalg.norm(place) < self.wall
        state = WalkState(
            jnp.where(fine, place, state.place), jnp.where(fine, 0, state.rejected + 1)
        )
        return state, WalkInfo(place[0], state.rejected)


def walk(wall=jnp.inf):
    return Walk(jnp.asarray(wall))


class Reports:
    """Collects what is reported, and may interrupt the run."""

    def __init__(self, interrupt_at=None):
        self.seen, self._interrupt_at = [], interrupt_at

    def __call__(self, done, trace):
        self.seen.append(done)
        if self._interrupt_at is not None and done >= self._interrupt_at:
            raise KeyboardInterrupt


def outcome(seed=0, steps=230, report=None, checkpoint=None, algorithm=None, **schedule):
    """A run, with its checkpoint if it has one, as methods do it."""
    report, checkpoint = report or Reports(), checkpoint or Checkpoint(None, {})
    saved = checkpoint.load()
    with resumable(checkpoint):
        found = run(
            algorithm or walk(),
            Keys.of_seed(seed),
            Schedule(steps, **schedule),
            report=report,
            keep=lambda snapshot: checkpoint.keep("steps", snapshot),
            resume=None if saved is None else saved.state,
        )
        checkpoint.write()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
def test_the_chunk_size_changes_nothing(chunk):
    plain, chunked = outcome(chunk=23), outcome(chunk=chunk)
    assert (plain.state.place == chunked.state.place).all()
    assert (plain.trace["height"] == chunked.trace["height"]).all()
    assert len(chunked.trace["height"]) == chunked.steps == 230


@pytest.mark.slow
def test_a_stop_rule_acts_at_the_same_step_whatever_the_chunk():
    def stop(trace):
        return len(trace["height"]) >= 150

    ends = [outcome(steps=1000, chunk=c, stop=stop) for c in (9, 64, 300)]
    assert [e.steps for e in ends] == [200, 200, 200]
    assert {e.status for e in ends} == {Status.CONVERGED}
    assert (ends[0].state.place == ends[2].state.place).all()


def test_seeds_differ_and_repeat():
    assert (outcome(seed=1).state.place == outcome(seed=1).state.place).all()
    assert (outcome(seed=1).state.place != outcome(seed=2).state.place).any()


def test_one_trace_serves_all_fits_of_one_shape():
    outcome(chunk=31)
    before = len(traces)
    outcome(seed=5, chunk=31, steps=400)
    assert len(traces) == before


def test_a_resumed_run_equals_one_left_alone(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.npz", {"seed": 0}, every=0.0)
    with pytest.raises(Interrupted, match=r"saved in .*run\.npz.*goes on"):
        outcome(report=Reports(interrupt_at=90), checkpoint=checkpoint, chunk=30)
    reports = Reports()
    resumed = outcome(report=reports, checkpoint=checkpoint, chunk=30)
    assert reports.seen[0] == 90
    plain = outcome(chunk=30)
    assert (resumed.state.place == plain.state.place).all()
    assert (resumed.trace["height"] == plain.trace["height"]).all()
    again = outcome(checkpoint=checkpoint, chunk=30)  # finished: nothing left to do
    assert (again.state.place == plain.state.place).all()


def test_a_resumed_run_does_not_pass_its_stop_rule(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.npz", {}, every=1e9)
    schedule = {"steps": 1000, "stop": lambda trace: len(trace["height"]) == 200}
    with pytest.raises(Interrupted, match="saved in"):
        outcome(report=Reports(interrupt_at=200), checkpoint=checkpoint, **schedule)
    for _ in range(2):
        resumed = outcome(checkpoint=checkpoint, **schedule)
        assert (resumed.steps, resumed.status) == (200, Status.CONVERGED)


def test_an_interruption_after_a_chunk_keeps_state_and_step_together(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "run.npz", {}, every=0.0)
    calls = []

    class Interrupting:
        def __getattr__(self, name):
            return getattr(np, name)

        def concatenate(self, arrays):
            calls.append(None)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return np.concatenate(arrays)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "np", Interrupting())
        with pytest.raises(Interrupted, match="saved in"):
            outcome(checkpoint=checkpoint)
    resumed, plain = outcome(checkpoint=checkpoint), outcome()
    assert (resumed.state.place == plain.state.place).all()
    assert (resumed.trace["height"] == plain.trace["height"]).all()


def test_interruption_while_compiling_says_what_to_do(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path / "run.npz", {})
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_compiled_steps", interrupted)
        with pytest.raises(Interrupted, match="saved in"):
            outcome(checkpoint=checkpoint)
    resumed, plain = outcome(checkpoint=checkpoint), outcome()
    assert (resumed.trace["height"] == plain.trace["height"]).all()


def test_interruption_without_a_checkpoint_says_what_to_do():
    with pytest.raises(Interrupted, match="checkpoint=PATH"):
        outcome(report=Reports(interrupt_at=50))


def test_reports_come_when_steps_begin_and_after_each_chunk():
    reports = Reports()
    outcome(steps=130, chunk=60, report=reports)
    assert reports.seen == [0, 60, 100, 130]  # stopping rules look every 100 steps


class Sum(NamedTuple):
    total: float


class Nested(NamedTuple):
    outer: Sum
    draw: float


class HostWalk(HostAlgorithm[float]):
    """A random walk in Python."""

    def init(self, key):
        return 0.0

    def step(self, state, key):
        draw = float(jax.random.normal(key))
        return state + draw, Nested(Sum(state + draw), draw)

    def save(self, state):
        return {"total": state}

    def restore(self, template, saved):
        return saved["total"]


def test_steps_on_the_host_run_on_the_same_loop(tmp_path):
    whole = outcome(steps=12, algorithm=HostWalk(), chunk=5)
    key = Keys.of_seed(0).steps
    draws = [float(jax.random.normal(jax.random.fold_in(key, t))) for t in range(12)]
    assert whole.trace["draw"].tolist() == draws
    assert whole.trace["total"][-1] == whole.state == pytest.approx(sum(draws))
    checkpoint = Checkpoint(tmp_path / "run.npz", {}, every=0.0)
    with contextlib.suppress(Interrupted):
        outcome(steps=12, algorithm=HostWalk(), chunk=4, checkpoint=checkpoint, report=Reports(8))
    resumed = outcome(steps=12, algorithm=HostWalk(), checkpoint=checkpoint)
    assert resumed.state == whole.state
    assert resumed.trace["total"].tolist() == whole.trace["total"].tolist()


def test_time_ends_a_run_after_a_chunk():
    ended = run(walk(), Keys.of_seed(0), Schedule(100, chunk=20), expired=lambda: True)
    assert (ended.steps, ended.status) == (20, Status.TIME)


def test_a_checkpoint_of_another_fit_is_refused_by_name(tmp_path):
    path = tmp_path / "run.npz"
    outcome(checkpoint=Checkpoint(path, {"seed": 0, "tau": 0.1}))
    with pytest.raises(ValueError, match=r"another fit \(tau: 0.1 there, 0.2 now\)"):
        outcome(checkpoint=Checkpoint(path, {"seed": 0, "tau": 0.2}))


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    outcome(checkpoint=Checkpoint(path, {}))
    whole = path.read_bytes()
    cut = len(whole) // 2
    flipped = whole[:cut] + bytes([whole[cut] ^ 0xFF]) + whole[cut + 1 :]
    for content in (b"", whole[:cut], flipped, b"not an archive", _pickled()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            outcome(checkpoint=Checkpoint(path, {}))


def _pickled() -> bytes:
    file = io.BytesIO()
    np.savez(file, header=np.array([{"format": FORMAT}], dtype=object))
    return file.getvalue()


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    arrays = {".place": np.zeros(4, np.float32), ".rejected": np.zeros((), np.int32)}
    other = Checkpoint(tmp_path / "run.npz", {})
    other.keep("steps", lambda: ResumeState(3, {}, arrays))
    with pytest.raises(ValueError, match=r"does not hold the state\.place"):
        outcome(checkpoint=Checkpoint(tmp_path / "run.npz", {}))


def test_a_failed_write_leaves_the_old_file(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a", {}, every=1e9)
    checkpoint.keep("steps", lambda: np.arange(3))
    checkpoint.keep("steps", lambda: np.array([object()]))
    with pytest.raises(ValueError, match="cannot be saved"):
        checkpoint.write()
    assert (Checkpoint(tmp_path / "a", {}).load().state == np.arange(3)).all()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
