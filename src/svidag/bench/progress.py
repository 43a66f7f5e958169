"""Progress of a run of many cells: a bar on a terminal, else a line for each cell."""

from __future__ import annotations

import abc
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Watcher(abc.ABC):
    """Shows each cell when it ends."""

    @abc.abstractmethod
    def open(self, there: int, total: int) -> None:
        """Begin; `there` of the cells need not be computed."""

    @abc.abstractmethod
    def ended(self, name: str, seconds: float, error: str | None) -> None:
        """Show a cell that ended, with its error if it failed."""

    @abc.abstractmethod
    def close(self) -> None:
        """End, however the run ended."""


class Bar(Watcher):
    """A bar with the last cell, failures and the time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self._failed = 0

    def open(self, there: int, total: int) -> None:
        """Draw the bar."""
        self._task = self._progress.add_task("", total=total, completed=there, failed=0)
        self._progress.start()

    def ended(self, name: str, seconds: float, error: str | None) -> None:
        """Move the bar; a failure gets a line above it."""
        self._failed += error is not None
        if error is not None:
            self._progress.console.print(f"failed: {name}: {error}", markup=False)
        self._progress.update(
            self._task, advance=1, failed=self._failed, description=f"{name} {seconds:.0f} s"
        )

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()


class Lines(Watcher):
    """A line for each cell, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def open(self, there: int, total: int) -> None:
        """Print how many cells there are."""
        self._started, self._there, self._done, self._total = time.monotonic(), there, there, total
        self._print(f"{total} cells, {there} have a row")

    def ended(self, name: str, seconds: float, error: str | None) -> None:
        """Print the cell, its time or error, and the time left."""
        self._done += 1
        pace = (time.monotonic() - self._started) / (self._done - self._there)
        left = (self._total - self._done) * pace
        what = "" if error is None else f"  FAILED {error}"
        self._print(f"{self._done}/{self._total}  {name}  {seconds:.1f} s{what}  {left:.0f} s left")

    def close(self) -> None:
        """Print nothing more."""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def watcher() -> Watcher:
    """A bar if standard error is a terminal, lines if it is not."""
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines(console)
