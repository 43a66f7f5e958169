"""Independent pieces of work side by side, in processes, with what is finished kept.

Fits hold the interpreter for part of their time, more or less of it by mechanism, so that threads
would wait for each other. The result of a piece depends on its number alone: how many run at once
changes nothing.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextvars import copy_context
from typing import Any

from loky import get_reusable_executor
from threadpoolctl import ThreadpoolController

from svidag.run import cores

PATIENCE = 0.2
"""Seconds between two checks of the tasks."""

MOST_RESTARTS = 3
"""How often work is begun again after one of its processes was ended from outside."""

LOST = (
    "a process that a fit was running in was ended by the system, again and again; most likely "
    "memory ran out: use fewer workers, or fewer rows or columns"
)

Work = Callable[[Callable[..., None]], Any]
"""Takes a callback that it calls often, which raises `StoppedError` when the work should end."""


class StoppedError(Exception):
    """Raised in a task whose result is no longer needed."""


def run_side_by_side(
    work: Callable[[int], Work],
    count: int,
    *,
    workers: int,
    done: dict[int, Any],
    finished: Callable[[], None],
    report: Callable[[int], None],
    enough: Callable[[], bool] = lambda: False,
) -> dict[int, Any]:
    """Run the tasks 0, …, count − 1 that are not done, several at once.

    Parameters
    ----------
    work
        The work of a task, by its number; it is sent to another process.
    count, workers
        How many tasks, and how many at once.
    done
        Results so far, by number; those to come are added to it.
    finished
        Called after each task.
    report
        Called with the number of tasks that are done.
    enough
        When it returns True, no further task is started, provided that one is done.

    Examples
    --------
    >>> square = lambda k: lambda alive: k * k
    >>> nothing = lambda *_: None
    >>> found = run_side_by_side(
    ...     square, 3, workers=1, done={0: 0}, finished=nothing, report=nothing
    ... )
    >>> sorted(found.items())
    [(0, 0), (1, 1), (2, 4)]
    """
    waiting = [number for number in range(count) if number not in done]
    pool = _Threads() if workers == 1 or _is_daemon() else _Processes(workers)
    running: dict[Future[Any], int] = {}
    restarts = 0
    try:
        while waiting or running:
            while waiting and len(running) < workers and not (enough() and (done or running)):
                number = waiting.pop(0)
                running[pool.submit(work(number))] = number
            if not running:
                break
            report(len(done))
            ended, _ = wait(running, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=running.__getitem__):
                try:
                    done[running[future]] = future.result()
                except BrokenProcessPool as error:
                    restarts += 1
                    if restarts > MOST_RESTARTS:
                        raise MemoryError(LOST) from error
                    waiting = sorted([*running.values(), *waiting])
                    running.clear()
                    break
                del running[future]
                finished()
        report(len(done))
    finally:
        pool.close(running)
    return done


class _Processes:
    """Workers that stay for the next call, unless they are needed no more before they are done."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.executor = get_reusable_executor(max_workers=workers)

    def submit(self, work: Work) -> Future[Any]:
        # The same workers each time, or new ones if one of them was killed.
        self.executor = get_reusable_executor(max_workers=self.workers)
        return self.executor.submit(_on_one_core, work)

    def close(self, running: dict[Future[Any], int]) -> None:
        if running:
            self.executor.shutdown(kill_workers=True)


def _on_one_core(work: Work) -> Any:
    with cores.at_most(1), ThreadpoolController().limit(limits=1, user_api="blas"):
        return work(lambda *_: None)


class _Threads:
    """A thread beside this one, which reports; several where no process may be started."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor()
        self.stop = threading.Event()
        # Threads of BLAS in each task would compete for the cores.
        self.limits = ThreadpoolController().limit(limits=1, user_api="blas")

    def submit(self, work: Work) -> Future[Any]:
        return self.executor.submit(copy_context().run, work, self._alive)

    def close(self, running: dict[Future[Any], int]) -> None:
        self.limits.restore_original_limits()
        self.stop.set()
        self.executor.shutdown(wait=not running, cancel_futures=True)

    def _alive(self, *_: Any) -> None:
        if self.stop.is_set():
            raise StoppedError


def _is_daemon() -> bool:
    """Whether this process may not start others: it is itself a worker that ends with another."""
    return multiprocessing.current_process().daemon
