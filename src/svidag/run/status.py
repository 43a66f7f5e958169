"""How a fit ended."""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """How a fit ended, the same for every method; the best comes first.

    Examples
    --------
    >>> Status("time").description
    'the time was over before the fit was complete'
    """

    EXACT = "exact"
    CONVERGED = "converged"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    BUDGET = "budget"
    TIME = "time"
    DIVERGED = "diverged"

    @property
    def description(self) -> str:
        """What the status means, in words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Status.EXACT: "everything was summed exactly",
    Status.CONVERGED: "the stopping rule was met",
    Status.COMPLETED: "all steps were taken",
    Status.INCOMPLETE: "the chains agreed, but graphs that they did not consider may matter",
    Status.BUDGET: "the chains used up their budget before they agreed",
    Status.TIME: "the time was over before the fit was complete",
    Status.DIVERGED: "too many steps in a row were not finite",
}
