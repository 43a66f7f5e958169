"""How a fit ended: one enumeration for every method."""

from __future__ import annotations

import enum

__all__ = ["Status"]


class Status(enum.StrEnum):
    """How a fit ended; a member is also the short text that is stored and shown.

    Examples
    --------
    >>> Status("time") is Status.TIME, Status.TIME == "time"
    (True, True)
    >>> Status.TIME.description
    'the time limit was reached before the fit was complete'
    """

    CONVERGED = "converged"
    COMPLETED = "completed"
    BUDGET = "budget"
    INCOMPLETE = "incomplete"
    TIME = "time"
    EXACT = "exact"
    DIVERGED = "diverged"

    @property
    def description(self) -> str:
        """The same in plain words, to complete a sentence about the fit."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Status.CONVERGED: "the stopping rule was met: further steps would hardly change the result",
    Status.COMPLETED: "all steps were taken",
    Status.BUDGET: "the chains used up their budget before they agreed",
    Status.INCOMPLETE: "the chains agreed, but graphs that they could not reach may matter",
    Status.TIME: "the time limit was reached before the fit was complete",
    Status.EXACT: "all graphs were summed over, so that the result is exact",
    Status.DIVERGED: "too many steps in a row were not finite",
}
