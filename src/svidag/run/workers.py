"""`workers=`: cores and processes of this machine, or the workers of a Dask scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from svidag.run import cores
from svidag.run.dask_pool import dask_pool
from svidag.run.pools import Pool, Threads, local_pool

ADDRESS = re.compile(r"(\w+://)?[^\s/]+:\d+")
"""The address of a scheduler; without a protocol it is tcp."""


@dataclass(frozen=True, eq=False)
class Workers:
    """Where the fits of a mixture run, and where the parts of one fit do.

    Attributes
    ----------
    fits
        For whole fits: processes, since a fit holds the interpreter for part of its time.
    parts
        For searches, chains and scores of one fit: threads, since these are compiled and share
        tables of many megabytes; or the same Dask workers.
    cores
        Cores of this machine to use; None for all.
    """

    fits: Pool
    parts: Pool
    cores: int | None = None

    @classmethod
    def local(cls, count: int | None = None) -> Workers:
        """So many processes or threads of this machine, one for each core by default.

        Examples
        --------
        >>> Workers.local(2).fits.size
        2
        """
        return cls(local_pool(cores.usable() if count is None else count), Threads(), count)


def check_workers(workers: Any) -> None:
    """Raise unless `workers` is a number of processes, an address, a Dask client or None.

    Examples
    --------
    >>> check_workers("tcp://127.0.0.1:8786")
    >>> check_workers("many")
    Traceback (most recent call last):
        ...
    ValueError: workers must be ...; got 'many'
    """
    number = isinstance(workers, Integral) and not isinstance(workers, bool) and int(workers) >= 1
    address = isinstance(workers, str) and ADDRESS.fullmatch(workers) is not None
    if workers is None or number or address or _is_client(workers):
        return
    raise ValueError(
        "workers must be a whole number from 1 on, the address of a Dask scheduler such as "
        f"'tcp://127.0.0.1:8786', a Dask Client, or None; got {workers!r}"
    )


def _is_client(workers: Any) -> bool:
    """Whether this is a client that waits for results; who has one has imported Dask."""
    kinds = [kind for kind in type(workers).__mro__ if kind.__module__.startswith("distributed")]
    client = any(kind.__name__ == "Client" for kind in kinds)
    if client and workers.asynchronous:
        raise ValueError("workers must be a Dask Client that is not asynchronous")
    return client


@contextmanager
def open_workers(workers: Any) -> Iterator[Workers]:
    """The workers that were asked for; a scheduler that does not answer is an error at once.

    Examples
    --------
    >>> with open_workers(2) as found:
    ...     found.cores
    2
    """
    check_workers(workers)
    if workers is None or isinstance(workers, Integral):
        yield Workers.local(None if workers is None else int(workers))
        return
    with dask_pool(workers) as pool:
        yield Workers(pool, pool)
