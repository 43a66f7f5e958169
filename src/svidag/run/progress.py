"""Progress of a long fit: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import abc
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


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
    """A line on standard error every few seconds, for logs."""

    def __init__(self, every: float = SECONDS_BETWEEN_LINES) -> None:
        self._every = every

    def open(self, title: str, done: int, total: int | None) -> None:
        """Remember the start; print nothing yet."""
        self._title, self._total, self._clock = title, total, _Clock(done)
        self._printed_at = time.monotonic()

    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Print a line unless the last one is recent."""
        now, speed = time.monotonic(), self._clock.speed(done)
        finished = self._total is not None and done >= self._total
        if now - self._printed_at < self._every and not finished:
            return
        self._printed_at = now
        left = ""
        if self._total is not None and speed:
            left = f"  {(self._total - done) / speed:.0f} s left"
        text = _format_metrics(metrics, speed)
        count = _count(done, self._total)
        print(f"{self._title}: {count}  {text}{left}", file=sys.stderr)  # noqa: T201

    def close(self) -> None:
        """Print nothing more."""


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
    return "  ".join([*shown, f"{speed:,.0f}/s"])
