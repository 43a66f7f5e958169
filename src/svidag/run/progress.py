"""Progress of a long fit: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import abc
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BEFORE_FIRST_LINE = 1.0


class Meter(abc.ABC):
    """Shows the number of finished steps and a few metrics; called between chunks of steps."""

    @abc.abstractmethod
    def open(self, title: str, done: int, total: int | None) -> None:
        """Begin a stage; a resumed run has `done` steps already.

        A total of None means that the number of steps is not known.
        """

    @abc.abstractmethod
    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Show the state after `done` steps; the same number as at the start restarts the clock."""

    @abc.abstractmethod
    def close(self) -> None:
        """End, however the run ended."""


class Silent(Meter):
    """Shows nothing."""

    def open(self, title: str, done: int, total: int | None) -> None:
        """Show nothing."""

    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class Bar(Meter):
    """A bar with the metrics, speed and time left, for terminals."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[metrics]}"),
            TimeRemainingColumn(),
            console=console,
        )

    def open(self, title: str, done: int, total: int | None) -> None:
        """Draw the bar."""
        self._clock, self._total = _Clock(done), total
        self._task = self._progress.add_task(
            title, total=total, completed=done, metrics="starting", count=_count(done, total)
        )
        self._progress.start()

    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Move the bar."""
        text = _format_metrics(metrics, self._clock.speed(done))
        self._progress.update(
            self._task, completed=done, metrics=text, count=_count(done, self._total)
        )

    def close(self) -> None:
        """Stop the bar and leave it on the screen."""
        self._progress.stop()
        self._progress.remove_task(self._task)


class Lines(Meter):
    """A line on standard error every few seconds, for logs, however long a step takes."""

    def __init__(self, every: float = SECONDS_BETWEEN_LINES) -> None:
        self._every = every
        self._printed_at: float | None = None
        self._lock = threading.Lock()

    def open(self, title: str, done: int, total: int | None) -> None:
        """Begin a stage; the first line of all comes after a second."""
        now = time.monotonic()
        self._title, self._total, self._clock, self._begun = title, total, _Clock(done), now
        self._done = done
        if self._printed_at is None:
            self._printed_at = now - self._every + min(self._every, SECONDS_BEFORE_FIRST_LINE)
        self._closed = threading.Event()
        threading.Thread(target=self._watch, args=(self._closed,), daemon=True).start()

    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Print a line unless the last one is recent."""
        now, speed = time.monotonic(), self._clock.speed(done)
        self._done = done
        finished = self._total is not None and done >= self._total
        left = ""
        if self._total is not None and speed and not finished:
            left = f"{duration((self._total - done) / speed)} left"
        with self._lock:
            if finished or self._due(now):
                self._print(now, _format_metrics(metrics, speed), left)

    def close(self) -> None:
        """Print nothing more."""
        self._closed.set()

    def _watch(self, closed: threading.Event) -> None:
        """Print a line where a step takes so long that there is no update."""
        while not closed.wait(min(self._every, SECONDS_BEFORE_FIRST_LINE) or 1.0):
            now = time.monotonic()
            with self._lock:
                if not closed.is_set() and self._due(now):
                    self._print(now, f"for {duration(now - self._begun)}")

    def _due(self, now: float) -> bool:
        return self._printed_at is None or now - self._printed_at >= self._every

    def _print(self, now: float, *texts: str) -> None:
        self._printed_at = now
        count = _count(self._done, self._total)
        shown = "  ".join(text for text in (count, *texts) if text)
        print(f"{self._title}: {shown}", file=sys.stderr)  # noqa: T201


class _Clock:
    """Steps per second since the first step; compiling before it does not count."""

    def __init__(self, done: int) -> None:
        self._done, self._start = done, time.monotonic()

    def speed(self, done: int) -> float:
        now = time.monotonic()
        if done <= self._done:
            self._start = now
        elapsed = now - self._start
        return (done - self._done) / elapsed if elapsed > 0 else 0.0


def meter(progress: Any) -> Meter:
    """Turn the public `progress` argument into a meter.

    None chooses by itself: a bar when standard error is a terminal, lines otherwise. False is
    silent, True insists on showing something, and a `Meter` is used as it is.

    Examples
    --------
    >>> type(meter(False)).__name__
    'Silent'
    """
    if isinstance(progress, Meter):
        return progress
    if progress is False:
        return Silent()
    if progress is None or progress is True:
        console = Console(stderr=True)
        return Bar(console) if console.is_terminal else Lines()
    raise ValueError(f"progress must be None, True, False or a Meter; got {progress!r}")


def _count(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done}/{total}"


def _format_metrics(metrics: Mapping[str, float], speed: float) -> str:
    shown = [f"{name} {value:,.1f}" for name, value in metrics.items()]
    if speed:
        shown.append(f"{speed:,.0f}/s" if speed >= 1 else f"{duration(1 / speed)} each")
    return "  ".join(shown)


def duration(seconds: float) -> str:
    """A time in the unit that reads best.

    Examples
    --------
    >>> duration(40.0), duration(150.0), duration(10800.0)
    ('40 s', '2.5 min', '3.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
