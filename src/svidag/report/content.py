"""A posterior as the plain data of one report."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from svidag.effects import Experiments
from svidag.posterior import GraphDistribution, Posterior
from svidag.posterior.decisions import Decisions, Direction, Pair, PairStatus, decisions
from svidag.report import sections
from svidag.report.effects import MOST_VARIABLES, Effects, effect_sentences, effects
from svidag.report.groups import VariableGroup, groups
from svidag.report.layout import Layout, layered
from svidag.report.number_format import percent
from svidag.report.summary import mechanism_line
from svidag.report.verdict import Verdict, judge

UNSEEN = 0.005
"""Pairs less surely connected than this are left out of what the page's script knows."""


@dataclass(frozen=True, eq=False)
class Content:
    """Everything a report shows."""

    names: tuple[str, ...]
    verdict: Verdict
    edges: np.ndarray
    decisions: Decisions
    layout: Layout
    graphs: tuple[sections.GraphEntry, ...]
    classes: tuple[sections.GraphEntry, ...]
    consensus: tuple[sections.GraphEntry, float]
    beliefs: sections.Beliefs | None
    effects: Effects | None
    data: sections.Data | None
    diagnostics: tuple[tuple[str, str], ...]
    charts: tuple[sections.Chart, ...]
    provenance: tuple[tuple[str, str], ...]
    interventions: bool
    mechanism: str
    sensitivity: sections.ModelDependence | None = None
    experiments: Experiments | None = None
    sentences: tuple[str, ...] = ()
    groups: tuple[VariableGroup, ...] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, the most surely connected first."""
        return self.decisions.pairs

    @property
    def shown_pairs(self) -> list[Pair]:
        """Pairs that are likely enough to be listed and drawn."""
        return self.decisions.shown()

    @property
    def matrix(self) -> bool:
        """Whether the page has a table of all arrows."""
        return len(self.names) <= MOST_VARIABLES

    @property
    def order(self) -> list[int]:
        """The variables as in the drawing, from above to below."""
        return sorted(range(len(self.names)), key=lambda k: self.layout.places[k][::-1])

    @property
    def count(self) -> Counter[PairStatus]:
        """How many pairs have each status."""
        return self.decisions.count


@dataclass(frozen=True, eq=False)
class CachedGraphs(GraphDistribution):
    """A distribution of graphs that computes each answer once; some take seconds to compute.

    Examples
    --------
    >>> from svidag.posterior import DrawnGraphs
    >>> distribution = CachedGraphs(DrawnGraphs(np.zeros((1, 2, 2), dtype=np.uint8), np.ones(1)))
    >>> distribution.sample(3, seed=0) is distribution.sample(3, seed=0)
    True
    """

    distribution: GraphDistribution

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """The draws of the distribution."""
        return self._sample(n, seed)

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j)."""
        return self._edges

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"] | None:
        """log P(A), computed again for every call."""
        return self.distribution.log_probability(graphs)

    @cached_property
    def _sample(self) -> Callable[[int, int], np.ndarray]:
        return cache(self.distribution.sample)

    @cached_property
    def _edges(self) -> np.ndarray:
        return self.distribution.edge_probabilities()


def content(posterior: Posterior) -> Content:
    """Collect everything that the report shows; each quantity is computed once."""
    posterior = dataclasses.replace(posterior, graphs=CachedGraphs(posterior.graphs))
    edges = posterior.edge_probabilities().to_numpy()
    problem = posterior.problem
    return Content(
        names=tuple(name.encode("utf-8", "replace").decode() for name in posterior.names),
        verdict=judge(posterior),
        edges=edges,
        decisions=decisions(posterior),
        layout=layered(edges),
        graphs=tuple(sections.graphs(posterior)),
        classes=tuple(sections.classes(posterior)),
        consensus=sections.consensus(posterior),
        beliefs=sections.beliefs(posterior),
        effects=effects(posterior),
        data=sections.data(posterior),
        diagnostics=tuple(sections.diagnostics(posterior)),
        charts=tuple(sections.charts(posterior)),
        provenance=tuple(sections.provenance(posterior)),
        interventions=problem is not None and bool(problem.data.intervened.any()),
        mechanism=mechanism_line(posterior),
        sensitivity=sections.model_dependence(posterior),
        experiments=sections.experiments(posterior),
        sentences=effect_sentences(posterior),
        groups=groups(edges),
    )


def drawing(content: Content) -> dict[str, Any]:
    """What the page's own script draws: names, places, pairs, graphs to choose from, effects."""
    found = content.effects
    return {
        "names": list(content.names),
        "places": [list(place) for place in content.layout.places],
        "size": list(content.layout.size),
        "pairs": [_drawn(pair, content.layout) for pair in content.decisions.shown(UNSEEN)],
        "views": [
            {"label": label, "title": title, "arrows": item.arrows, "links": item.links}
            for label, title, item in _views(content)
        ],
        "effects": None
        if found is None
        else {
            name: _rounded(getattr(found, name))
            for name in ("change", "mean", "low", "high", "zero")
        }
        | {"beyond": found.beyond.tolist()},
    }


def _views(content: Content) -> Iterator[tuple[str, str, sections.GraphEntry]]:
    """Single graphs that can be drawn: their labels on buttons and their titles."""
    yield "consensus", "Consensus: nearest to all graphs", content.consensus[0]
    for label, listed in (("graph", content.graphs), ("class", content.classes)):
        for k, item in enumerate(listed, start=1):
            yield f"{label} {k}", f"{label.capitalize()} {k} ({percent(item.probability)})", item


def _rounded(values: np.ndarray) -> list[Any]:
    """Four significant digits."""
    return [_rounded(row) if isinstance(row, np.ndarray) else float(f"{row:.4g}") for row in values]


def _drawn(pair: Pair, layout: Layout) -> dict[str, Any]:
    i, j = pair.cause, pair.effect
    upside = (j, i) in layout.routes
    route = layout.routes.get((j, i) if upside else (i, j))
    points = None if route is None else [[round(x, 3), y] for x, y in route]
    return {
        "i": i,
        "j": j,
        "p": round(pair.forward, 4),
        "q": round(pair.backward, 4),
        "d": {Direction.DECIDED: 2, Direction.FAVOURED: 1, Direction.OPEN: 0}[pair.direction],
        "route": points[::-1] if points and upside else points,
    }
