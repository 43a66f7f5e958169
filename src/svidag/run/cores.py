"""How much of the machine this process, or one of several fits in it, may use."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["at_most", "on_all_cores", "usable"]

_MOST: ContextVar[int | None] = ContextVar("most", default=None)


def usable() -> int:
    """Cores that this thread may use, which may be fewer than the machine has.

    Examples
    --------
    >>> 1 <= usable() <= os.cpu_count()
    True
    """
    most = _MOST.get()
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return here if most is None else min(here, most)


@contextmanager
def at_most(cores: int | None) -> Iterator[None]:
    """Within, `usable` is no more than this; None changes nothing.

    Examples
    --------
    >>> with at_most(1):
    ...     usable()
    1
    """
    token = _MOST.set(_MOST.get() if cores is None else cores)
    try:
        yield
    finally:
        _MOST.reset(token)


def on_all_cores(work: Callable[[Any], None], tasks: Iterable[Any]) -> None:
    """Do every task, as many at once as this process may use cores.

    Examples
    --------
    >>> done = []
    >>> on_all_cores(done.append, [1, 2])
    >>> sorted(done)
    [1, 2]
    """
    # Threads of BLAS would compete with ours for the cores.
    with _linear_algebra().limit(limits=1, user_api="blas"):
        for _ in map(work, tasks) if usable() == 1 else _threads(usable()).map(work, tasks):
            pass


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """So many threads, kept: searches ask for a few parent sets at a time, very often."""
    return ThreadPoolExecutor(count)


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries whose threads can be limited; to find them takes milliseconds."""
    return ThreadpoolController()
