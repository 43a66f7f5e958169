"""Tasks on the workers of a Dask scheduler, on this machine or many.

What tasks share is scattered once; workers take it from each other. Dask runs a task elsewhere when
its worker dies; if scattered data went with the last worker that had them, they are scattered again
from here. A task that no worker has although some are idle is sent again too.
`distributed` is imported only when it is asked for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from svidag.run.pools import (
    WORKERS_ENDED,
    LostError,
    Pool,
    Shared,
    StoppedError,
    Task,
    ignore,
    on_one_core,
)

if TYPE_CHECKING:
    from distributed import Client, Worker
    from distributed import Future as DaskFuture

CONNECT_SECONDS = 10.0
"""How long to wait for a scheduler to answer."""

WORKER_SECONDS = 120.0
"""How long to wait for a first worker, and for another one when all are gone."""

SCATTER_SECONDS = 600.0
"""How long what tasks share may take to the first worker."""

COUNT_SECONDS = 1.0
"""How often workers are counted."""

CHECK_SECONDS = 30.0
"""How often workers are asked for the tasks that they have; one that is missing twice is lost."""

ANSWER_SECONDS = 60.0
"""How long the scheduler may take to answer."""

UNFINISHED = (
    "the Dask workers neither finish nor work on a task that was sent to them again and again; "
    "their logs may say why (a worker begins no task while its memory is nearly full); a fit with "
    "a checkpoint can go on from there"
)

SAME = ("svidag", "numpy", "scipy", "numba")
"""Packages whose versions must be the same everywhere: results depend on them, to the last bit."""

EXTRA = "workers on other machines need Dask: pip install 'svidag[workers]'"

_VERSIONS = (
    "('python ' + '.'.join(__import__('platform').python_version_tuple()[:2]), "
    + ", ".join(f"'{name} ' + __import__('{name}').__version__" for name in SAME)
    + ")"
)


class _Sent(NamedTuple):
    """A task that was sent.

    Attributes
    ----------
    remote
        The task as the scheduler knows it.
    shared
        What it needs.
    worker
        Where it should run.
    """

    remote: DaskFuture
    shared: Shared
    worker: str | None


class DaskPool(Pool):
    """The workers of a Dask client."""

    slice_seconds = 3.0
    remote = True

    def __init__(self, client: Client) -> None:
        self.client = client
        self._sent: dict[Future[Any], _Sent] = {}
        self._threads: Mapping[str, int] = {}
        self._counted, self._alone_since = -math.inf, math.inf
        self._checked, self._missing = time.monotonic(), set[str]()

    @property
    def size(self) -> int:
        """Threads of all workers together, at least one; workers may come and go."""
        self.watch()
        return max(1, sum(self._threads.values()))

    def submit(
        self, task: Task, shared: Shared, own: Any, heard: Callable[..., None] = ignore
    ) -> Future[Any]:
        """Send a task to the scheduler."""
        future: Future[Any] = Future()
        with _explaining(self.client):
            reference = shared.reference(self, self._scatter)
            worker = self._least_busy()
            remote = self.client.submit(
                _on_worker,
                _versions(),
                task,
                reference,
                own,
                pure=False,
                workers=worker and [worker],
                allow_other_workers=worker is not None,
            )
            loop = self.client.loop
            assert loop is not None, "a client that runs has one"
            loop.add_callback(_deliver, remote, future)
        self._sent[future] = _Sent(remote, shared, worker)
        return future

    def _least_busy(self) -> str | None:
        """The worker with the fewest tasks for its threads.

        Dask itself would prefer workers that have what a task needs, and takes that away from
        workers that are idle for a moment.
        """
        self.watch()
        busy = Counter(sent.worker for sent in self._pending().values())
        return min(self._threads, key=lambda w: busy[w] / self._threads[w], default=None)

    def _pending(self) -> dict[Future[Any], _Sent]:
        """Tasks that have not ended."""
        return {future: sent for future, sent in list(self._sent.items()) if not future.done()}

    def _scatter(self, shared: Shared) -> DaskFuture | None:
        if shared.value is None:
            return None
        # In a list, since Dask would scatter the parts of a tuple one by one; not hashed, since the
        # same value may be asked for again after it was lost. To one worker, from which the others
        # take it: a broadcast does not end if a worker dies meanwhile.
        ends = time.monotonic() + SCATTER_SECONDS
        while True:
            self._wait_for_worker()
            try:
                scatter, seconds = self.client.scatter, SCATTER_SECONDS
                [found] = _ask(self.client, scatter, [shared.value], hash=False, seconds=seconds)
            except OSError:  # the worker that was to have it has gone
                if time.monotonic() > ends:
                    raise
                time.sleep(COUNT_SECONDS)
            else:
                self._spread(found)
                return found

    def _wait_for_worker(self) -> None:
        self.watch()
        while not self._threads:
            time.sleep(COUNT_SECONDS)
            self.watch()

    def _spread(self, scattered: DaskFuture) -> None:
        """Let every worker take a copy: Dask sends tasks first to those who have what they need."""
        workers = list(_ask(self.client, self.client.nthreads))
        copies = [
            self.client.submit(
                type, scattered, pure=False, workers=[worker], allow_other_workers=True
            )
            for worker in workers[1:] and workers
        ]
        with suppress(TimeoutError):
            _ask(self.client, self.client.gather, copies, errors="skip")

    def result(self, future: Future[Any]) -> Any:
        """The result; `LostError` where it has to be computed again."""
        from distributed import KilledWorker

        sent = self._sent.pop(future)
        try:
            return future.result()
        except LostError:
            self.watch()
            sent.shared.forget(self)
            raise
        except KilledWorker as error:
            raise MemoryError(
                f"the Dask workers of a task were ended by their system, one after another "
                f"({error.allowed_failures} are allowed); most likely memory ran out: give each "
                "more of it, or use fewer rows or columns"
            ) from error

    def watch(self) -> None:
        """Raise if the scheduler is gone, or has had no worker for too long; find lost tasks."""
        now = time.monotonic()
        if now - self._counted < COUNT_SECONDS:
            return
        with _explaining(self.client):
            self._threads = _ask(self.client, self.client.nthreads)
        self._counted = now
        self._alone_since = math.inf if self._threads else min(now, self._alone_since)
        if now - self._alone_since > WORKER_SECONDS:
            raise ConnectionError(
                f"the Dask scheduler {_address(self.client)} has had no worker for "
                f"{WORKER_SECONDS:.0f} s; a fit with a checkpoint can go on from there"
            )
        if now - self._checked > CHECK_SECONDS:
            self._find_lost()
            self._checked = time.monotonic()

    def _find_lost(self) -> None:
        """End tasks with `LostError` that no worker had at the last check nor has at this one."""
        with _explaining(self.client):
            try:
                held = _ask(self.client, self.client.run, _unfinished, on_error="ignore").values()
            except TimeoutError:  # a worker that does not answer may have them
                return
        before, self._missing = self._missing, set[str]()
        if all(held):  # a task may wait for them; an idle worker would have taken it
            return
        known = set[str]().union(*held)
        for future, sent in self._pending().items():
            key = str(sent.remote.key)
            if key in before - known:
                with suppress(InvalidStateError):  # it ends at this moment
                    future.set_exception(LostError(RuntimeError(UNFINISHED)))
                sent.remote.cancel()
            elif key not in known:
                self._missing.add(key)

    def stop(self, running: Collection[Future[Any]]) -> None:
        """Cancel tasks; those that have begun end when they next call `alive`."""
        sent = [self._sent.pop(future).remote for future in running if future in self._sent]
        for future in running:
            future.cancel()
        if sent and self.client.status == "running":
            self.client.cancel(sent)


async def _deliver(remote: DaskFuture, future: Future[Any]) -> None:
    """Pass on how a task ended.

    Dask's own executor (`Client.get_executor`) does so unless a result is ready, its worker dies
    before it was sent, and the task cannot be run again: then its futures never end.
    """
    with suppress(InvalidStateError):  # nobody waits any more
        try:
            result = await remote
        except (CancelledError, asyncio.CancelledError, StoppedError):
            future.set_exception(LostError(MemoryError(WORKERS_ENDED)))
        except BaseException as error:  # noqa: BLE001 — it is raised again where the result is needed
            future.set_exception(error)
        else:
            future.set_result(result)


@contextmanager
def dask_pool(workers: str | Client) -> Iterator[DaskPool]:
    """The pool of a client, or of the scheduler at an address; checks that its workers can help."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{EXTRA} ({error})") from None
    if isinstance(workers, str):
        with _connected(workers) as client:
            yield _checked(client)
    else:
        yield _checked(workers)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    from distributed import Client

    try:
        opened = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at workers={address!r} within {CONNECT_SECONDS:.0f} s "
            f"({error})"
        ) from None
    with opened:
        yield opened


