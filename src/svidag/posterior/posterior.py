"""The posterior over causal graphs: what every fit returns and all that follows it reads.

How the graphs are known, exactly or by sampling, is a `GraphDistribution`; a `Posterior` adds names
and answers questions about arrows, adjacencies, ancestors, graphs and equivalence classes.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8
from scipy.special import logsumexp

from svidag.data import Dataset
from svidag.data.columns import closest
from svidag.graph import ancestors, cpdags, topological_order
from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior.diagnostics import Diagnostics
from svidag.problem import Problem
from svidag.run.streams import Stream, generator

if TYPE_CHECKING:
    import networkx as nx

    import svidag.effects
    from svidag.posterior.consensus import Consensus, RankedClass
    from svidag.posterior.sensitivity import Sensitivity

DRAWS = 2000  # draws behind a summary that has no closed form: standard error at most 0.011


class GraphDistribution(abc.ABC):
    """A distribution over DAGs with m nodes."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws of A."""

    @abc.abstractmethod
    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j)."""

    @abc.abstractmethod
    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"] | None:
        """log P(A) of given graphs; None where it can only be estimated from draws."""


@dataclass(frozen=True, eq=False)
class DrawnGraphs(GraphDistribution):
    """A distribution on a list of graphs, each with its probability."""

    graphs: UInt8[np.ndarray, "k m m"]
    probability: Float[np.ndarray, " k"]

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws from the list."""
        rng = generator(seed, Stream.GRAPH_DRAWS)
        return self.graphs[rng.choice(len(self.graphs), size=n, p=self.probability)]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The weighted share of graphs with the edge."""
        return np.einsum("k,kij->ij", self.probability, self.graphs.astype(float))

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"]:
        """The log of the summed probability of equal graphs in the list."""
        known: dict[bytes, float] = {}
        for graph, p in zip(self.graphs, self.probability, strict=True):
            known[graph.tobytes()] = known.get(graph.tobytes(), 0.0) + float(p)
        with np.errstate(divide="ignore"):
            return np.log([known.get(np.ascontiguousarray(g).tobytes(), 0.0) for g in graphs])


@dataclass(frozen=True, eq=False)
class RankedGraph:
    """A graph, labelled by cause and effect, and its posterior probability."""

    graph: pd.DataFrame
    probability: float


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """How often an adjacency is directed, or left open, in the equivalence class of a draw.

    Attributes
    ----------
    directed
        P(i → j is compelled): the arrow is in every member of the draw's Markov class.
    undirected
        P(i — j is reversible): adjacent, with members of the class pointing either way.
    most_probable
        The CPDAG with the largest share of draws; an undirected i — j is 1 in both cells.
    probability
        That share.
    """

    directed: pd.DataFrame
    undirected: pd.DataFrame
    most_probable: pd.DataFrame
    probability: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """p(A | data, beliefs) over labelled causal graphs.

    Attributes
    ----------
    names
        Variable names, in the order of the axes of every array.
    graphs
        The distribution over graphs.
    mechanisms
        The distribution over parameters given a graph, where the fit has one.
    log_evidence
        log p(D) under the model, where it is known.
    diagnostics
        What the fit reports about itself; None for graphs that no fit gave.
    problem
        The data and beliefs it rests on, where they are known.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> posterior.sample(5).shape
    (5, 4, 4)
    >>> posterior.edge_probabilities().index.name
    'cause'
    """

    names: tuple[str, ...]
    graphs: GraphDistribution
    mechanisms: ParameterDistribution | None = None
    log_evidence: float | None = None
    diagnostics: Diagnostics | None = None
    problem: Problem | None = None

    def __post_init__(self) -> None:
        if self.problem is not None and self.problem.data.names != self.names:
            raise ValueError(
                f"the data have the columns {self.problem.data.names}; expected {self.names}"
            )

    @property
    def mechanism(self) -> str | None:
        """How effects follow from causes in the fit, where it is known."""
        return None if self.diagnostics is None else self.diagnostics.mechanism

    def sample(self, n: int, seed: int = 0) -> UInt8[np.ndarray, "n m m"]:
        """Draw n graphs; ``draws[s, i, j] = 1`` means i → j in draw s."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n must be a positive whole number of draws; got {n!r}")
        return self.graphs.sample(int(n), seed)

    def edge_probabilities(self) -> pd.DataFrame:
        """P(cause → effect | data) for every ordered pair."""
        return self._labelled(self.graphs.edge_probabilities())

    def adjacency_probabilities(self) -> pd.DataFrame:
        """P(i → j or j → i | data): the sum of both directions, which exclude each other."""
        edges = self.graphs.edge_probabilities()
        return self._labelled(edges + edges.T)

    def ancestor_probabilities(self, n: int = DRAWS, seed: int = 0) -> pd.DataFrame:
        """P(a directed path leads from cause to effect | data), from n draws."""
        return self._labelled(ancestors(self.sample(n, seed)).mean(axis=0))

    def top_graphs(self, k: int = 10, n: int = DRAWS, seed: int = 0) -> list[RankedGraph]:
        """Rank the k most probable of the graphs seen in n draws.

        Their probabilities are exact where the posterior is, shares of the draws otherwise. A graph
        of probability p is missed by all draws with probability (1 − p)ⁿ.
        """
        distinct, count = np.unique(self.sample(n, seed), axis=0, return_counts=True)
        log_p = self.graphs.log_probability(distinct)
        probability = count / n if log_p is None else np.exp(log_p)
        best = np.argsort(-probability, kind="stable")[:k]
        return [RankedGraph(self._labelled(distinct[b]), float(probability[b])) for b in best]

    def cpdag(self, n: int = DRAWS, seed: int = 0) -> ClassProbabilities:
        """Summarise the Markov equivalence classes of n draws.

        Observational data cannot tell the members of a class apart, so an arrow counts as decided
        only as far as it is directed here.
        """
        classes = cpdags(self.sample(n, seed)).astype(bool)
        both = classes & classes.swapaxes(1, 2)
        distinct, count = np.unique(classes, axis=0, return_counts=True)
        return ClassProbabilities(
            directed=self._labelled((classes & ~both).mean(axis=0)),
            undirected=self._labelled(both.mean(axis=0)),
            most_probable=self._labelled(distinct[count.argmax()].astype(np.uint8)),
            probability=float(count.max() / n),
        )

    def top_classes(self, k: int = 10, n: int = DRAWS, seed: int = 0) -> list[RankedClass]:
        """Rank the k most probable Markov equivalence classes among those seen in n draws.

        The probability of a class is summed over its members where the posterior knows theirs and
        they are few; elsewhere it is the share of draws. Each says which.
        """
        from svidag.posterior.consensus import top_classes

        return top_classes(self, k, n, seed)

    def consensus(self, threshold: float = 0.5) -> Consensus:
        """The DAG nearest to the draws: the one with the largest Σ (P(i → j) − threshold).

        At ½ it has the least expected number of cells in which it differs from a draw, a reversed
        arrow counting twice. A wrong arrow costs `threshold`, a missing one 1 − `threshold`. It
        has every arrow that all draws have and none that no draw has, so it keeps hard knowledge.
        """
        from svidag.posterior.consensus import consensus

        return consensus(self, threshold)

    def probability_of(
        self,
        *,
        path: Sequence[str] = (),
        edges: Sequence[tuple[str, str]] = (),
        absent: Sequence[tuple[str, str]] = (),
        n: int = DRAWS,
        seed: int = 0,
    ) -> float:
        """P(all of this holds in the graph at once | data).

        A single arrow is answered as in `edge_probabilities`, all else by the share of n draws.

        Parameters
        ----------
        path
            Names of variables, each an immediate cause of the next.
        edges, absent
            Pairs (cause, effect) with, and without, an arrow.
        n, seed
            Draws; the standard error is at most ½/√n.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
        >>> posterior = svidag.exact.posterior(example.data)
        >>> chain = posterior.probability_of(path=["x1", "x2", "x3"], absent=[("x1", "x3")])
        >>> chain <= posterior.probability_of(path=["x1", "x2"])
        True
        """
        if isinstance(path, str) or len(path) == 1:
            raise ValueError(f"path must be a list of at least two names; got {path!r}")
        present = [*pairwise(path), *edges]
        if not present and not absent:
            raise ValueError("say what should hold: a path, edges or absent")
        here = [(self._index(a), self._index(b)) for a, b in present]
        gone = [(self._index(a), self._index(b)) for a, b in absent]
        if len(here) == 1 and not gone:
            return float(self.graphs.edge_probabilities()[here[0]])
        draws = self.sample(n, seed)
        holds = [draws[:, i, j] == 1 for i, j in here] + [draws[:, i, j] == 0 for i, j in gone]
        return float(np.all(holds, axis=0).mean())

    def parameters(
        self, graph: pd.DataFrame | np.ndarray, n: int = 100, seed: int = 0
    ) -> dict[str, np.ndarray]:
        """Draw the mechanisms' parameters n times, given a graph."""
        return self._mechanisms().parameters(self._adjacency(graph), n, seed)

    def predictive_log_likelihood(
        self, rows: Any, n: int = 200, seed: int = 0
    ) -> Float[np.ndarray, " N"]:
        """log p(row | data) of rows that the fit has not seen, averaged over graphs and parameters.

        log n⁻¹ Σ_s p(row | A_s, θ_s), in the units of the table.
        """
        values = Dataset.from_any(rows, names=None if hasattr(rows, "columns") else self.names)
        if values.names != self.names:
            raise ValueError(f"rows must have the columns {self.names}; got {values.names}")
        terms = self._mechanisms().log_likelihood(self.sample(n, seed), values.values, seed)
        return logsumexp(terms, axis=0) - np.log(n)

    def effect(
        self,
        cause: str,
        effect: str,
        change: Any = 1.0,
        at: Any = None,
        n: int = 1000,
        seed: int = 0,
        *,
        holding: Any = None,
        level: Any = 0.95,
    ) -> svidag.effects.Effect:
        """What moving the cause does to the mean of the effect, over graphs and parameters.

        E[effect | do(cause = at + change)] − E[effect | do(cause = at)].

        Parameters
        ----------
        cause, effect
            Names of two variables.
        change
            By how much the cause is moved, in its units: those of the table, or of the transformed
            column where the `Dataset` transforms it (a change of 1 in a log column is a factor e).
        at
            From where; by default from the mean of the rows in which it was not set from outside.
            Of no concern to linear mechanisms.
        n
            Number of graphs drawn.
        seed
            The same seed gives the same draws.
        holding
            Other variables and the values at which they are held, which leaves the effect along
            the paths that avoid them: ``{"mediator": 0.0}``.
        level
            Posterior probability of the reported interval.

        Returns
        -------
        Effect
            Mean, interval, the probability that no path leads from cause to effect, the
            probability of each sign, and the spread due to graph and parameters.

        Warns
        -----
        ExtrapolationWarning
            If a variable is set to a value far outside those that were observed.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.two_node("linear", n=500)
        >>> prior = svidag.Prior(required=[("x1", "x2")])
        >>> posterior = svidag.exact.posterior(example.data, prior=prior)
        >>> round(posterior.effect("x1", "x2").mean, 1)
        1.0
        """
        from svidag.effects import total_effect

        return total_effect(
            self, cause, effect, change=change, at=at, holding=holding, n=n, seed=seed, level=level
        )

    def do(self, values: Any, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Draw n rows of all variables while some are held at given values.

        Graph and parameters are drawn anew for each row. Values are in the units of the table, or
        of the transformed columns where the `Dataset` transforms them. Two calls with the same
        seed follow the same units, so that their rows may be compared one by one. A value far
        outside those that were observed gives an `ExtrapolationWarning`.

        Examples
        --------
        >>> import svidag
        >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
        >>> posterior.do({"x1": 2.0}, n=100).shape
        (100, 2)
        """
        from svidag.effects import interventional

        return interventional(self, values, n=n, seed=seed)

    def spread(self) -> pd.DataFrame:
        """The standard deviation of P(cause → effect) between the fits of a mixture.

        Raises
        ------
        ValueError
            If the posterior is of one fit.
        """
        from svidag.posterior.mixture import MixtureGraphs

        if not isinstance(self.graphs, MixtureGraphs):
            raise ValueError("this posterior is of one fit; fit(..., bags=16) gives a mixture")
        return self._labelled(self.graphs.spread())

    def sensitivity(self) -> Sensitivity:
        """What becomes of sure arrows under other margins, mechanisms and resamples.

        A fit with ``bags="auto"`` has tried that; for another one the probes are run now.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
        >>> posterior = svidag.fit(example.data, mechanism="linear", progress=False)
        >>> bool(posterior.sensitivity().flipped.any())
        False
        """
        if self.diagnostics is not None and self.diagnostics.sensitivity is not None:
            return self.diagnostics.sensitivity
        from svidag.methods.bagging import probe_posterior

        return probe_posterior(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one file, in one step; `svidag.load` reads it back.

        The file holds the table too: share it as you would share the data.
        """
        from svidag.io import save

        return save(self, path)

    def to_networkx(
        self, threshold: float | None = None, *, graph: pd.DataFrame | None = None
    ) -> nx.DiGraph:
        """The consensus graph, or all arrows above a threshold, with their probabilities.

        The consensus is acyclic and its nodes are column names, as DoWhy wants them. A labelled
        `graph`, for instance from `top_graphs`, takes its place.
        """
        from svidag.export import to_networkx

        return to_networkx(self, threshold, graph=graph)

    def to_pgmpy(self, graph: pd.DataFrame | None = None) -> Any:
        """The consensus graph, or a given one, as a pgmpy ``DAG``; needs svidag[pgmpy]."""
        from svidag.export import to_pgmpy

        return to_pgmpy(self, graph)

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """n drawn graphs with prior and data, as ``InferenceData`` or, from ArviZ 1.0, a DataTree.

        Draws are a dimension of their own and no chains, since no R-hat applies to them; needs
        svidag[arviz].
        """
        from svidag.export import to_arviz

        return to_arviz(self, n, seed)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that shows all this and opens offline; its path is returned."""
        from svidag.report import write

        return write(self, path)

    def _mechanisms(self) -> ParameterDistribution:
        if self.mechanisms is None:
            raise ValueError("this posterior is over graphs alone: it has no mechanisms to draw")
        return self.mechanisms

    def _index(self, name: str) -> int:
        if name not in self.names:
            hint = closest(str(name), self.names)
            raise ValueError(f"{name!r} is not a variable of this posterior{hint}")
        return self.names.index(name)

    def _adjacency(self, graph: pd.DataFrame | np.ndarray) -> UInt8[np.ndarray, "m m"]:
        if isinstance(graph, pd.DataFrame):
            graph = graph.loc[list(self.names), list(self.names)].to_numpy()
        graph = np.asarray(graph)
        topological_order(graph)  # raises, naming a cycle
        return graph.astype(np.uint8)

    def _labelled(self, matrix: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(
            matrix,
            index=pd.Index(self.names, name="cause"),
            columns=pd.Index(self.names, name="effect"),
        )
