"""The contract of every method: frozen settings that turn a problem into a distribution of graphs.

A method is a `Settings` class with three things of its own: a name, what it supports, and `run`.
`svidag.fit` does the rest for all of them: it checks the problem against what the method supports,
opens the checkpoint and the progress, keeps the time, and wraps what `run` found as a `Posterior`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior import GraphDistribution
from svidag.posterior.diagnostics import Details, Reason
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, SavedState
from svidag.run.deadline import Deadline
from svidag.run.settings import Settings
from svidag.run.status import Status


@dataclass(frozen=True)
class Support:
    """What may be asked of a method.

    Attributes
    ----------
    mechanisms
        The mechanisms it knows; the first is what ``mechanism="auto"`` means to it, unless
        ``"auto"`` is among them, for then it decides by evidence.
    interventions
        Whether entries set from outside are left out of the evidence about their own causes.
    beliefs
        Whether probabilities of single arrows can be stated beforehand.
    hard_knowledge
        Whether required and forbidden arrows and tiers hold in every draw.
    acyclic
        Whether every draw is a directed acyclic graph.
    structure_weights
        Whether it computes ``graph_weights="structure"`` itself; otherwise draws are reweighted.
    coarsening
        Whether rows can count less than once.
    """

    mechanisms: tuple[str, ...]
    interventions: bool = True
    beliefs: bool = True
    hard_knowledge: bool = True
    acyclic: bool = True
    structure_weights: bool = False
    coarsening: bool = False

    def mechanism(self, asked: str) -> str:
        """What an asked mechanism means to the method."""
        return self.mechanisms[0] if asked == "auto" and asked not in self.mechanisms else asked


@dataclass(frozen=True, eq=False)
class Run:
    """What surrounds a fit.

    Attributes
    ----------
    mechanism
        One of the mechanisms that the method supports.
    graph_weights
        ``"order"`` or ``"structure"``; a method that does not support the latter gets the former.
    seed
        The seed.
    report
        A callback: the stage, how much of it is done, how much there is (if known), and metrics.
    checkpoint
        Where an unfinished fit is kept.
    saved
        What an earlier call kept there.
    deadline
        When the fit must end.
    coarsen
        α, where every row counts α/(α + N) times.
    """

    mechanism: str
    graph_weights: str
    seed: int
    report: Callable[..., None]
    checkpoint: Checkpoint
    saved: SavedState | None
    deadline: Deadline
    coarsen: float | None = None

    def resumed(self, *stages: str) -> Any:
        """What an earlier call kept, if it had come to one of these stages; else None."""
        return None if self.saved is None or self.saved.stage not in stages else self.saved.state


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What a method found.

    Attributes
    ----------
    graphs
        The distribution of the graph.
    parameters
        The distribution of the mechanisms' parameters given a graph, where the method has one.
    mechanism
        The mechanism of the fit; where the method was asked to choose, what it chose.
    status
        How the fit ended.
    reasons
        What was looked at to judge the computation, each with how it came out.
    details
        The diagnostics of the method's own.
    mechanism_margin
        Where it chose the mechanism, by how much log evidence that one was preferred.
    log_evidence
        log p(D | knowledge), where it is known.
    """

    graphs: GraphDistribution
    parameters: ParameterDistribution | None
    mechanism: str
    status: Status
    reasons: tuple[Reason, ...]
    details: Details | None = None
    mechanism_margin: float | None = None
    log_evidence: float | None = None


@dataclass(frozen=True)
class Method(Settings):
    """A way to find the posterior over graphs; its fields are its settings.

    Attributes
    ----------
    name
        What `svidag.fit`, the command line and study files call it.
    summary
        What it does, in one line.
    support
        What may be asked of it.
    trial
        Settings with which a small problem takes seconds: for a first look, and for tests.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    support: ClassVar[Support]
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @abc.abstractmethod
    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Find the distribution of graphs for a problem that the method supports."""

    def identity(self) -> dict[str, Any]:
        """The settings as plain data, by which a checkpoint knows its fit."""
        return self.values()
