"""How much of the machine this process, or one of several fits in it, may use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["at_most", "usable"]

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
