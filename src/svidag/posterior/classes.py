"""Equivalence classes: graphs that no data tell apart, whatever the form of the mechanisms.

Without interventions they are Markov's. A row in which exactly one of two connected variables was
set from outside tells which way they are connected, and so does hard knowledge; both make the
classes smaller, and with them what follows by Meek's four rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, UInt8

from svidag.data import row_groups
from svidag.graph import LimitError, cpdags, distinct, members
from svidag.posterior.posterior import Posterior
from svidag.posterior.text import Readable, arrow_lines, counted, shortened
from svidag.problem import Problem

CLASS_MEMBERS = 500
"""Classes with more members have their probability from draws."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassProbabilities(Readable):
    """How often an adjacency is directed, or left open, in the equivalence class of a draw.

    Attributes
    ----------
    directed
        P(i → j is compelled): the arrow is in every member of the draw's class.
    undirected
        P(i — j is reversible): adjacent, with members of the class pointing either way.
    most_probable
        The graph of the class with the largest share of draws; an undirected i — j is 1 in both
        cells.
    probability
        That share.
    """

    directed: pd.DataFrame
    undirected: pd.DataFrame
    most_probable: pd.DataFrame
    probability: float

    def _text(self) -> tuple[str, list[str]]:
        lines = arrow_lines(self.most_probable)
        title = f"The most probable equivalence class, in {100 * self.probability:.2g} % of draws"
        return title, shortened(lines or ["no arrows"])


@dataclass(frozen=True, eq=False, repr=False)
class RankedClass(Readable):
    """A Markov equivalence class as its CPDAG, i — j being 1 in both cells, and its probability.

    Attributes
    ----------
    cpdag
        Labelled by cause and effect.
    probability
        P(class | data).
    exact
        Whether that is a sum over all members, or else the share of draws.
    """

    cpdag: pd.DataFrame
    probability: float
    exact: bool

    def _text(self) -> tuple[str, list[str]]:
        lines = arrow_lines(self.cpdag)
        links = sum("—" in line for line in lines)
        size = f"{counted(len(lines) - links, 'arrow')}, {counted(links, 'link')} without direction"
        how = "" if self.exact else " (share of draws)"
        title = f"Equivalence class of probability {self.probability:.3f}{how} with {size}"
        return title, shortened(lines)


def class_probabilities(
    posterior: Posterior, n: int, seed: int, *, observational: bool
) -> ClassProbabilities:
    """How often arrows are directed in the classes of n draws; see `Posterior.cpdag`."""
    known, intervened = known_directions(posterior.problem, len(posterior.names))
    directions = None if observational or not (known | intervened).any() else known | intervened
    classes = cpdags(posterior.sample(n, seed), known_directions=directions).astype(bool)
    both = classes & classes.swapaxes(1, 2)
    different, which = distinct(classes)
    count = np.bincount(which)
    return ClassProbabilities(
        directed=posterior.labelled((classes & ~both).mean(axis=0)),
        undirected=posterior.labelled(both.mean(axis=0)),
        most_probable=posterior.labelled(different[count.argmax()]),
        probability=float(count.max() / n),
    )


def known_directions(
    problem: Problem | None, m: int
) -> tuple[Bool[np.ndarray, "m m"], Bool[np.ndarray, "m m"]]:
    """Pairs whose direction hard knowledge, and whose direction interventions tell.

    Examples
    --------
    >>> import svidag
    >>> prior = svidag.Prior(required=[("x1", "x2")])
    >>> example = svidag.datasets.two_node("linear", n=50)
    >>> posterior = svidag.exact.posterior(example.data, prior=prior)
    >>> known_directions(posterior.problem, 2)[0].tolist()
    [[False, True], [True, False]]
    """
    if problem is None:
        return np.zeros((m, m), dtype=bool), np.zeros((m, m), dtype=bool)
    excluded = ~problem.prior.allowed & ~np.eye(m, dtype=bool)
    known = problem.prior.required | excluded
    # A row in which exactly one of two was set from outside tells which way they are connected.
    _, group = row_groups(problem.data.intervened)
    return known | known.T, group[:, None] != group


def top_classes(posterior: Posterior, k: int, n: int, seed: int) -> list[RankedClass]:
    """The most probable classes among n draws; see `Posterior.top_classes`.

    Examples
    --------
    >>> from svidag.posterior import DrawnGraphs
    >>> graphs = np.array([[[0, 1], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]], dtype=np.uint8)
    >>> posterior = Posterior(("a", "b"), DrawnGraphs(graphs, np.array([0.3, 0.3, 0.4])))
    >>> [round(ranked.probability, 2) for ranked in top_classes(posterior, 2, n=1000, seed=0)]
    [0.6, 0.4]
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a positive whole number of classes; got {k!r}")
    draws = posterior.sample(n, seed)
    classes, which = distinct(cpdags(draws))
    _, first, count = np.unique(which, return_index=True, return_counts=True)
    often = np.argsort(-count, kind="stable")[: 2 * k]  # near ties may change places
    ranked = []
    for c in often:
        probability = _class_probability(posterior, draws[first[c]])
        ranked.append(
            RankedClass(
                posterior.labelled(classes[c]),
                float(count[c] / n) if probability is None else probability,
                exact=probability is not None,
            )
        )
    return sorted(ranked, key=lambda one: -one.probability)[:k]


def _class_probability(posterior: Posterior, member: UInt8[np.ndarray, "m m"]) -> float | None:
    """Σ P(A) over all members of a graph's class, where it is known and they are few."""
    try:
        graphs = members(member, limit=CLASS_MEMBERS)
    except LimitError:
        return None
    log_p = posterior.graphs.log_probability(graphs)
    return None if log_p is None else float(np.exp(log_p).sum())
