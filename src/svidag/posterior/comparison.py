"""Two posteriors over the same variables: where they agree, and where the arrows differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from svidag.data.columns import listing
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior.text import Readable, counted, probability

DRAWS = 1000  # from each side, for the distance between distributions with too many graphs to list
SHOWN = 5
"""Arrows in the text of a comparison."""
SMALL = 0.005
"""Changes that are not listed there."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Readable):
    """What changes from the first posterior to the second.

    Attributes
    ----------
    first, second
        P(cause → effect) of each, labelled alike.
    total_variation
        ½ Σ_A |P(A) − Q(A)| between the two distributions: exact where both list their graphs, an
        estimate from draws where both know the probability of a graph, None elsewhere.
    """

    first: pd.DataFrame
    second: pd.DataFrame
    total_variation: float | None

    @property
    def difference(self) -> pd.DataFrame:
        """The second minus the first."""
        return self.second - self.first

    @property
    def mean_change(self) -> float:
        """The mean of |difference| over ordered pairs."""
        return float(np.abs(self._changes()).mean())

    @property
    def largest_change(self) -> float:
        """The largest |difference|; total variation is at least this."""
        return float(np.abs(self._changes()).max())

    def largest(self, k: int = 10) -> pd.DataFrame:
        """The k arrows that change most: cause, effect, first, second, change."""
        changes = self._changes()
        i, j = np.nonzero(~np.eye(len(self.first), dtype=bool))
        top = np.argsort(-np.abs(changes), kind="stable")[:k]
        i, j, names = i[top], j[top], self.first.index.to_numpy()
        return pd.DataFrame(
            {
                "cause": names[i],
                "effect": names[j],
                "first": self.first.to_numpy()[i, j],
                "second": self.second.to_numpy()[i, j],
                "change": changes[top],
            }
        )

    def summary(self) -> dict[str, float | int | None]:
        """Counts of arrows more probable than not, and how far the two are apart.

        Examples
        --------
        >>> from svidag.posterior import DrawnGraphs, Posterior
        >>> graphs = np.array([[[0, 1], [0, 0]], [[0, 0], [1, 0]]], dtype=np.uint8)
        >>> a = Posterior(("a", "b"), DrawnGraphs(graphs, np.array([0.9, 0.1])))
        >>> b = Posterior(("a", "b"), DrawnGraphs(graphs, np.array([0.2, 0.8])))
        >>> summary = compare(a, b).summary()
        >>> summary["reversed"], round(summary["total_variation"], 3)
        (1, 0.7)
        """
        here, there = self.first.to_numpy() > 0.5, self.second.to_numpy() > 0.5
        return {
            "in_both": int((here & there).sum()),
            "reversed": int((here & there.T).sum()),
            "only_first": int((here & ~there & ~there.T).sum()),
            "only_second": int((there & ~here & ~here.T).sum()),
            "mean_change": self.mean_change,
            "largest_change": self.largest_change,
            "total_variation": self.total_variation,
        }

    def _text(self) -> tuple[str, list[str]]:
        found = self.summary()
        counts = (
            f"arrows above one half: {found['in_both']} in both, {found['reversed']} reversed, "
            f"{found['only_first']} only in the first, {found['only_second']} only in the second"
        )
        apart = "" if self.total_variation is None else f"; distance {self.total_variation:.3f}"
        rows = [
            f"{row['cause']} → {row['effect']}: {probability(row['first'])} to "
            f"{probability(row['second'])}"
            for row in self.largest(SHOWN).to_dict("records")
            if abs(row["change"]) > SMALL
        ]
        change = f"mean change {self.mean_change:.3f}, largest {self.largest_change:.3f}{apart}"
        title = f"Comparison of two posteriors over {counted(len(self.first), 'variable')}"
        return title, [counts, change, *rows]

    def _changes(self) -> Float[np.ndarray, " pairs"]:
        return self.difference.to_numpy()[~np.eye(len(self.first), dtype=bool)]


def compare(first: Posterior, second: Posterior, *, n: int = DRAWS, seed: int = 0) -> Comparison:
    """Compare two posteriors over the same variables, matched by name.

    Parameters
    ----------
    first, second
        For instance with and without a belief, or from two halves of the data.
    n, seed
        Draws from each for the distance between the distributions, where it is estimated.

    Raises
    ------
    ValueError
        If their variables differ; their order may.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> plain = svidag.exact.posterior(example.data)
    >>> belief = svidag.Prior(beliefs={("x1", "x2"): 0.9})
    >>> change = svidag.compare(plain, svidag.exact.posterior(example.data, prior=belief))
    >>> change.largest(1)["cause"][0] in plain.names
    True
    """
    places = _places(first, second)
    edges = second.edge_probabilities().loc[list(first.names), list(first.names)]
    return Comparison(first.edge_probabilities(), edges, _distance(first, second, places, n, seed))


def _places(first: Posterior, second: Posterior) -> list[int]:
    """Where each variable of the first is in the second."""
    only = [
        (which, sorted(set(mine.names) - set(other.names)))
        for which, mine, other in (("first", first, second), ("second", second, first))
    ]
    differing = [f"only the {which} has {listing(names)}" for which, names in only if names]
    if differing:
        raise ValueError(f"the posteriors are over different variables: {'; '.join(differing)}")
    return [second.names.index(name) for name in first.names]


def _distance(
    first: Posterior, second: Posterior, places: list[int], n: int, seed: int
) -> float | None:
    if isinstance(first.graphs, DrawnGraphs) and isinstance(second.graphs, DrawnGraphs):
        return _listed_distance(first.graphs, second.graphs, places)
    back = np.argsort(places)
    mine, theirs = first.sample(n, seed), second.sample(n, seed)
    parts = []
    for own, other, draws, moved in (
        (first.graphs, second.graphs, mine, mine[:, back][:, :, back]),
        (second.graphs, first.graphs, theirs, theirs[:, places][:, :, places]),
    ):
        p, q = own.log_probability(draws), other.log_probability(moved)
        if p is None or q is None:
            return None
        parts.append(np.maximum(0.0, -np.expm1(q - p)))  # E_P (1 − Q/P)₊ is the distance
    return float(np.mean(parts))


def _listed_distance(first: DrawnGraphs, second: DrawnGraphs, places: list[int]) -> float:
    moved = second.graphs[:, places][:, :, places]
    weight = np.concatenate([first.probability, -second.probability])
    _, group = np.unique(np.concatenate([first.graphs, moved]), axis=0, return_inverse=True)
    sums: Float[np.ndarray, " k"] = np.bincount(group.reshape(-1), weights=weight)
    return float(0.5 * np.abs(sums).sum())
