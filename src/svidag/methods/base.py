"""The contract of every method: frozen settings that turn a problem into a distribution of graphs.

A method is a `Settings` class with three things of its own: a name, what it supports, and `run`.
`svidag.fit` does the rest for all of them: it checks the problem against what the method supports,
opens the checkpoint and the progress display, watches the time limit, and makes a `Posterior` of
the result.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from svidag.data import Kind
from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior import GraphDistribution
from svidag.posterior.diagnostics import Details, Reason
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, SavedState
from svidag.run.deadline import Deadline
from svidag.run.pools import Pool, Threads
from svidag.run.settings import Settings
from svidag.run.status import Status

IMMATERIAL = ("chunk",)
"""Settings of any method that change no number: how often it reports."""


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
    environments
        Whether mechanisms may change with the environment of a row.
    kinds
        The kinds of columns that it knows.
    """

    mechanisms: tuple[str, ...]
    interventions: bool = True
    beliefs: bool = True
    hard_knowledge: bool = True
    acyclic: bool = True
    structure_weights: bool = False
    coarsening: bool = False
    environments: bool = False
    kinds: tuple[Kind, ...] = (Kind.CONTINUOUS,)

    def mechanism(self, asked: str) -> str:
        """The mechanism to use: for ``"auto"`` the first, unless the method itself chooses."""
        return self.mechanisms[0] if asked == "auto" and asked not in self.mechanisms else asked


@dataclass(frozen=True, eq=False)
class Run:
    """What `svidag.fit` gives to a method beside the problem.

    Attributes
    ----------
    mechanism
        One of the mechanisms that the method supports.
    graph_weights
        ``"order"`` or ``"structure"``; a method that does not support the latter gets the former.
    seed
        The seed.
    report
        A callback for progress: the stage, how much of it is done, of how much if that is known,
        and metrics.
    checkpoint
        Where an unfinished fit is saved.
    saved
        What an earlier call saved there; None if there is nothing.
    deadline
        When the fit must end.
    coarsen
        α, where every row counts α/(α + N) times.
    pool
        Where parts of the fit can run side by side.
    """

    mechanism: str
    graph_weights: str
    seed: int
    report: Callable[..., None]
    checkpoint: Checkpoint
    saved: SavedState | None
    deadline: Deadline
    coarsen: float | None = None
    pool: Pool = field(default_factory=Threads)

    def resumed(self, *stages: str) -> Any:
        """The state that an earlier call saved in one of these stages; None if there is none."""
        return None if self.saved is None or self.saved.stage not in stages else self.saved.state


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The result of a method, from which `svidag.fit` makes a `Posterior`.

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
        What was checked about the computation, and how each check came out.
    details
        Diagnostics that only this method has.
    mechanism_margin
        Where it chose the mechanism, by how much log evidence that one was preferred.
    mechanism_runner_up
        The mechanism that it was preferred to.
    log_evidence
        log p(D | knowledge), where it is known.
    changes
        P(the mechanism of a node changes with the environment, and how), where there are any.
    """

    graphs: GraphDistribution
    parameters: ParameterDistribution | None
    mechanism: str
    status: Status
    reasons: tuple[Reason, ...]
    details: Details | None = None
    mechanism_margin: float | None = None
    log_evidence: float | None = None
    changes: Mapping[str, tuple[float, ...]] | None = None
    mechanism_runner_up: str | None = None


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
        Settings with which a small problem takes seconds, for tests and first trials.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    support: ClassVar[Support]
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @abc.abstractmethod
    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Find the distribution of graphs for a problem that the method supports."""

    def check_mechanism(self, mechanism: str) -> None:
        """Raise where these settings do not go with a mechanism that the method supports."""

    def for_mixture(self) -> Method:
        """The method as one fit of many, whose errors average out; by default as it is."""
        return self

    def identity(self) -> dict[str, Any]:
        """The settings that change numbers, as plain data; others refuse a checkpoint of these."""
        return {k: v for k, v in self.values().items() if k not in IMMATERIAL}
