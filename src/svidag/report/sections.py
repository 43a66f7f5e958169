"""The parts of a report as plain data: text, numbers, lists and dictionaries."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from svidag import __version__
from svidag.data import Dataset
from svidag.data.columns import listing
from svidag.effects import Experiments
from svidag.posterior import Posterior
from svidag.posterior.mixture import MixtureDetails, MixtureParameters
from svidag.problem import Problem
from svidag.report.noise import NoisePlot, noise_plots
from svidag.report.verdict import findings

GRAPHS = 6
"""Most probable graphs listed."""
CONTRADICTION = 0.3
"""Change of an arrow's probability from which the data speak against a stated belief."""
SPREADS = 20
"""Arrows listed by how far the fits of a mixture differ."""
EXPERIMENTS = 16
"""Simulated experiments for each variable."""
FAMILY_GRAPHS, MOST_FAMILIES, DRAWN = 200, 15_000, 20
"""Graphs in which parent sets are counted; parent sets that are looked at for experiments at most,
about ten seconds; and how many times that costs where parameters are drawn."""
FAMILY_COST = {"linear": 1, "discrete": 2, "mixed": 60}
"""The same for some mechanisms: regressions of columns of several kinds are done in all orders."""
BINS = 24
POINTS = 160
"""Points of a small line."""


Mark = tuple[int, int, str]
"""Two variables and what is between them: → or —."""


@dataclass(frozen=True)
class GraphEntry:
    """A graph, its probability, and how it differs from the first of its list.

    `gained` are the arrows and links that the first graph lacks, `lost` those that only it has.
    """

    probability: float
    arrows: tuple[tuple[int, int], ...]
    links: tuple[tuple[int, int], ...]
    gained: tuple[Mark, ...] = ()
    lost: tuple[Mark, ...] = ()

    @property
    def marks(self) -> list[Mark]:
        """Arrows, then links."""
        return [(i, j, "→") for i, j in self.arrows] + [(i, j, "—") for i, j in self.links]


def graphs(posterior: Posterior) -> list[GraphEntry]:
    """The most probable graphs."""
    top = posterior.top_graphs(GRAPHS)
    return _listed([(graph.graph, graph.probability) for graph in top])


def classes(posterior: Posterior) -> list[GraphEntry]:
    """The most probable Markov equivalence classes."""
    top = posterior.top_classes(GRAPHS)
    return _listed([(ranked.cpdag, ranked.probability) for ranked in top])


def consensus(posterior: Posterior) -> tuple[GraphEntry, float]:
    """The graph nearest to the draws, and in how many cells a draw differs from it on average."""
    found = posterior.consensus()
    (graph,) = _listed([(found.graph, 1.0)])
    return graph, found.expected_differences


def _listed(ranked: list[tuple[pd.DataFrame, float]]) -> list[GraphEntry]:
    found = [_graph(frame.to_numpy().astype(bool), p) for frame, p in ranked]
    first = found[0].marks
    known = set(first)
    return [
        replace(
            listed,
            gained=tuple(mark for mark in listed.marks if mark not in known),
            lost=tuple(mark for mark in first if mark not in own),
        )
        for listed in found
        for own in (set(listed.marks),)
    ]


def _graph(matrix: Bool[np.ndarray, "m m"], probability: float) -> GraphEntry:
    return GraphEntry(probability, _cells(matrix & ~matrix.T), _cells(np.triu(matrix & matrix.T)))


def _cells(matrix: Bool[np.ndarray, "m m"]) -> tuple[tuple[int, int], ...]:
    return tuple((int(i), int(j)) for i, j in np.argwhere(matrix))


@dataclass(frozen=True)
class Change:
    """What was believed of an arrow, and what the data made of it."""

    cause: int
    effect: int
    stated: float
    prior: float
    posterior: float

    @property
    def change(self) -> float:
        """Posterior less prior probability of the arrow."""
        return self.posterior - self.prior

    @property
    def contradicts(self) -> bool:
        """Whether the data speak against a stated belief."""
        against = -self.change if self.stated > 0.5 else self.change
        return against > CONTRADICTION


