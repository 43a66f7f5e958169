"""The most probable graphs, and the neighbourhood of one variable, from draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from svidag.graph import distinct
from svidag.posterior.posterior import Posterior
from svidag.posterior.text import Readable, arrow_lines, counted, shortened


@dataclass(frozen=True, eq=False, repr=False)
class RankedGraph(Readable):
    """A graph, labelled by cause and effect, and its posterior probability.

    Examples
    --------
    >>> graph = pd.DataFrame([[0, 1], [0, 0]], index=["a", "b"], columns=["a", "b"])
    >>> RankedGraph(graph, 0.31)
    Graph of probability 0.310 with 1 arrow
      a → b
    """

    graph: pd.DataFrame
    probability: float

    def _text(self) -> tuple[str, list[str]]:
        lines = arrow_lines(self.graph)
        title = f"Graph of probability {self.probability:.3f} with {counted(len(lines), 'arrow')}"
        return title, shortened(lines)


def top_graphs(posterior: Posterior, k: int, n: int, seed: int) -> list[RankedGraph]:
    """The k most probable of the graphs seen in n draws; see `Posterior.top_graphs`."""
    graphs, which = distinct(posterior.sample(n, seed))
    count, log_p = np.bincount(which), posterior.graphs.log_probability(graphs)
    probability = count / n if log_p is None else np.exp(log_p)
    best = np.argsort(-probability, kind="stable")[:k]
    return [RankedGraph(posterior.labelled(graphs[b]), float(probability[b])) for b in best]


def markov_blanket(posterior: Posterior, centre: int, n: int, seed: int) -> pd.DataFrame:
    """Shares of draws in which others are in the blanket of one; see `Posterior.markov_blanket`."""
    draws = posterior.sample(n, seed).astype(bool)
    causes, effects = draws[:, :, centre], draws[:, centre]
    partners = np.einsum("sij,sj->si", draws.astype(np.float32), effects.astype(np.float32)) > 0
    partners[:, centre] = False
    shares = {
        "in_blanket": causes | effects | partners,
        "cause": causes,
        "effect": effects,
        "partner": partners,
    }
    frame = pd.DataFrame(
        {word: share.mean(axis=0) for word, share in shares.items()},
        index=pd.Index(posterior.names, name="variable"),
    )
    others = frame.drop(index=posterior.names[centre])
    return others.sort_values("in_blanket", ascending=False, kind="stable")
