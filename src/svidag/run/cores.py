"""How much of the machine this process may use."""

import os

__all__ = ["usable"]


def usable() -> int:
    """Cores that this process may run on, which may be fewer than the machine has.

    Examples
    --------
    >>> 1 <= usable() <= os.cpu_count()
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
