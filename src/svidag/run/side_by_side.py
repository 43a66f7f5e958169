"""Independent pieces of work side by side, in threads, with what is finished kept.

A fit spends its time in compiled code that holds no lock, so threads do what processes would do
without starting an interpreter each. The result of a piece depends on its number alone: how many
run at once changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from threadpoolctl import ThreadpoolController

PATIENCE = 0.2
"""Seconds between two checks of the tasks."""


class StoppedError(Exception):
    """Raised in a task whose result is no longer needed."""


def run_side_by_side(
    work: Callable[[int, Callable[..., None]], Any],
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
        Takes the number of a task, and a callback that it calls often, which raises `StoppedError`
        when the task should end.
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
    >>> square = lambda k, alive: k * k
    >>> nothing = lambda *_: None
    >>> found = run_side_by_side(
    ...     square, 3, workers=2, done={0: 0}, finished=nothing, report=nothing
    ... )
    >>> sorted(found.items())
    [(0, 0), (1, 1), (2, 4)]
    """
    stop = threading.Event()

    def alive(*_: Any) -> None:
        if stop.is_set():
            raise StoppedError

    waiting = [number for number in range(count) if number not in done]
    running: dict[Future[Any], int] = {}
    pool = ThreadPoolExecutor(workers)
    # Threads of BLAS in each task would compete for the cores. The limit is set once for all tasks.
    limits = ThreadpoolController().limit(limits=1, user_api="blas")
    try:
        while waiting or running:
            while waiting and len(running) < workers and not (enough() and (done or running)):
                number = waiting.pop(0)
                running[pool.submit(copy_context().run, work, number, alive)] = number
            if not running:
                break
            report(len(done))
            ended, _ = wait(running, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=running.__getitem__):
                done[running.pop(future)] = future.result()
                finished()
        report(len(done))
    finally:
        limits.restore_original_limits()
        stop.set()
        pool.shutdown(wait=not running, cancel_futures=True)
    return done
