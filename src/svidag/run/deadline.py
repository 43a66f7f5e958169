"""When a fit must end, whatever it has found by then."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from numbers import Real


@dataclass(frozen=True)
class Deadline:
    """A time limit in minutes from now; None is no limit.

    Examples
    --------
    >>> Deadline(None).passed(), Deadline(0.0).passed()
    (False, True)
    """

    minutes: float | None = None
    _start: float = field(default_factory=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        if self.minutes is None:
            return
        if not isinstance(self.minutes, Real) or not self.minutes >= 0:
            raise ValueError(f"minutes must be a positive number, or None; got {self.minutes!r}")

    def passed(self, share: float = 1.0) -> bool:
        """Whether this share of the time is over."""
        if self.minutes is None:
            return False
        return time.monotonic() - self._start >= share * 60 * self.minutes

    def share(self, parts: int) -> Deadline:
        """The end of the first of so many equal parts of the time that is left.

        Examples
        --------
        >>> Deadline(None).share(3).minutes, Deadline(0.0).share(3).minutes
        (None, 0.0)
        """
        if self.minutes is None:
            return self
        left = self.minutes - (time.monotonic() - self._start) / 60
        return Deadline(max(0.0, left) / parts)