@dataclass(frozen=True)
class Beliefs:
    """Prior against posterior, and what was certain beforehand."""

    changes: tuple[Change, ...]
    base: float
    required: tuple[tuple[int, int], ...]
    forbidden: tuple[tuple[int, int], ...]


def beliefs(posterior: Posterior) -> Beliefs | None:
    """What became of stated beliefs, the largest changes first; None if nothing was stated."""
    if posterior.problem is None:
        return None
    edges = posterior.problem.prior
    before = edges.edge_probabilities().to_numpy()
    after = posterior.edge_probabilities().to_numpy()
    stated, base = _stated(posterior.problem)
    rows = [
        Change(
            i,
            j,
            float(edges.belief[i, j]),
            float(before[i, j]),
            float(after[i, j]),
        )
        for i, j in _cells(edges.free & stated)
    ]
    rows.sort(key=lambda row: -abs(row.change))
    excluded = _cells(~edges.allowed & ~np.eye(len(before), dtype=bool))
    if not rows and not excluded and not edges.required.any():
        return None
    return Beliefs(tuple(rows), base, _cells(edges.required), excluded)


def _stated(problem: Problem) -> tuple[Bool[np.ndarray, "m m"], float]:
    """Pairs with a belief of their own: other than the one that most pairs share."""
    prior = problem.prior
    free = prior.free
    if not free.any():
        return free, 0.0
    said = list(zip(prior.belief[free].tolist(), prior.concentration[free].tolist(), strict=True))
    (base, weight), _ = Counter(said).most_common(1)[0]
    return free & ((prior.belief != base) | (prior.concentration != weight)), base


@dataclass(frozen=True)
class Column:
    """One variable: its statistics in original units, and a histogram with bars up to 1."""

    name: str
    kind: str
    transform: str | None
    mean: float
    deviation: float
    low: float
    high: float
    intervened: int
    missing: float
    bars: tuple[float, ...]
    noise: NoisePlot | None = None


@dataclass(frozen=True)
class Data:
    """The table, column by column, and what its audit found."""

    rows: int
    columns: tuple[Column, ...]
    standardised: bool
    findings: tuple[Any, ...]

    @property
    def missing(self) -> bool:
        """Whether cells are missing."""
        return any(column.missing for column in self.columns)

    @property
    def noise(self) -> bool:
        """Whether the noise of some variable is shown."""
        return any(column.noise for column in self.columns)


def data(posterior: Posterior) -> Data | None:
    """The data as they were given; None without the problem."""
    problem = posterior.problem
    if problem is None:
        return None
    values, cells = problem.values, problem.missing
    gone = np.zeros(values.shape, bool) if cells is None else cells.mask
    noise = noise_plots(posterior)
    columns = tuple(
        _column(
            name,
            _own_units(problem, j)[~gone[:, j]],
            problem.data.intervened[~gone[:, j], j],
            problem.data.transforms[j],
            _kind(problem.data, j),
            float(gone[:, j].mean()),
            noise[j],
        )
        for j, name in enumerate(problem.data.names)
    )
    return Data(len(values), columns, problem.scaling is not None, findings(posterior))


def _column(
    name: str,
    column: Float[np.ndarray, " N"],
    intervened: Bool[np.ndarray, " N"],
    transform: str | None,
    kind: str,
    missing: float,
    noise: NoisePlot | None,
) -> Column:
    free = column[~intervened] if not intervened.all() else column
    # Standardising and back leaves rounding errors.
    column = column.round(_decimals(float(free.std())))
    count, _ = np.histogram(column, bins=BINS)
    bars = tuple((count / count.max()).round(3).tolist())
    return Column(
        name,
        kind,
        transform,
        float(free.mean()),
        float(free.std()),
        float(column.min()),
        float(column.max()),
        int(intervened.sum()),
        missing,
        bars,
        noise,
    )


