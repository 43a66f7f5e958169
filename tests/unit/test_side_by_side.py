"""Work in processes: results by number, killed workers, interruptions."""

import os
import signal
import time

import pytest

from svidag.run import cores, pools
from svidag.run.pools import Processes, Shared
from svidag.run.side_by_side import MOST_RESTARTS, run_all, run_side_by_side


def nothing(*_):
    """No report."""


def run(work, count, done=None, **given):
    done = {} if done is None else done
    told = {"finished": nothing, "report": nothing, **given}
    return run_side_by_side(call, work, count, pool=Processes(2), done=done, **told)


def call(_, work, alive):
    return work(alive)


@pytest.mark.slow
def test_work_runs_in_other_processes_on_one_core_each():
    found = run(lambda k: lambda alive: (k, os.getpid(), cores.usable()), 4, done={2: "known"})
    assert found.pop(2) == "known"
    assert [found[k][0] for k in sorted(found)] == [0, 1, 3]
    assert os.getpid() not in {pid for _, pid, _ in found.values()}
    assert {usable for *_, usable in found.values()} == {1}


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path):
    first = tmp_path / "first"

    def work(k):
        def killed_once(alive):
            if k == 1 and not first.exists():
                first.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return k

        return killed_once

    assert run(work, 4) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert first.exists()


@pytest.mark.slow
def test_work_that_is_killed_each_time_ends_in_plain_words():
    def work(k):
        return lambda alive: os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(MemoryError, match="memory ran out: use fewer workers"):
        run(work, 1 + MOST_RESTARTS)


@pytest.mark.slow
def test_an_interruption_ends_the_workers(tmp_path):
    started = time.monotonic()

    def work(k):
        def sleep(alive):
            (tmp_path / f"{k}").touch()
            time.sleep(600)

        return sleep

    def interrupt(done):
        if len(list(tmp_path.iterdir())) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(work, 2, report=interrupt)
    assert time.monotonic() - started < 60
    assert run(lambda k: lambda alive: k, 2) == {0: 0, 1: 1}


@pytest.mark.slow
def test_errors_of_the_work_come_back():
    def work(k):
        return lambda alive: 1 / (k - 1)

    with pytest.raises(ZeroDivisionError):
        run(work, 3)


@pytest.mark.slow
@pytest.mark.parametrize("room", [True, False], ids=["file", "no room for a file"])
def test_what_tasks_share_is_written_once_and_removed(tmp_path, monkeypatch, room):
    monkeypatch.setattr(pools.tempfile, "tempdir", str(tmp_path if room else tmp_path / "none"))
    shared = Shared(b"x" * pools.LARGE)
    found = run_all(size_of, [1, 2, 3], pool=Processes(2), shared=shared)
    assert found == [pools.LARGE + k for k in (1, 2, 3)]
    assert len(list(tmp_path.iterdir())) == room
    del shared
    assert not list(tmp_path.iterdir())


def size_of(shared, own, alive):
    return len(shared) + own
