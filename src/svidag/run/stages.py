"""Progress of a fit that has several stages, on one meter."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

from svidag.run.progress import Meter

NO_METRICS: Mapping[str, float] = MappingProxyType({})


class Stages:
    """Shows stage after stage on one meter; chains report from several threads.

    Examples
    --------
    >>> from svidag.run.progress import Silent
    >>> with Stages(Silent()) as stages:
    ...     stages.report("scoring parent sets", 10, None)
    ...     stages.report("moving orders", 10, 100)
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._stage: str | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *how: object) -> None:
        self._close()

    def report(
        self, stage: str, done: int, total: int | None, metrics: Mapping[str, float] = NO_METRICS
    ) -> None:
        """Show how much of a stage is done, of how much if that is known."""
        with self._lock:
            if stage != self._stage:
                self._close()
                self._stage = stage
                self._meter.open(stage, done, total)
            self._meter.update(done, metrics)

    def _close(self) -> None:
        if self._stage is not None:
            self._meter.close()
            self._stage = None
