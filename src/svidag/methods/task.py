"""What the default preset hands to the engine that finds orders and parents, and gets back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.posterior import GraphDistribution
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, Saved
from svidag.run.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with its mechanism, the seed, and who is told of the progress.

    Attributes
    ----------
    problem
        Data and beliefs.
    mechanism
        ``"linear"`` or ``"nonlinear"``.
    scores
        The mechanism's evidences.
    sketch
        A cheaper stand-in for them, where that saves time.
    seed
        The seed.
    report
        Is told the stage, how much of it is done, how much there is (if known), and figures.
    checkpoint
        Where what is unfinished is kept.
    saved
        What an earlier run kept there.
    deadline
        When the fit must end.
    """

    problem: Problem
    mechanism: str
    scores: LinearGaussian | WideNetwork
    sketch: WideNetwork | None
    seed: int
    report: Callable[..., None]
    checkpoint: Checkpoint
    saved: Saved | None = None
    deadline: Deadline = field(default_factory=Deadline)

    def begun(self, *stages: str) -> Any:
        """What an earlier run kept, if it had come to one of these stages; else None."""
        return None if self.saved is None or self.saved.stage not in stages else self.saved.state


@dataclass(frozen=True, eq=False)
class Found:
    """The distribution of the graph, what the engine reports about it, and the settings it used.

    Where the distribution is exact, also log p(D | knowledge).
    """

    distribution: GraphDistribution
    figures: Mapping[str, Any]
    settings: Mapping[str, Any]
    log_evidence: float | None = None