def _checked(client: Client) -> DaskPool:
    from distributed import TimeoutError as TooLateError

    where = _address(client)
    with _explaining(client):
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TooLateError:
            raise ConnectionError(
                f"the Dask scheduler {where} has no worker after {WORKER_SECONDS:.0f} s; start "
                "some with `dask worker ADDRESS`"
            ) from None
        # Text, since a worker without svidag could not read a function of ours.
        found = _ask(client, client.run, eval, _VERSIONS, on_error="return")
    for worker, versions in found.items():
        if isinstance(versions, OSError):
            continue  # it is about to leave
        if isinstance(versions, BaseException):
            raise ImportError(f"the Dask worker {worker} cannot run svidag: {versions}")
        require_same_versions(worker, versions)
    return DaskPool(client)


def require_same_versions(worker: str, found: tuple[str, ...]) -> None:
    """Raise unless a worker has the versions that are installed here.

    Examples
    --------
    >>> require_same_versions("tcp://127.0.0.1:1", ("python 2.7",) + _versions()[1:])
    Traceback (most recent call last):
        ...
    ValueError: the Dask worker tcp://127.0.0.1:1 has python 2.7; here is python 3...
    """
    differing = [pair for pair in zip(found, _versions(), strict=True) if len(set(pair)) > 1]
    if differing:
        listed = "; ".join(f"{there}; here is {here}" for there, here in differing)
        raise ValueError(
            f"the Dask worker {worker} has {listed}: install the same versions, so that results "
            "are the same wherever they are computed"
        )


