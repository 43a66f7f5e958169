"""Seconds spent in each part of a cell, and in compiling during its fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOWERED, COMPILED = (
    f"/jax/core/compile/{event}_duration" for event in ("jaxpr_to_mlir_module", "backend_compile")
)
"""JAX's own measurements; they do not overlap, as those of nested traces do."""


class Clock:
    """Seconds spent in each named part.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock.part("fit"):
    ...     _ = sum(range(1000))
    >>> clock.seconds["fit"] > 0
    True
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure the time of the block as a named part."""
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Measure the time that JAX and Numba compile within the block, as the part ``compile``."""
        import jax.monitoring
        from numba.core.event import install_timer

        self.seconds["compile"] = 0.0

        def add(seconds: float) -> None:
            self.seconds["compile"] += seconds

        def listener(event: str, duration_secs: float, **_: Any) -> None:
            if event in (LOWERED, COMPILED):
                add(duration_secs)

        jax.monitoring.register_event_duration_secs_listener(listener)
        try:
            with install_timer("numba:compile", add):
                yield
        finally:
            jax.monitoring.unregister_event_duration_listener(listener)
