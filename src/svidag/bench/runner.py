"""Computing the cells of a study that have no row yet."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from svidag.bench.cell import Cell
from svidag.bench.process import CellProcess
from svidag.bench.progress import Watcher
from svidag.bench.rows import Row, Store
from svidag.bench.study import Limits

Executor = Callable[[Sequence[Cell]], Iterator[tuple[Cell, Row]]]
"""Computes cells in any order; yields each with its row or failure as soon as it is finished."""


@dataclass(frozen=True)
class Tally:
    """How many cells a run skipped, finished and failed to compute."""

    skipped: int
    finished: int
    failed: int


def run(
    cells: Iterable[Cell], store: Store, execute: Executor, watch: Watcher, *, again: bool = False
) -> Tally:
    """Compute the cells without a row, keep each row as it comes, and count.

    A cell that failed before is tried again; with `again` every cell is computed anew.
    """
    cells = list(cells)
    done = set() if again else store.done()
    todo = [cell for cell in cells if cell.digest not in done]
    failed = 0
    watch.open(len(cells) - len(todo), len(cells))
    try:
        for cell, row in execute(todo):
            row = {"digest": cell.digest, "cell": cell.content, "name": cell.name} | row
            error = row.get("error")
            failed += error is not None
            (store.keep if error is None else store.keep_failure)(row)
            watch.ended(cell.name, row.get("seconds", {}).get("total", 0.0), error)
    finally:
        watch.close()
    return Tally(len(cells) - len(todo), len(todo) - failed, failed)


def compare(
    cells: Sequence[Cell], rows: Mapping[str, Row], execute: Executor, watch: Watcher
) -> dict[str, list[str]]:
    """Compute the cells again and list the differences of those whose metrics have changed."""
    wrong = {}
    watch.open(0, len(cells))
    try:
        for cell, row in execute(cells):
            error = row.get("error")
            if error is not None:
                wrong[cell.name] = [error]
            elif found := list(differences(rows[cell.digest]["metrics"], row["metrics"])):
                wrong[cell.name] = found
            watch.ended(cell.name, row["seconds"]["total"], error)
    finally:
        watch.close()
    return wrong


def differences(kept: Any, new: Any, place: str = "metrics") -> Iterator[str]:
    """Where two nested records of metrics differ by more than a millionth.

    Examples
    --------
    >>> list(differences({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}))
    ['metrics.a.1: 2.0 in the row, 2.1 now']
    """
    if isinstance(kept, dict) and isinstance(new, dict) and kept.keys() == new.keys():
        for name in kept:
            yield from differences(kept[name], new[name], f"{place}.{name}")
    elif isinstance(kept, list) and isinstance(new, list) and len(kept) == len(new):
        for index, pair in enumerate(zip(kept, new, strict=True)):
            yield from differences(*pair, f"{place}.{index}")
    elif not _same(kept, new):
        yield f"{place}: {kept!r} in the row, {new!r} now"


def _same(kept: Any, new: Any) -> bool:
    numbers = all(isinstance(value, int | float) for value in (kept, new))
    return math.isclose(kept, new, rel_tol=1e-6, abs_tol=1e-6) if numbers else kept == new


@dataclass(frozen=True)
class Local:
    """Cells in processes on this machine.

    Attributes
    ----------
    workers
        Cells at the same time. A fit uses every core, so times are a user's with 1 only.
    limits
        Of each cell.
    paths
        Folders in which cells find modules that the study names.
    """

    workers: int
    limits: Limits
    paths: tuple[str, ...] = ()

    def __call__(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row]]:
        """Compute the cells; stopping early ends every process."""
        pool = _Pool(self.limits, self.paths)
        threads = ThreadPoolExecutor(self.workers)
        try:
            futures = {threads.submit(pool.compute, cell): cell for cell in cells}
            for future in as_completed(futures):
                yield futures[future], future.result() | {"workers": self.workers}
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.close()


class _Pool:
    """Processes that wait for cells; each is used for as many as the limits say."""

    def __init__(self, limits: Limits, paths: tuple[str, ...]) -> None:
        self._limits, self._paths = limits, paths
        self._idle: queue.SimpleQueue[CellProcess] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._all: set[CellProcess] = set()
        self._closed = False

    def compute(self, cell: Cell) -> Row:
        process = self._take()
        row = process.compute(cell.to_dict(), self._limits.memory_gb, self._limits.minutes)
        if process.alive and process.cells < self._limits.cells_per_process:
            self._idle.put(process)
        else:
            self._drop(process)
        return row

    def _take(self) -> CellProcess:
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._lock:
            if self._closed:
                raise RuntimeError("the run was stopped")
            process = CellProcess(self._paths)
            self._all.add(process)
        return process

    def _drop(self, process: CellProcess) -> None:
        with self._lock:
            self._all.discard(process)
        process.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            processes, self._all = self._all, set()
        for process in processes:
            process.close()
