"""One fit on a real Dask scheduler and two worker processes: the bits of one machine."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext

import dask
import numpy as np
import pytest
from dask.context import thread_state
from distributed import Client, LocalCluster, get_worker
from distributed.worker_state_machine import FreeKeysEvent
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.run import dask_pool
from svidag.run.dask_pool import DaskPool
from svidag.run.pools import Shared
from svidag.run.progress import Meter
from svidag.run.side_by_side import MOST_RESTARTS, run_all
from svidag.run.workers import open_workers

pytestmark = pytest.mark.slow  # starts a cluster

QUICK = svidag.methods.OrderMCMC(exact=False, chains=3, orders=40, check_every=20, thin=4)
LINEAR = svidag.datasets.synthetic(m=8, edges=9, n=200, seed=1).data
CURVED = svidag.datasets.synthetic(m=4, edges=4, n=60, kind="nonlinear", seed=2).data


@pytest.fixture(scope="module")
def cluster():
    # By default it gives up a killed worker that is not back after 15 s, as on a busy machine.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "5 minutes"})
    arguments = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with patient, LocalCluster(n_workers=2, **arguments) as found:
        yield found


@pytest.fixture
def client(cluster):
    with Client(cluster, set_as_default=False) as found:
        found.wait_for_workers(2, timeout=120)
        yield found


def fit(data=LINEAR, mechanism="linear", **given):
    return svidag.fit(data, **{"method": QUICK, "mechanism": mechanism, "progress": False, **given})


def bits(posterior):
    return posterior.graphs.edge_probabilities().tobytes(), posterior.sample(20).tobytes()


def pids(client):
    return list(client.run(os.getpid, on_error="ignore").values())


@pytest.fixture(scope="module")
def alone():
    """The fit of one machine."""
    return bits(fit(workers=1))


class Watcher(Meter):
    """Calls back with the stage and what is done."""

    def __init__(self, call):
        self.call = call

    def open(self, title, done, total):
        self.title = title

    def update(self, done, metrics):
        self.call(self.title, done)

    def close(self):
        pass


def test_chains_and_searches_have_the_bits_of_one_machine(client, alone):
    seen = []
    found = fit(workers=client, progress=Watcher(lambda *at: seen.append(at)))
    assert bits(found) == alone
    moved = [done for title, done in seen if title.startswith("moving")]
    assert moved == sorted(moved)
    assert moved[-1] == QUICK.chains * (QUICK.burn_in + QUICK.orders * QUICK.thin)


def test_scores_of_families_have_the_bits_of_one_machine(client, monkeypatch):
    monkeypatch.setattr("svidag.scores.spread_scores.LEAST_SECONDS", 1e-3)
    sent, submit = [], DaskPool.submit
    monkeypatch.setattr(
        DaskPool, "submit", lambda *given: sent.append(given[1].__name__) or submit(*given)
    )
    found = fit(CURVED, "flexible", workers=client)
    assert bits(found) == bits(fit(CURVED, "flexible", workers=1))
    assert {"_score", "_move_on", "run_search"} == set(sent)


def test_fits_of_a_mixture_have_the_bits_of_one_machine(cluster):
    given = {"method": "exact", "bags": 3, "bag_rows": 50}
    found = fit(**given, workers=cluster.scheduler_address)
    assert bits(found) == bits(fit(**given, workers=1))


@pytest.mark.parametrize("times", [1, 1 + MOST_RESTARTS])
def test_a_task_that_no_worker_has_is_sent_again(client, tmp_path, monkeypatch, times):
    """Or, if that does not help, the call ends with an error."""
    monkeypatch.setattr(dask_pool, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(dask_pool, "COUNT_SECONDS", 0.2)
    helps = times <= MOST_RESTARTS
    with nullcontext() if helps else pytest.raises(RuntimeError, match="neither finish nor work"):
        found = within(60, run_all, be_dropped, [(tmp_path, times)], pool=DaskPool(client))
        assert found == [times]


def be_dropped(shared, own, alive):
    """Let the worker drop the task without a word, so many times."""
    directory, times = own
    dropped = len(list(directory.iterdir()))
    if dropped < times:
        (directory / f"{dropped}").touch()
        worker, event = get_worker(), FreeKeysEvent(keys=[thread_state.key], stimulus_id="test")
        worker.loop.add_callback(worker.handle_stimulus, event)
        sleep(shared, 60, alive)
    return dropped


def within(seconds, call, *given, **named):
    """What a call returns or raises, in so many seconds."""
    future = Future()

    def run():
        try:
            future.set_result(call(*given, **named))
        except BaseException as error:  # noqa: BLE001 — the caller gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(timeout=seconds)


def test_a_fit_goes_on_from_its_checkpoint_with_other_workers(client, alone, tmp_path):
    def interrupt(title, done):
        if title.startswith("moving") and done > QUICK.chains * (QUICK.burn_in + 20 * QUICK.thin):
            raise KeyboardInterrupt

    given = {"checkpoint": tmp_path / "state"}
    with pytest.raises(KeyboardInterrupt, match="saved in"):
        fit(workers=client, progress=Watcher(interrupt), **given)
    assert bits(fit(workers=1, **given)) == alone


def test_an_interruption_cancels_the_tasks(client):
    def interrupt(done):
        raise KeyboardInterrupt

    pool = DaskPool(client)
    with pytest.raises(KeyboardInterrupt):
        run_all(sleep, [0.0, 60.0, 60.0], pool=pool, report=interrupt)
    assert_soon(lambda: not any(client.processing().values()))
    assert_soon(lambda: not any(client.run(executing).values()))


def sleep(shared, seconds, alive):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(0.05)
        alive()


def executing(dask_worker):
    return len(dask_worker.state.executing)


def assert_soon(true, seconds=10):
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_what_tasks_share_is_sent_once_and_released(client):
    shared = Shared(np.zeros(10**5))
    found = run_all(identity, list(range(6)), pool=DaskPool(client), shared=shared)
    assert len(set(found)) == len({pid for pid, _ in found})  # one array in each process
    del shared
    assert_soon(lambda: not any(client.has_what().values()))


def identity(shared, own, alive):
    return os.getpid(), id(shared)


def test_errors_of_tasks_come_back(client):
    with pytest.raises(ZeroDivisionError):
        run_all(divide, [1, 0], pool=DaskPool(client))


def divide(shared, own, alive):
    return 1 / own


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1:9", "nonsense://a:1"])
def test_a_scheduler_that_does_not_answer_is_an_error_at_once(address, monkeypatch):
    monkeypatch.setattr(dask_pool, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at workers='{address}'"):
        fit(workers=address)


@pytest.mark.parametrize("workers", ["many", 0, -1, True, 2.5, [2], "tcp://host", object()])
def test_other_workers_are_refused(workers):
    with pytest.raises(ValueError, match="workers must be a whole number from 1 on, the address"):
        fit(workers=workers)


def test_workers_without_the_same_packages_are_refused(client, monkeypatch):
    monkeypatch.setattr(dask_pool, "_VERSIONS", "__import__('svidag_of_nobody')")
    with (
        pytest.raises(ImportError, match=r"worker tcp://.* cannot run svidag: No module"),
        open_workers(client),
    ):
        pass
    monkeypatch.undo()
    monkeypatch.setattr(dask_pool, "_versions", lambda: ("python 0", *["svidag 0"] * 4))
    with pytest.raises(ValueError, match="install the same versions"), open_workers(client):
        pass


def test_dask_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'svidag\[workers\]'"):
        fit(workers="tcp://127.0.0.1:9")


def test_the_command_takes_an_address(cluster, tmp_path, alone):
    LINEAR.to_csv(tmp_path / "table.csv", index=False)
    values = {"exact": "false", "chains": 3, "orders": 40, "check_every": 20, "thin": 4}
    settings = [f"--set={name}={value}" for name, value in values.items()]
    asked = ["--mechanism=linear", "--workers", cluster.scheduler_address, *settings]
    said = CliRunner().invoke(
        app,
        ["fit", f"{tmp_path / 'table.csv'}", "--output", f"{tmp_path / 'run'}", "--quiet", *asked],
    )
    assert said.exit_code == 0, said.output
    assert np.allclose(
        svidag.load(tmp_path / "run").graphs.edge_probabilities().ravel(),
        np.frombuffer(alone[0]),
    )


# Last, since the next test has to wait until killed workers are back.


def test_killed_workers_lose_nothing(client, alone):
    """One in the middle, then both: what was scattered goes with them and is scattered again."""
    to_kill = [pids(client)[:1], None]

    def kill(title, done):
        if title.startswith("moving") and to_kill:
            for pid in to_kill.pop(0) or pids(client):
                os.kill(pid, signal.SIGKILL)

    assert bits(fit(workers=client, progress=Watcher(kill))) == alone
    assert not to_kill


def test_a_result_that_is_lost_on_its_way_is_computed_again(client, tmp_path):
    """All workers end while it is sent, and what its task needs ends with them."""
    tasks = [(tmp_path / "sent", pids(client))]
    found = within(
        120, run_all, end_when_sent, tasks, pool=DaskPool(client), shared=Shared("table")
    )
    assert found == ["table"]
    assert (tmp_path / "sent").exists()


def end_when_sent(shared, own, alive):
    first, pids = own
    return shared if first.exists() else EndsWorkers(first, pids)


class EndsWorkers:
    """Ends all workers when it is written for the way to another process."""

    def __init__(self, first, pids):
        self.first, self.pids = first, pids

    def __reduce__(self):
        self.first.touch()
        for pid in sorted(self.pids, key=os.getpid().__eq__):  # this one last
            os.kill(pid, signal.SIGKILL)
