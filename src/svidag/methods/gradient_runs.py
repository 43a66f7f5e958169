"""The loop of a gradient method within a fit: progress, checkpoints, and the time limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from svidag.methods.base import Run
from svidag.methods.gradient_diagnostics import latest

if TYPE_CHECKING:
    from svidag.run.loop import Algorithm, Outcome, Schedule, Trace

State = TypeVar("State")

SAVED = "steps"
"""The stage of checkpoints that hold a loop's state."""


def run_steps(
    algorithm: Algorithm[State], schedule: Schedule, run: Run, title: str, shown: Mapping[str, str]
) -> Outcome[State]:
    """Run an algorithm to the end of its schedule, from where an earlier call left it.

    Parameters
    ----------
    algorithm, schedule, run
        What to run, how far, and the fit that it belongs to.
    title
        What progress calls the stage.
    shown
        The metrics of a step that progress shows, each with what it is called there.
    """
    from svidag.run import loop

    def report(done: int, trace: Trace) -> None:
        run.report(title, done, schedule.steps, latest(trace, shown))

    return loop.run(
        algorithm,
        loop.Keys.of_seed(run.seed),
        schedule,
        report=report,
        keep=lambda snapshot: run.checkpoint.keep(SAVED, snapshot),
        resume=run.resumed(SAVED),
        expired=run.deadline.passed,
    )
