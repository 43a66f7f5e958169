"""Child processes that compute cells, so that a crash or an exceeded limit loses one cell only.

The child (``python -m svidag.bench.process``) reads one cell per line and answers with one line.
The parent measures its memory, since a limit on address space would count what XLA only reserves.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import IO, Any

from svidag.bench.rows import Row

SECONDS_BETWEEN_CHECKS = 0.2
KEPT_STDERR = 2000  # characters of standard error kept from a process that died


class CellProcess:
    """A child process that computes one cell after another, within limits."""

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._started = time.perf_counter()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "svidag.bench.process", *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read_answers, daemon=True).start()
        self.cells = 0

    def compute(self, cell: dict[str, Any], memory_gb: float | None, minutes: float | None) -> Row:
        """The row of a cell, or a failure: a row with ``error`` in it.

        ``seconds.total`` counts from the start of the process for its first cell (then it is a
        fresh one, and the time includes imports), from the request for the others; ``peak_gb`` is
        the largest resident memory of the process so far.
        """
        started = time.perf_counter() if self.cells else self._started
        self.cells += 1
        answer = self._request(cell, memory_gb, minutes)
        answer.setdefault("seconds", {})["total"] = time.perf_counter() - started
        answer["fresh_process"] = self.cells == 1
        return answer

    def _request(self, cell: dict[str, Any], memory_gb: float | None, minutes: float | None) -> Row:
        assert self._child.stdin is not None
        started = time.monotonic()
        try:
            self._child.stdin.write(json.dumps(cell) + "\n")
            self._child.stdin.flush()
        except OSError:
            return self._crash()
        while True:
            try:
                line = self._answers.get(timeout=SECONDS_BETWEEN_CHECKS)
            except queue.Empty:
                line = None
            if line == "":
                return self._crash()
            if line is not None:
                return json.loads(line)
            reason = self._exceeded_limit(memory_gb, minutes, time.monotonic() - started)
            if reason:
                self.close()
                return {"error": reason}

    def _exceeded_limit(
        self, memory_gb: float | None, minutes: float | None, seconds: float
    ) -> str:
        if minutes is not None and seconds > 60 * minutes:
            return f"stopped after {minutes:g} minutes, the limit of this study"
        used = resident_gb(self._child.pid) if memory_gb is not None else 0.0
        if memory_gb is not None and used > memory_gb:
            return f"stopped at {used:.1f} GB of memory; the limit is {memory_gb:g}"
        return ""

    def _crash(self) -> Row:
        """The failure of a process that ended by itself, with the end of its standard error."""
        code = self._child.wait()
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - KEPT_STDERR))
        text = self._errors.read().decode(errors="replace").strip()
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        return {"error": f"the process ended unexpectedly ({cause})", "traceback": text}

    def _read_answers(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(ValueError):  # the stream was closed by `close`
            for line in self._child.stdout:
                self._answers.put(line)
        self._answers.put("")

    @property
    def alive(self) -> bool:
        """Whether the process can take another cell."""
        return self._child.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def resident_gb(pid: int) -> float:
    """Resident memory of a process and its children."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return sum(each.memory_info().rss for each in family) / 2**30
    return 0.0


def serve(paths: list[str]) -> None:
    """Compute the cells on standard input until it closes; only rows go to standard output."""
    sys.path[:0] = paths
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    while True:
        content = json.loads(requests.get())
        answers.write(json.dumps(_answer(content), ensure_ascii=False) + "\n")
        answers.flush()


def _read_requests(requests: queue.SimpleQueue[str]) -> None:
    """Put the lines of standard input into the queue; end the process when it closes."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _answer(content: dict[str, Any]) -> Row:
    try:
        from svidag.bench.cell import Cell, compute

        row = compute(Cell.from_dict(content))
    except Exception as error:  # noqa: BLE001 — any error in a cell becomes its row
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    return row | {"peak_gb": _peak_gb()}


def _peak_gb() -> float | None:
    """Largest resident memory of this process so far, where the system reports it."""
    try:
        import resource
    except ImportError:
        return None
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_process(
    cell: dict[str, Any], memory_gb: float | None, minutes: float | None, *paths: str
) -> Row:
    """Compute one cell in a process of its own."""
    child = CellProcess(paths)
    try:
        return child.compute(cell, memory_gb, minutes)
    finally:
        child.close()


if __name__ == "__main__":
    serve(sys.argv[1:])
