"""What every method that follows gradients reports: steps, seconds, traces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from svidag.posterior.diagnostics import Details, Level, Reason, diagnostic

if TYPE_CHECKING:
    from svidag.run.loop import Outcome

MANY_REJECTED = 0.05
"""Share of steps left out, because they were not finite, from which a fit is not to be trusted."""

CLIMBING = 0.02
"""Gain of the bound in the last tenth of the steps, as a share of the whole gain."""

TRACES = {
    "bound": "Bound (ELBO)",
    "log_likelihood": "Expected log likelihood",
    "parameters": "Bound: parameters",
    "noise": "Bound: noise",
    "log_prior": "Bound: prior of edges",
    "entropy": "Bound: entropy of edges",
    "edges": "Edges",
    "row_error": "Row error of the relaxed order",
    "spread": "Spread of the particles",
    "bandwidth": "Kernel bandwidth",
    "clipped": "Share of particle scores clipped",
    "rejected": "Steps left out in a row",
    "potentials": "Potentials",
    "likelihood": "Log likelihood",
    "largest_weight": "Share of the heaviest graph",
    "cycles": "Weight of cycles",
    "loss": "Loss",
    "held_out": "Held-out error",
    "left_out": "Minibatches left out",
    "poles": "Weights at the pole of their prior",
    "broken": "Arrows removed from cycles",
    "empty": "Draws without an arrow",
    "zero_strengths": "Pairs of strength zero",
    "guarded": "Shortened steps of projections",
}
"""What the report calls the traces of a step's diagnostics."""


@dataclass(frozen=True, eq=False)
class GradientDiagnostics(Details):
    """What a method that follows gradients reports."""

    steps: int = diagnostic("Steps")
    rejected_steps: int = diagnostic("Steps left out because they were not finite")
    compile_seconds: float = diagnostic("Seconds to compile")
    run_seconds: float = diagnostic("Seconds to run")
    trace: Mapping[str, np.ndarray] = diagnostic("Diagnostics of every step", trace=True)

    @staticmethod
    def of(outcome: Outcome[Any]) -> dict[str, Any]:
        """The fields that every run of the loop gives."""
        rejected = outcome.trace.get("rejected", np.zeros(0))
        return {
            "steps": outcome.steps,
            "rejected_steps": int((rejected > 0).sum()),
            "compile_seconds": outcome.compile_seconds,
            "run_seconds": outcome.run_seconds,
            "trace": outcome.trace,
        }

    def traces(self) -> dict[str, np.ndarray]:
        """Arrays [1, steps] by the words that stand beside them."""
        return {
            TRACES.get(k, k): np.atleast_2d(np.asarray(x, float)) for k, x in self.trace.items()
        }


def approximate(what: str) -> Reason:
    """What to say about every approximation whose error the run does not show.

    Examples
    --------
    >>> approximate("A rough guess").text[:40]
    'A rough guess: the run does not show how'
    """
    return Reason(
        Level.CAREFUL,
        f"{what}: the run does not show how far it is from the posterior. The methods "
        "'order-mcmc' and 'exact' do.",
    )


def judge_rejected(found: GradientDiagnostics) -> Iterator[Reason]:
    """A reason for doubt where steps were left out."""
    if found.rejected_steps:
        many = found.rejected_steps > MANY_REJECTED * found.steps
        text = f"{found.rejected_steps} of {found.steps} steps were not finite and were left out."
        yield Reason(Level.NOT if many else Level.CAREFUL, text)


def judge_bound(bound: np.ndarray) -> Reason:
    """Whether the bound had levelled off, by its last two tenths."""
    bound = np.asarray(bound, dtype=float)
    tenth = len(bound) // 10
    if tenth < 2:
        return Reason(Level.NOT, f"{len(bound)} steps are too few to say anything.")
    first, before, last = bound[:tenth], bound[-2 * tenth : -tenth], bound[-tenth:]
    gain, whole = last.mean() - before.mean(), last.mean() - first.mean()
    noise = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / tenth)
    if not math.isfinite(gain) or whole <= 0:
        return Reason(Level.NOT, "The bound (ELBO) did not rise: the fit learned nothing.")
    if gain > CLIMBING * whole and gain > 2 * noise:
        text = f"The bound (ELBO) was still rising at the end, by {gain:.1f} in the last tenth."
        return Reason(Level.CAREFUL, text)
    return Reason(Level.TRUST, "The bound (ELBO) had levelled off.")


def latest(trace: Mapping[str, np.ndarray], shown: Mapping[str, str]) -> dict[str, float]:
    """The last value of each metric that progress shows, by what it is called there.

    Examples
    --------
    >>> latest({"edges": np.array([3.0, 4.0])}, {"edges": "edges", "bound": "ELBO"})
    {'edges': 4.0}
    """
    found = {label: trace.get(name, np.zeros(0)) for name, label in shown.items()}
    return {label: float(values[-1]) for label, values in found.items() if len(values)}