def _own_units(problem: Problem, j: int) -> Float[np.ndarray, " N"]:
    """A column as the table has it: numeric levels of codes, measurements in their units."""
    data = problem.data
    return data.number_column(j) if data.levels[j] else problem.values[:, j]


def _kind(data: Dataset, j: int) -> str:
    """The kind of a column, and its values where they are text."""
    text = any(isinstance(level, str) for level in data.levels[j])
    return f"{data.kinds[j]}: {listing(data.levels[j])}" if text else str(data.kinds[j])


def _decimals(deviation: float) -> int:
    return 9 - math.floor(math.log10(deviation)) if deviation > 0 else 9


@dataclass(frozen=True)
class FlippedArrow:
    """A sure arrow that a probe contradicts: its probability in the fit, each probe, and now."""

    cause: int
    effect: int
    fit: float
    probes: tuple[tuple[float, float, bool], ...]
    now: float


@dataclass(frozen=True)
class ModelDependence:
    """What became of sure arrows under other specifications, and how far fits of a mixture differ.

    Attributes
    ----------
    sentence
        What was found.
    remedy
        What was done about it.
    probes
        The probes in words.
    flips
        Arrows that flip; each probe gives its probability, that of its reverse, and whether it
        contradicts the arrow.
    mixed
        Whether a mixture took the place of the fit.
    spread
        Arrows with the largest standard deviation between the fits of a mixture: cause, effect,
        probability, standard deviation.
    """

    sentence: str
    remedy: str
    probes: tuple[str, ...]
    flips: tuple[FlippedArrow, ...]
    mixed: bool
    spread: tuple[tuple[int, int, float, float], ...]


def model_dependence(posterior: Posterior) -> ModelDependence | None:
    """Whether the answer changes with the model; None where that was not checked."""
    facts = posterior.diagnostics
    if facts is None:
        return None
    found, spread = facts.sensitivity, _spread(posterior)
    if found is None and not spread:
        return None
    edges = posterior.edge_probabilities().to_numpy()
    flips, sentence, remedy = (), "", ""
    if found is not None:
        sentence = found.sentence
        contradicted = found.contradicted
        flips = tuple(
            FlippedArrow(
                i,
                j,
                float(found.edges[i, j]),
                tuple(
                    (float(p[i, j]), float(p[j, i]), bool(against[i, j]))
                    for p, against in zip(found.probed, contradicted, strict=True)
                ),
                float(edges[i, j]),
            )
            for i, j in _cells(found.flipped)
        )
    if isinstance(facts.details, MixtureDetails):
        details = facts.details
        remedy = (
            f"The posterior is the mean of {details.fits} fits of {details.bag_rows:,} resampled "
            "rows each, all of the same weight; they differ in transforms of columns and in "
            "mechanisms."
        )
        if details.on_scale < details.fits:
            remedy += (
                f" {details.fits - details.on_scale} of them used ranks in place of values: they "
                "count for arrows and not for effects, which are in the units of the table."
            )
    probes = () if found is None else found.probes
    return ModelDependence(sentence, remedy, probes, flips, bool(remedy), spread)


def _spread(posterior: Posterior) -> tuple[tuple[int, int, float, float], ...]:
    assert posterior.diagnostics is not None
    details = posterior.diagnostics.details
    if not isinstance(details, MixtureDetails):
        return ()
    edges, spread = posterior.edge_probabilities().to_numpy(), details.spread
    most = np.argsort(-spread, axis=None, kind="stable")[:SPREADS]
    cells = [tuple(map(int, np.unravel_index(k, spread.shape))) for k in most]
    return tuple((i, j, float(edges[i, j]), float(spread[i, j])) for i, j in cells)


def experiments(posterior: Posterior) -> Experiments | None:
    """What setting each variable would tell about the graph; None where that takes long.

    `svidag next RUN` and `Posterior.next_experiments` take their time, and answer more precisely.
    """
    if posterior.problem is None or posterior.mechanisms is None:
        return None
    m, drawn = len(posterior.names), posterior.mechanisms
    graphs = posterior.sample(posterior.draws())[:FAMILY_GRAPHS]
    families = sum(len(np.unique(graphs[:, :, j], axis=0)) for j in range(m))
    families *= len(drawn.components) if isinstance(drawn, MixtureParameters) else 1
    work = FAMILY_COST.get(str(posterior.mechanism), DRAWN) * families * m
    return None if work > MOST_FAMILIES else posterior.next_experiments(n=EXPERIMENTS)