def _versions() -> tuple[str, ...]:
    return eval(_VERSIONS)


def _on_worker(versions: tuple[str, ...], task: Task, shared: Any, own: Any) -> Any:
    """A task, on a worker that may have come after the others were checked."""
    from dask.context import thread_state
    from distributed import get_worker

    worker, key = get_worker(), thread_state.key
    require_same_versions(worker.address, versions)

    def alive(*_: Any) -> None:
        present = worker.state.tasks.get(key)
        if present is None or present.state == "cancelled":
            raise StoppedError

    return on_one_core(task, shared, own, alive)


def _unfinished(dask_worker: Worker) -> set[str]:
    """The tasks that a worker has to do; none if it neither computes nor fetches what they need."""
    state = dask_worker.state
    if not state.executing_count and not state.in_flight_tasks_count:
        return set()
    return {str(key) for key, at in state.tasks.items() if at.state not in ("memory", "error")}


def _ask(
    client: Client,
    method: Callable[..., Any],
    *given: Any,
    seconds: float = ANSWER_SECONDS,
    **named: Any,
) -> Any:
    """What a method of the client returns; `TimeoutError` if it takes too long."""
    return client.sync(method, *given, callback_timeout=seconds, **named)


@contextmanager
def _explaining(client: Client) -> Iterator[None]:
    """Say in plain words that the scheduler is gone."""
    from distributed.comm.core import CommClosedError

    try:
        if client.status != "running":
            raise CommClosedError("the connection is closed")
        yield
    except (CommClosedError, OSError) as error:
        if isinstance(error, ConnectionError):
            raise
        raise ConnectionError(
            f"the Dask scheduler {_address(client)} does not answer any more ({error}); a fit "
            "with a checkpoint can go on from there"
        ) from error


def _address(client: Client) -> str:
    scheduler = getattr(client, "scheduler", None)
    return str(getattr(scheduler, "address", "")) or "of this client"
