"""The posterior over causal graphs: what every fit returns and all that follows it reads.

How the graphs are known, exactly or by sampling, is a `GraphDistribution`; a `Posterior` adds names
and answers questions about arrows, adjacencies, ancestors, graphs and equivalence classes. What
takes more than a few lines to answer is in a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8
from scipy.special import logsumexp

from svidag.data import Dataset
from svidag.data.columns import closest
from svidag.graph import ancestors, topological_order
from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior.answers import Answers
from svidag.posterior.diagnostics import Diagnostics
from svidag.posterior.distributions import GraphDistribution, usual_draws
from svidag.posterior.sensitivity import NEGLIGIBLE
from svidag.problem import Problem

if TYPE_CHECKING:
    from svidag.posterior.classes import ClassProbabilities, RankedClass
    from svidag.posterior.consensus import Consensus
    from svidag.posterior.ranking import RankedGraph

FEW = 6
"""Names in the text of a posterior."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Answers):
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

    def draws(self, n: int | None = None) -> int:
        """How many draws a summary rests on: n, by default 2000, fewer with over 500 variables."""
        return usual_draws(len(self.names)) if n is None else n

    def edge_probabilities(self) -> pd.DataFrame:
        """P(cause → effect | data) for every ordered pair."""
        # A sum over orders can exceed 1 by rounding.
        return self.labelled(np.minimum(self.graphs.edge_probabilities(), 1.0))

    def adjacency_probabilities(self) -> pd.DataFrame:
        """P(i → j or j → i | data): the sum of both directions, which exclude each other."""
        edges = self.graphs.edge_probabilities()
        return self.labelled(np.minimum(edges + edges.T, 1.0))

    def ancestor_probabilities(self, n: int | None = None, seed: int = 0) -> pd.DataFrame:
        """P(a directed path leads from cause to effect | data), from n draws."""
        return self.labelled(ancestors(self.sample(self.draws(n), seed)).mean(axis=0))

    def top_graphs(self, k: int = 10, n: int | None = None, seed: int = 0) -> list[RankedGraph]:
        """Rank the k most probable of the graphs seen in n draws.

        Their probabilities are exact where the posterior is, shares of the draws otherwise. A graph
        of probability p is missed by all draws with probability (1 − p)ⁿ.
        """
        from svidag.posterior.ranking import top_graphs

        return top_graphs(self, k, self.draws(n), seed)

    def cpdag(
        self, n: int | None = None, seed: int = 0, *, observational: bool = False
    ) -> ClassProbabilities:
        """Summarise the equivalence classes of n draws.

        A class holds the graphs that the data cannot tell apart whatever the form of the
        mechanisms: Markov's, made smaller by interventions and hard knowledge. With
        `observational` it is Markov's alone.
        """
        from svidag.posterior.classes import class_probabilities

        return class_probabilities(self, self.draws(n), seed, observational=observational)

    def decided(self, least: float = NEGLIGIBLE) -> pd.DataFrame:
        """What is known of every pair of variables, the most surely connected first.

        Above 0.95 a probability counts as sure, throughout svidag.

        Parameters
        ----------
        least
            Pairs connected with a smaller probability are left out.

        Returns
        -------
        pandas.DataFrame
            `cause` and `effect`, the more probable cause first; `connected`, P(either arrow);
            `forward` and `backward`, P(cause → effect) and P(effect → cause); `compelled`, the
            share of draws in whose equivalence class every graph has the arrow; `direction`:
            ``"decided"``, ``"favoured"`` or ``"open"``, given that they are connected; `ground`,
            what the direction rests on: independences with interventions and hard knowledge, or
            the form of the mechanism (or beliefs) only; and `status` of the pair in all.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.two_node("linear", n=500)
        >>> posterior = svidag.exact.posterior(example.data)
        >>> posterior.decided()["direction"].tolist()
        ['open']
        """
        from svidag.posterior.decisions import decisions

        return decisions(self).to_frame(least)

    def markov_blanket(self, name: str, n: int | None = None, seed: int = 0) -> pd.DataFrame:
        """Which variables shield one from all others: its causes, its effects, and their causes.

        For each other variable the share of n draws in which it is in the blanket of `name`, and
        as what: `cause`, `effect`, or `partner`, another cause of an effect of `name`.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
        >>> posterior = svidag.exact.posterior(example.data)
        >>> list(posterior.markov_blanket("x1").columns)
        ['in_blanket', 'cause', 'effect', 'partner']
        """
        from svidag.posterior.ranking import markov_blanket

        return markov_blanket(self, self._index(name), self.draws(n), seed)

    def top_classes(self, k: int = 10, n: int | None = None, seed: int = 0) -> list[RankedClass]:
        """Rank the k most probable Markov equivalence classes among those seen in n draws.

        The probability of a class is summed over its members where the posterior knows theirs and
        they are few; elsewhere it is the share of draws. Each says which.
        """
        from svidag.posterior.classes import top_classes

        return top_classes(self, k, self.draws(n), seed)

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
        n: int | None = None,
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
            Draws, by default 2000; the standard error is at most ½/√n.

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
        draws = self.sample(self.draws(n), seed)
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
        table = self._values(rows)
        terms = self._mechanisms().log_likelihood(self.sample(n, seed), table, seed)
        return logsumexp(terms, axis=0) - np.log(n)

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
        return self.labelled(self.graphs.spread())

    def changes(self) -> pd.DataFrame:
        """How probably the mechanism of each column changes with the environment.

        One row for each column, the surest change first: `changes`, and how: `shifted` (mean; with
        flexible mechanisms scale and curve too) or `separate` (slopes as well, linear mechanisms).

        Raises
        ------
        ValueError
            If the fit had no environments.

        Examples
        --------
        >>> import svidag
        >>> table = svidag.datasets.two_node("linear", n=200).data
        >>> table["batch"] = [k % 2 for k in range(200)]
        >>> table["x1"] += 3.0 * table["batch"]
        >>> posterior = svidag.fit(table, method="exact", environments="batch", progress=False)
        >>> posterior.changes().index[0]
        'x1'
        """
        found = None if self.diagnostics is None else self.diagnostics.changes
        if found is None:
            raise ValueError('this fit knows of no environments: fit(..., environments="batch")')
        frame = pd.DataFrame(dict(found), index=pd.Index(self.names, name="column"))
        frame.insert(0, "changes", 1.0 - frame.pop("unchanged"))
        return frame.sort_values("changes", ascending=False, kind="stable")

    def imputed(self, column: str) -> pd.DataFrame:
        """Draws of the missing cells of a column: one row for each cell, one column for each draw.

        They are in the units of the table, or of the transformed column where it is transformed;
        those of a discrete column are its own values.

        Raises
        ------
        ValueError
            If no cell was missing, or the table did not come from ``missing="impute"``.

        Examples
        --------
        >>> import svidag
        >>> table = svidag.datasets.two_node("linear", n=200).data
        >>> table.loc[:19, "x2"] = None
        >>> posterior = svidag.fit(table, method="exact", missing="impute", progress=False)
        >>> posterior.imputed("x2").shape
        (20, 8)
        """
        j, cells = self._index(column), None if self.problem is None else self.problem.missing
        if cells is None or not cells.mask[:, j].any():
            raise ValueError(f"no cell of {column!r} was imputed in this fit")
        assert self.problem is not None
        row, owner = np.nonzero(cells.mask)
        labelled = [self.problem.data.labelled(draw[owner == j], j) for draw in cells.draws]
        found = pd.concat(labelled, axis=1)
        found.columns = pd.RangeIndex(cells.tables, name="draw")
        return found.set_index(pd.Index(row[owner == j], name="row"))

    def __repr__(self) -> str:
        m, facts = len(self.names), self.diagnostics
        listed = ", ".join(self.names[:FEW]) + (", …" if m > FEW else "")
        parts = [f"Posterior over graphs of {m} variables ({listed})"]
        if facts is not None:
            parts.append(f"{facts.method}, {facts.mechanism} mechanisms, {facts.status}")
        if self.problem is not None:
            parts.append(f"{self.problem.data.n_rows:,} rows")
        return "; ".join(parts)

    def _values(self, rows: Any) -> Float[np.ndarray, "N m"]:
        """Rows with every column, as the mechanisms know them."""
        data = None if self.problem is None else self.problem.data
        if data is not None and data.discrete.any():
            frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
            found = tuple(map(str, frame.columns))
            if isinstance(rows, pd.DataFrame) and found != self.names:
                raise ValueError(f"rows must have the columns {self.names}; got {found}")
            return data.encode(frame.set_axis(pd.Index(self.names, dtype=object), axis=1))
        names = None if hasattr(rows, "columns") else self.names
        found = Dataset.from_any(rows, names=names, kinds="continuous")
        if found.names != self.names:
            raise ValueError(f"rows must have the columns {self.names}; got {found.names}")
        return found.values

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

    def labelled(self, matrix: np.ndarray) -> pd.DataFrame:
        """A matrix [m, m] as a frame, causes in rows and effects in columns."""
        return pd.DataFrame(
            matrix,
            index=pd.Index(self.names, name="cause"),
            columns=pd.Index(self.names, name="effect"),
        )
