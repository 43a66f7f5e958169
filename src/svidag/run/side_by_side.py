"""Independent pieces of work side by side, with what is finished kept.

The result of a piece depends on its number alone: where it runs, how many run at once and which of
them were lost with their worker changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from svidag.run.pools import NOTHING, LostError, Pool, Shared, Task, ignore

__all__ = ["Sliced", "run_all", "run_side_by_side", "run_to_end"]

PATIENCE = 0.2
"""Seconds between two checks of the tasks."""

MOST_RESTARTS = 3
"""How often in a row tasks are begun again that were lost."""


@runtime_checkable
class Sliced(Protocol):
    """Work that a task carries on from where the last one left it."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        ...


Work = TypeVar("Work", bound=Sliced)


def run_side_by_side(
    task: Task,
    own: Callable[[int], Any],
    count: int,
    *,
    pool: Pool,
    shared: Shared = NOTHING,
    done: dict[int, Any],
    finished: Callable[[], None],
    report: Callable[[int], None],
    enough: Callable[[], bool] = lambda: False,
) -> dict[int, Any]:
    """Run the tasks 0, …, count − 1 that are not done, as many at once as there are workers.

    Parameters
    ----------
    task, shared
        What is done, and what every task needs.
    own
        What is a task's own, by its number; called when the task begins.
    count, pool
        How many tasks, and where they run.
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
    >>> from svidag.run.pools import Threads
    >>> def square(shared, k, alive): return k * k
    >>> nothing = lambda *_: None
    >>> found = run_side_by_side(
    ...     square, lambda k: k, 3, pool=Threads(1), done={0: 0}, finished=nothing, report=nothing
    ... )
    >>> sorted(found.items())
    [(0, 0), (1, 1), (2, 4)]
    """

    def may_begin(running: int) -> bool:
        return running < pool.size and not (enough() and (done or running))

    def ended(number: int, result: Any) -> bool:
        done[number] = result
        finished()
        return False

    waiting = [number for number in range(count) if number not in done]
    _drive(task, own, waiting, pool, shared, ended, lambda: report(len(done)), may_begin)
    report(len(done))
    return done


def run_all(
    task: Task,
    own: Sequence[Any],
    *,
    pool: Pool,
    shared: Shared = NOTHING,
    report: Callable[[int], None] = lambda done: None,
) -> list[Any]:
    """The result of every task, in their order; `report` is called with how many are done.

    Examples
    --------
    >>> from svidag.run.pools import Threads
    >>> run_all(lambda shared, k, alive: k + shared, [1, 2], pool=Threads(), shared=Shared(1))
    [2, 3]
    """
    found: dict[int, Any] = {}

    def ended(number: int, result: Any) -> bool:
        found[number] = result
        report(len(found))
        return False

    _drive(task, own.__getitem__, list(range(len(own))), pool, shared, ended)
    return [found[number] for number in range(len(own))]


def run_to_end(
    task: Task,
    works: Sequence[Work],
    *,
    pool: Pool,
    shared: Shared = NOTHING,
    report: Callable[[list[Work]], None] = ignore,
    heard: Callable[..., None] = ignore,
) -> list[Work]:
    """Carry on every piece of work until it is finished, slice by slice.

    A task takes a piece, and returns it with more of it done. `report` is called after each task;
    `heard` with the number of a piece and what its task says on the way, where that can be heard.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from svidag.run.pools import Threads
    >>> @dataclass(frozen=True)
    ... class Count:
    ...     value: int
    ...     finished: bool = False
    >>> def count(shared, work, alive): return Count(work.value + 1, work.value == 4)
    >>> [work.value for work in run_to_end(count, [Count(0), Count(3)], pool=Threads())]
    [5, 5]
    """
    present = list(works)

    def ended(number: int, result: Work) -> bool:
        present[number] = result
        report(present)
        return not result.finished

    waiting = [number for number, work in enumerate(present) if not work.finished]
    _drive(task, present.__getitem__, waiting, pool, shared, ended, heard=heard)
    return present


def _drive(
    task: Task,
    own: Callable[[int], Any],
    waiting: list[int],
    pool: Pool,
    shared: Shared,
    ended: Callable[[int, Any], bool],
    tick: Callable[[], None] = lambda: None,
    may_begin: Callable[[int], bool] = lambda running: True,
    heard: Callable[..., None] = ignore,
) -> None:
    """Run tasks until none is left; `ended` says whether a number has to run once more."""
    running: dict[Future[Any], int] = {}
    losses = 0  # since the last task that ended well
    try:
        while waiting or running:
            while waiting and may_begin(len(running)):
                number = waiting.pop(0)
                future = pool.submit(task, shared, own(number), partial(heard, number))
                running[future] = number
            if not running:
                break
            tick()
            over, _ = wait(running, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            pool.watch()
            lost: list[Future[Any]] = []
            for future in sorted(over, key=running.__getitem__):
                try:
                    result = pool.result(future)
                except LostError as error:
                    lost.append(future)
                    if losses == MOST_RESTARTS:
                        raise error.if_repeated from error
                    if pool.lose_all:
                        lost = list(running)
                        break
                else:
                    losses = 0
                    number = running.pop(future)
                    if ended(number, result):
                        waiting.append(number)
            losses += bool(lost)
            waiting = sorted([*(running.pop(future) for future in lost), *waiting])
    finally:
        pool.stop(running)
