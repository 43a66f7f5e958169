"""The loop of a gradient method within a fit, and the rows that it holds out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Bool

from svidag.methods.base import Run
from svidag.methods.gradient_diagnostics import latest
from svidag.run.streams import Stream, generator

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


def training_rows(rows: int, held_out: int, seed: int) -> Bool[np.ndarray, " N"]:
    """All rows but so many, at least one, that are drawn at random.

    Examples
    --------
    >>> int(training_rows(10, 3, seed=0).sum()), int(training_rows(10, 0, seed=0).sum())
    (7, 9)
    """
    train = np.ones(rows, dtype=bool)
    rng = generator(seed, Stream.HELD_OUT_ROWS)
    train[rng.choice(rows, size=max(1, held_out), replace=False)] = False
    return train
