"""Where tasks run: threads of this process, processes of this machine, or Dask workers.

A *task* is a function of three arguments: what all tasks of a call share, what is its own, and a
callback `alive` that it calls often and that raises `StoppedError` once nobody needs its result.
Its result depends on the first two alone, and linear algebra takes one thread in it: so it is the
same wherever the task runs, to the bit on one type of CPU, and a task that was lost with its worker
can be run again.
"""

from __future__ import annotations

import abc
import itertools
import multiprocessing
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache
from typing import Any, NamedTuple

import cloudpickle
from loky import get_reusable_executor
from threadpoolctl import ThreadpoolController

from svidag.run import cores

LARGE = 1_000_000
"""Bytes from which what tasks share is written to a file for other processes, once."""

KEPT = 2
"""Such files whose content a process keeps."""

WORKERS_ENDED = (
    "a process that a fit was running in was ended by the system, again and again; most likely "
    "memory ran out: use fewer workers, or fewer rows or columns"
)

Task = Callable[[Any, Any, Callable[..., None]], Any]
"""Takes what tasks share, what is its own, and `alive`."""


def ignore(*_: Any) -> None:
    """Listen to nothing that tasks say while they run."""


class StoppedError(Exception):
    """Raised in a task whose result is no longer needed."""


class LostError(Exception):
    """A task did not end where it ran, and has to be run again.

    Attributes
    ----------
    if_repeated
        What to raise if that happens again and again.
    """

    def __init__(self, if_repeated: Exception) -> None:
        super().__init__(str(if_repeated))
        self.if_repeated = if_repeated


class Shared:
    """Something that many tasks need; a pool sends it to each worker once.

    Examples
    --------
    >>> Shared("table").value
    'table'
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._references: weakref.WeakKeyDictionary[Pool, Any] = weakref.WeakKeyDictionary()

    def reference(self, pool: Pool, make: Callable[[Shared], Any]) -> Any:
        """What a pool sends instead of the value, made when it is first needed."""
        if pool not in self._references:
            self._references[pool] = make(self)
        return self._references[pool]

    def forget(self, pool: Pool) -> None:
        """Make the reference anew when it is needed again: what it stands for was lost."""
        self._references.pop(pool, None)


NOTHING = Shared(None)
"""For tasks that share nothing."""


class Pool(abc.ABC):
    """Runs tasks side by side.

    Attributes
    ----------
    slice_seconds
        How long a task that can be divided at any place should take: much longer than to send it,
        and short, since progress is reported when a task ends.
    lose_all
        Whether all tasks are lost with one worker.
    remote
        Whether tasks run outside this process, on cores that it does not use itself.
    """

    slice_seconds: float
    remote: bool = False
    lose_all: bool = False

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many tasks run at once."""

    @abc.abstractmethod
    def submit(
        self, task: Task, shared: Shared, own: Any, heard: Callable[..., None] = ignore
    ) -> Future[Any]:
        """Begin a task as soon as there is a free worker.

        `heard` is called with what the task gives to `alive`, where it runs in this process.
        """

    def result(self, future: Future[Any]) -> Any:
        """The result of a task that has ended; `LostError` if it has to be run again."""
        return future.result()

    def watch(self) -> None:  # noqa: B027
        """Called while tasks run: raise if there is no hope that they will end.

        Threads and processes of this machine need no such check.
        """

    @abc.abstractmethod
    def stop(self, running: Collection[Future[Any]]) -> None:
        """Cancel tasks, and end those that have begun."""


