"""How much of the machine this process, or one of several fits in it, may use."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
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
    limits = (here, _quota(), most)
    return max(1, min(limit for limit in limits if limit is not None))


@cache
def _quota() -> int | None:
    """Cores' worth of time that a container gives this process; None where there is no limit."""
    return quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))


def quota(root: Path, groups: Path) -> int | None:
    """The limit of the control group that a process is in, or of one that holds it.

    Examples
    --------
    >>> quota(Path("/nowhere"), Path("/nowhere")) is None
    True
    """
    found = []
    for folder in _control_groups(root, groups):
        with suppress(OSError, ValueError):
            allowed, period = (folder / "cpu.max").read_text("ascii").split()
            found.append(math.ceil(int(allowed) / int(period)))
        with suppress(OSError, ValueError):
            allowed, period = (
                int((folder / name).read_text("ascii"))
                for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            )
            if allowed > 0:
                found.append(math.ceil(allowed / period))
    return min(found, default=None)


def _control_groups(root: Path, groups: Path) -> list[Path]:
    """Folders of the control groups of a process, in both versions of them."""
    folders = [root, root / "cpu"]
    with suppress(OSError):
        for line in groups.read_text("utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds or "cpu" in kinds.split(","):
                start = root / "cpu" if kinds else root
                own = start / path.lstrip("/")
                folders += [own, *(up for up in own.parents if up.is_relative_to(start))]
    return list(dict.fromkeys(folders))


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
