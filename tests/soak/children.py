"""Work in a child process that may be killed, may hang, and says on the way what it has done."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tell = Callable[[Any], None]
"""Sends plain data to the parent."""

TAIL = 2000
"""Characters of the standard error that are kept."""


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it said.

    Attributes
    ----------
    said
        What it told, in order.
    code
        Its exit code; negative: the signal that ended it.
    silent
        Whether it was ended because it said nothing for too long.
    seconds
        How long it ran.
    errors
        The end of its standard error.
    """

    said: list[Any]
    code: int
    silent: bool
    seconds: float
    errors: str


def run_child(
    work: Callable[[Tell], None],
    *,
    patience: float,
    kill_after: float | None = None,
    meanwhile: Callable[[int], None] | None = None,
    signal_: int = signal.SIGKILL,
) -> Ended:
    """Run work in a fork of this process, which must not have used JAX or threads itself.

    Parameters
    ----------
    work
        Called with a function that sends plain data here.
    patience
        Seconds of silence after which the child counts as hanging and is killed. On a busy machine
        the time that it could not run, though it wanted to, does not count.
    kill_after
        Seconds after which it gets the signal.
    meanwhile
        Called with the number of the child's process again and again while it runs.
    signal_
        The signal.
    """
    sys.stdout.flush()
    reading, writing = os.pipe()
    errors = os.memfd_create("errors")
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(work, writing, errors)
    os.close(writing)
    began = looked = time.monotonic()
    quiet, used = 0.0, 0.0
    kill_at = None if kill_after is None else began + kill_after
    received, silent, open_ = b"", False, True
    while open_:
        now = time.monotonic()
        if kill_at is not None and now >= kill_at:
            _signal(child, signal_, everyone=signal_ == signal.SIGKILL)
            kill_at = None
        before, used = used, _cpu_seconds(child)
        quiet += max(0.0, used - before) if _wants_to_run(child) else now - looked
        looked = now
        if quiet > patience:
            silent = True
            _signal(child, signal.SIGKILL)
        if meanwhile is not None:
            meanwhile(child)
        wait = 1.0 if kill_at is None else max(0.0, min(1.0, kill_at - now))
        wait = min(wait, 0.02) if meanwhile is not None else wait
        if select.select([reading], [], [], wait)[0]:
            block = os.read(reading, 1 << 16)
            open_, quiet = bool(block), 0.0
            received += block
        elif os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            open_ = False  # grandchildren may still hold the pipe
    os.close(reading)
    _, status = os.waitpid(child, 0)
    _signal(child, signal.SIGKILL)  # what it started and left behind
    end = os.lseek(errors, 0, os.SEEK_END)
    text = os.pread(errors, TAIL, max(0, end - TAIL)).decode(errors="replace")
    os.close(errors)
    said = [json.loads(line) for line in received.split(b"\n")[:-1]]
    code = os.waitstatus_to_exitcode(status)
    return Ended(said, code, silent, time.monotonic() - began, text)


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; 0 if it has ended."""
    fields = _status(f"/proc/{pid}/stat")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _wants_to_run(pid: int) -> bool:
    """Whether any of its threads is running or waits for a processor."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_status(f"/proc/{pid}/task/{thread}/stat")[:1] == ["R"] for thread in threads)


def _status(path: str) -> list[str]:
    """The fields of a `stat` file after the name, of which the first is the state."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _signal(child: int, number: int, everyone: bool = True) -> None:
    """Send a signal to a child and, if asked, to all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number) if everyone else os.kill(child, number)


def _serve(work: Callable[[Tell], None], writing: int, errors: int) -> None:
    """Do the work of the child, and end without whatever the parent has to do at its end."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(errors, 1)
        os.dup2(errors, 2)

        def tell(value: Any) -> None:
            os.write(writing, json.dumps(value).encode() + b"\n")

        work(tell)
        code = 0
    except BaseException:  # noqa: BLE001 — it is shown by the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
