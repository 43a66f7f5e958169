"""The same cells on many machines, by Dask."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from svidag.bench.cell import Cell
from svidag.bench.process import in_process
from svidag.bench.rows import Row
from svidag.bench.schema import Source, Table
from svidag.bench.study import Limits
from svidag.run import cores

CORES = cores.usable()
CLUSTER = re.compile(r"(distributed|dask_[a-z]+)(\.[a-z_]+)*\.[A-Z]\w*Cluster")
"""Names that a cluster file may give: to import and call any other could run anything."""


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster to start: its class, its options, and how many jobs or workers.

    Examples
    --------
    A file for a Slurm cluster::

        class = "dask_jobqueue.SLURMCluster"
        jobs = 20
        [options]
        queue = "short"
        cores = 1
        processes = 1
        job_cpu = 2
        memory = "8GB"
        walltime = "04:00:00"
    """

    kind: str = "distributed.LocalCluster"
    options: tuple[tuple[str, Any], ...] = ()
    jobs: int | None = None

    @classmethod
    def read(cls, path: Path) -> Cluster:
        """Read and check a cluster file."""
        source = Source.read(path)
        table = Table(source, source.parse())
        kind = table.text("class")
        if not CLUSTER.fullmatch(kind):
            raise table.error(
                "class",
                "must be a cluster of distributed or of a package of Dask, such as "
                f"distributed.LocalCluster or dask_jobqueue.SLURMCluster, got {kind!r}",
            )
        options = tuple(table.table("options").values.items())
        jobs = table.whole("jobs", None)
        table.close()
        return cls(kind, options, jobs)

    @classmethod
    def local(cls, workers: int | None, limits: Limits) -> Cluster:
        """Worker processes on this machine, one cell at a time in each.

        By default one for each core, or fewer if the memory that is free would not hold a cell at
        its limit in each.
        """
        if workers is None:
            free = psutil.virtual_memory().available / 2**30
            room = int(free // limits.memory_gb) if limits.memory_gb else CORES
            workers = max(1, min(CORES, room))
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        return cls(options=tuple(options.items()))

    def start(self) -> Any:
        """Start it."""
        module, _, name = self.kind.rpartition(".")
        cluster = getattr(importlib.import_module(module), name)(**dict(self.options))
        if self.jobs is not None:
            cluster.scale(self.jobs)
        return cluster


@dataclass(frozen=True)
class Distributed:
    """Cells as tasks of a Dask scheduler: an existing one by address, or one that is started.

    A worker computes each cell in a process of its own and sends the row back; rows are written
    here, so that workers need no common disk. A cell whose worker dies goes to another.
    """

    where: str | Cluster
    limits: Limits
    paths: tuple[str, ...] = ()

    def __call__(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row]]:
        """Compute the cells; stopping early cancels those that have not begun."""
        from distributed import Client, as_completed

        with ExitStack() as stack:
            address = self.where
            if isinstance(address, Cluster):
                address = stack.enter_context(address.start())
            client = stack.enter_context(Client(address))
            limits = self.limits.memory_gb, self.limits.minutes
            tasks = {
                client.submit(
                    in_process,
                    cell.to_dict(),
                    *limits,
                    *self.paths,
                    key=f"svidag-cell-{cell.digest}",
                    pure=False,
                ): cell
                for cell in cells
            }
            try:
                for task in as_completed(tasks):
                    # What else ran on the worker's machine is not known.
                    yield tasks[task], _outcome(task) | {"workers": None}
                    task.release()
            finally:
                client.cancel(list(tasks))


def _outcome(task: Any) -> Row:
    """The row, or why Dask has none (its workers died too often, or it was cancelled)."""
    error = task.exception()
    if error is not None:
        return {"error": f"{type(error).__name__}: {error}"}
    return task.result()