def diagnostics(posterior: Posterior) -> list[tuple[str, str]]:
    """What the fit reports about itself, in words and short numbers."""
    facts = posterior.diagnostics
    rows: list[tuple[str, Any]] = []
    if facts is not None:
        rows += [
            ("Method", facts.method),
            ("Mechanism", facts.mechanism),
            ("Log evidence by which the mechanism was preferred", facts.mechanism_margin),
            ("The mechanism that it was preferred to", facts.mechanism_runner_up),
            ("Weights of graphs", facts.graph_weights),
            ("How the fit ended", facts.status.description),
            *([] if facts.details is None else facts.details.rows()),
            ("Seconds in all", facts.seconds),
        ]
        if facts.structure_weights is not None:
            rows.append(
                ("Effective draws, each graph once", facts.structure_weights.effective_draws)
            )
            rows.append(("Draws before reweighting", facts.structure_weights.draws))
    rows.append(("Log evidence", posterior.log_evidence))
    return [(label, shown(value)) for label, value in rows if value is not None]


def shown(value: Any) -> str:
    """A value as short text.

    Examples
    --------
    >>> shown(0.123456), shown([1, 2]), shown(True), shown(None)
    ('0.1235', '1, 2', 'yes', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        several = any(isinstance(item, Mapping | list | tuple) for item in value)
        return ("; " if several else ", ").join(shown(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Chart:
    """A trace, or one for each chain, as small lines of points in [0, 1]² with y up."""

    name: str
    lines: tuple[tuple[tuple[float, float], ...], ...]
    low: float
    high: float
    last: float


def charts(posterior: Posterior) -> list[Chart]:
    """The traces of the fit."""
    facts = posterior.diagnostics
    traces = {} if facts is None or facts.details is None else facts.details.traces()
    return [chart for name, values in traces.items() for chart in _chart(name, values)]


def _chart(name: str, values: Float[np.ndarray, "chains steps"]) -> Iterator[Chart]:
    steps = values.shape[1]
    if steps < 2 or not np.isfinite(values).any():
        return
    kept = np.unique(np.linspace(0, steps - 1, POINTS).astype(int))
    low, high = float(np.nanmin(values[:, kept])), float(np.nanmax(values[:, kept]))
    if not (math.isfinite(low) and math.isfinite(high)):
        return
    reach = (high - low) or 1.0
    lines = tuple(
        tuple(
            (round(float(k) / (steps - 1), 4), round(float(chain[k] - low) / reach, 4))
            for k in kept
            if math.isfinite(chain[k])
        )
        for chain in values
    )
    yield Chart(name, lines, low, high, float(values[:, -1].mean()))


def provenance(posterior: Posterior) -> list[tuple[str, str]]:
    """Versions, settings, seed and checksums."""
    facts = posterior.diagnostics
    identity = {} if facts is None else dict(facts.fingerprint)
    settings = {} if facts is None else facts.settings
    rows = [("Fitted by svidag", shown(identity.pop("svidag", None)))] if identity else []
    rows.append(("Report by svidag", __version__))
    rows += [(name, version(name)) for name in ("numpy", "scipy", "pandas", "jax")]
    rows.append(("Python", platform.python_version()))
    if "seed" in identity:
        rows.append(("Seed", shown(identity.pop("seed"))))
    if posterior.problem is not None:
        rows.append(("Data, SHA-256", posterior.problem.original_checksum))
    elif "data" in identity:
        rows.append(("Data, SHA-256", str(identity["data"])))
    if "prior" in identity:
        rows.append(("Beliefs, SHA-256", str(identity["prior"])))
    rows += [(f"Setting: {name}", shown(value)) for name, value in settings.items()]
    return rows
