"""Cells on a real Dask scheduler: a worker killed in the middle loses and doubles nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from svidag.bench import cluster
from svidag.bench.cluster import Cluster, Distributed
from svidag.bench.progress import Watcher
from svidag.bench.rows import Store
from svidag.bench.runner import run
from svidag.bench.schema import StudyError
from svidag.bench.study import Limits, Study
from svidag.cli import app

pytestmark = pytest.mark.slow  # starts clusters

CELLS = 3
TOY = """
import os, time
import numpy as np
from pathlib import Path
from svidag.posterior import DrawnGraphs, Posterior

def slow(example, *, prior, seed, log):
    # The parent of a cell's process is the Dask worker.
    Path(log, f"began-{seed}-{os.getppid()}").touch()
    try:
        Path(log, "first").touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        Path(log, f"victim-{os.getppid()}").touch()
        time.sleep(300)
    names = tuple(example.data.columns)
    Path(log, f"ended-{seed}-{os.getppid()}").touch()
    return Posterior(names, DrawnGraphs(prior.bind(names).sample(5, seed=seed), np.full(5, 0.2)))
"""
STUDY = f"""
replicates = {CELLS}
draws = 5
[data.tiny]
source = "synthetic"
m = 3
edges = 2
n = 10
[method.toy]
method = "slow_method:slow"
log = "LOG"
[[cells]]
data = "tiny"
method = "toy"
"""


class Quiet(Watcher):
    def open(self, there, total):
        self.ends = []

    def ended(self, name, seconds, error):
        self.ends.append((name, error))

    def close(self):
        pass


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", *arguments, "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler and two workers, each a process of its own."""
    file = str(tmp_path / "scheduler.json")
    options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)]
    processes = [start("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", file)]
    processes += [
        start("distributed.cli.dask_worker", "--scheduler-file", file, *options) for _ in range(2)
    ]
    yield file
    for process in processes:
        process.kill()
        process.wait()


def address(file):
    while not Path(file).exists():
        time.sleep(0.05)
    return json.loads(Path(file).read_text())["address"]


def kill_first(log):
    """Kill -9 the worker of the first cell that began, once it has."""
    while not (victims := list(Path(log).glob("victim-*"))):
        time.sleep(0.05)
    os.kill(int(victims[0].name.split("-")[1]), signal.SIGKILL)


def test_a_killed_worker_loses_no_cell_and_doubles_none(tmp_path, scheduler):
    log = tmp_path / "log"
    log.mkdir()
    (tmp_path / "slow_method.py").write_text(TOY)
    (tmp_path / "study.toml").write_text(STUDY.replace("LOG", str(log)))
    study, store, watch = Study.read(tmp_path / "study.toml"), Store(tmp_path / "rows"), Quiet()
    execute = Distributed(address(scheduler), study.limits, (str(tmp_path),))
    killer = threading.Thread(target=kill_first, args=(log,))
    killer.start()
    tally = run(study.cells, store, execute, watch)
    killer.join()
    assert (tally.skipped, tally.finished, tally.failed) == (0, CELLS, 0)
    assert sorted(watch.ends) == [(cell.name, None) for cell in study.cells]
    assert store.done() == {cell.digest for cell in study.cells}
    # One cell began twice; every cell came to its end once.
    assert len(list(log.glob("began-*"))) == CELLS + 1
    assert len(list(log.glob("ended-*"))) == CELLS
    assert run(study.cells, store, execute, watch).skipped == CELLS


def test_the_command_computes_on_dask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = STUDY.replace('"slow_method:slow"\nlog = "LOG"', '"exact"')
    Path("study.toml").write_text(text)
    said = CliRunner().invoke(app, ["bench", "run", "study.toml", "--dask", "--workers", "1"])
    assert f"{CELLS} finished, 0 failed" in said.output
    assert {row["workers"] for row in Store(Path("results/study")).rows().values()} == {None}


@pytest.mark.parametrize(("limit", "workers"), [(None, 4), (3.0, 3), (100.0, 1)])
def test_a_local_cluster_is_as_large_as_cores_and_memory_allow(monkeypatch, limit, workers):
    monkeypatch.setattr(cluster, "CORES", 4)
    free = SimpleNamespace(available=10 * 2**30)
    monkeypatch.setattr(cluster.psutil, "virtual_memory", lambda: free)
    options = dict(Cluster.local(None, Limits(memory_gb=limit)).options)
    assert (options["n_workers"], options["threads_per_worker"]) == (workers, 1)


def test_a_cluster_file_names_a_class_its_options_and_the_jobs(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text('class = "dask_jobqueue.SLURMCluster"\njobs = 3\n[options]\ncores = 2\n')
    assert Cluster.read(file) == Cluster("dask_jobqueue.SLURMCluster", (("cores", 2),), 3)
    file.write_text('class = "SLURM"\n')
    with pytest.raises(StudyError, match=r"line 1: class must be a cluster of distributed"):
        Cluster.read(file)
    file.write_text('class = "distributed.LocalCluster"\ncores = 2\n')
    with pytest.raises(StudyError, match="line 2: cores is not a known key"):
        Cluster.read(file)


def test_a_job_queue_starts_with_its_options(tmp_path):
    options = {"cores": 1, "job_cpu": 2, "memory": "1GB", "queue": "short"}
    described = Cluster(
        "dask_jobqueue.SLURMCluster", (*options.items(), ("dashboard_address", None))
    )
    started = described.start()
    try:
        assert "#SBATCH -p short" in started.job_script()
        assert "#SBATCH --cpus-per-task=2" in started.job_script()
        assert "--nthreads 1" in started.job_script()
    finally:
        started.close()