class Threads(Pool):
    """Threads of this process, for compiled code, or where no process may be started.

    Examples
    --------
    >>> pool = Threads(2)
    >>> pool.submit(lambda shared, own, alive: shared + own, Shared(1), 2).result()
    3
    """

    slice_seconds = 0.2

    def __init__(self, count: int | None = None) -> None:
        self._count = count
        self._executor: ThreadPoolExecutor | None = None
        self._stopped = threading.Event()

    @property
    def size(self) -> int:
        """As many as this process may use cores, unless a number was given."""
        return cores.usable() if self._count is None else self._count

    def submit(
        self, task: Task, shared: Shared, own: Any, heard: Callable[..., None] = ignore
    ) -> Future[Any]:
        """Begin a task in a thread, which sees the context of the caller."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.size)
        stopped = self._stopped

        def alive(*said: Any) -> None:
            if stopped.is_set():
                raise StoppedError
            heard(*said)

        return self._executor.submit(
            copy_context().run, on_one_core, task, shared.value, own, alive
        )

    def stop(self, running: Collection[Future[Any]]) -> None:
        """Let `alive` raise in all tasks, and wait for none of them; end threads that have none."""
        if self._executor is None:
            return
        if running:
            self._stopped.set()
        self._executor.shutdown(wait=not running, cancel_futures=True)
        self._executor, self._stopped = None, threading.Event()


class Processes(Pool):
    """Processes of this machine, for fits, which hold the interpreter for part of their time.

    They stay for the next call, unless they are stopped before they are done.
    """

    slice_seconds = 1.0
    lose_all = True
    remote = True

    def __init__(self, count: int) -> None:
        self._count = count
        self._executor: Any = None

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._count

    def submit(
        self, task: Task, shared: Shared, own: Any, heard: Callable[..., None] = ignore
    ) -> Future[Any]:
        """Begin a task in a process."""
        # The same workers each time, or new ones if one of them was killed.
        self._executor = get_reusable_executor(max_workers=self._count)
        reference = shared.reference(self, _reference)
        return self._executor.submit(_in_process, task, reference, own)

    def result(self, future: Future[Any]) -> Any:
        """The result; `LostError` if the process was ended from outside."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise LostError(MemoryError(WORKERS_ENDED)) from error

    def stop(self, running: Collection[Future[Any]]) -> None:
        """Kill the processes if any of them is at work."""
        if running and self._executor is not None:
            self._executor.shutdown(kill_workers=True)


def local_pool(count: int) -> Pool:
    """Processes; a thread where there is one worker, or where no process may be started.

    Examples
    --------
    >>> type(local_pool(1)).__name__, type(local_pool(2)).__name__
    ('Threads', 'Processes')
    """
    # A worker that ends with another process may not start any.
    alone = count == 1 or multiprocessing.current_process().daemon
    return Threads(count) if alone else Processes(count)


class _File(NamedTuple):
    """Where a process finds what tasks share; paths may be used again, numbers are not."""

    path: str
    number: int


class _Value(NamedTuple):
    """What tasks share, where it is small or cannot be written to a file."""

    value: Any


_NUMBERS = itertools.count()


def _reference(shared: Shared) -> _File | _Value:
    content = cloudpickle.dumps(shared.value)
    if len(content) < LARGE:
        return _Value(shared.value)
    path = ""
    try:
        descriptor, path = tempfile.mkstemp(prefix="svidag-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:  # no room: every task takes its own copy with it
        _remove(path)
        return _Value(shared.value)
    weakref.finalize(shared, _remove, path)
    return _File(path, next(_NUMBERS))


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


@lru_cache(maxsize=KEPT)
def _load(file: _File) -> Any:
    with open(file.path, "rb") as opened:
        return pickle.load(opened)


def _in_process(task: Task, reference: _File | _Value, own: Any) -> Any:
    value = _load(reference) if isinstance(reference, _File) else reference.value
    return on_one_core(task, value, own, ignore)


def on_one_core(task: Task, shared: Any, own: Any, alive: Callable[..., None]) -> Any:
    """Run a task with one core for itself."""
    with cores.at_most(1), _LINEAR_ALGEBRA.on_one_thread():
        return task(shared, own, alive)


class _LinearAlgebra:
    """Linear algebra on one thread while any task runs; tasks of several threads may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._limits: Any = None

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        with self._lock:
            self._tasks += 1
            if self._limits is None:
                self._limits = ThreadpoolController().limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._tasks -= 1
                if not self._tasks:
                    self._limits.restore_original_limits()
                    self._limits = None


_LINEAR_ALGEBRA = _LinearAlgebra()
