"""Flexible mechanisms: curved locations, varying scales and noise of any shape, integrated out.

    x_j = f(x_S) + exp(h(x_S)) z

with f linear or a wide network, h constant or linear in (x_S, |x_S|) above a floor, and z standard
normal or from the tilted density of :mod:`svidag.mechanisms.residual_density` with one of three
prior scales. A choice of each is a structure. The structure linear, constant, normal is BGe, to the
last digit; all others have the prior that BGe implies,

    w | σ ~ N(0, σ² diag(t, …, t, α_μ)⁻¹),    σ² ~ InvGamma(½(a + l + 1), ½ t),

for l parents with a = α_w − m, and more for what BGe does not have: hidden weights N(0, σ²/λ),
slopes of h N(0, ¼) for standardised x_S, and the prior of the density. Hidden units have their
regression on (x_S, 1) taken out: they stand for curvature alone, and a strong linear effect costs
in a network what it costs in BGe. Half of their variance belongs to units of single parents, half
to units of random directions. Of the units the main axes over the rows are kept, for in other
directions the rows say next to nothing.

The evidence of a structure is the exact one of its location with constant scale and normal noise,
plus the difference of two Laplace approximations: that of the structure less that of the
same location with constant scale and normal noise.

Evidences are averaged over the four noises, and then over locations and scales; but an average is
never less than the evidence of the plainest choice, normal noise and the linear location with
constant scale. A plain average has two faults. Ten coefficients of a density gain a nat or so
by chance, which on Gaussian data decides directions that must stay open; and a node without parents
has one location and one scale only, so that arrows would pay for structures that nobody needs. So a
structure counts when it gains more than the logarithm of their number, and Gaussian linear data
give BGe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.mechanisms.flexible_fit import SCALE_FLOOR, Regression
from svidag.mechanisms.flexible_structures import REACH, Family, Search, exact_evidence
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import require_no_self_loops, tabulate_families
from svidag.mechanisms.wide import even_thresholds, lay_out, named_directions
from svidag.run.cores import on_all_cores

SCALE_PRECISION = 4.0
"""Prior precision of the slopes of log scale in standardised parents."""

HIDDEN_PRECISIONS = (1 / 16, 1 / 4, 1.0)
"""Prior precisions λ of hidden weights, relative to the noise: equally likely beforehand."""

SINGLE_THRESHOLDS = np.linspace(-2, 2, 13)[1::2]
"""Where the units of single parents begin."""

MOST_CURVES = 24
"""Main axes of the hidden units that count: fits take time with their square."""

NEGLIGIBLE = 0.1
"""Axes whose sum of squares is below this share of the least λ are left out."""

_FAR = 30.0  # standard deviations from which on parents count less for the scale

LOCATIONS = ("linear", "network")


@dataclass(frozen=True, eq=False)
class FlexibleMechanism:
    """The evidence of every node given any parent set, averaged over flexible structures.

    Attributes
    ----------
    columns
        The data, one variable per row.
    kept
        Rows of the table that count, for each group of nodes that share them.
    group
        For each node, the index of its group.
    directions, thresholds
        The hidden layer, as in `WideNetwork`.
    linear
        BGe of the same data: its prior is the one that all structures share.
    locations
        The locations allowed: ``("linear", "network")`` or ``("linear",)``.
    weight
        How many times the log likelihood of a row counts: α/(α + N) where `coarsen` is α, else 1.
    counts
        Families scored, fits tried in them and fits that failed, for diagnostics.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.laplace(size=(1500, 2))
    >>> x[:, 1] += x[:, 0]
    >>> model = FlexibleMechanism.from_values(x, ("a", "b"), locations=("linear",))
    >>> tables = model.score_tables()
    >>> forward, backward = tables[0, 0] + tables[1, 1], tables[1, 0] + tables[0, 2]
    >>> bool(forward > backward)
    True
    """

    columns: Float[np.ndarray, "m N"]
    kept: Bool[np.ndarray, "groups N"]
    group: Int[np.ndarray, " m"]
    directions: Float[np.ndarray, "m F"]
    thresholds: Float[np.ndarray, " F"]
    linear: LinearGaussian
    locations: tuple[str, ...]
    weight: float
    counts: dict[str, int] = field(
        default_factory=lambda: {"families": 0, "fits": 0, "failures": 0}, repr=False
    )

    @classmethod
    def from_values(
        cls,
        values: Float[np.ndarray, "N m"],
        names: Sequence[str],
        intervened: Bool[np.ndarray, "N m"] | None = None,
        *,
        units: int = 64,
        seed: int = 0,
        weight: float = 1.0,
        prior_scale: float | None = None,
        locations: Sequence[str] = LOCATIONS,
    ) -> FlexibleMechanism:
        """Lay out a table and draw the hidden layer, leaving out intervened entries."""
        if units < 1:
            raise ValueError(f"units must be positive; got {units}")
        if not 0 < weight <= 1:
            raise ValueError(f"weight must be positive and at most 1; got {weight}")
        if not set(locations) <= set(LOCATIONS) or "linear" not in locations:
            raise ValueError(
                f"locations must be ('linear',) or ('linear', 'network'); got {locations!r}"
            )
        return cls(
            *lay_out(values, intervened),
            named_directions(names, units, seed),
            even_thresholds(units, seed),
            LinearGaussian.from_values(values, intervened, prior_scale=prior_scale, weight=weight),
            tuple(locations),
            float(weight),
        )

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.columns)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S, a row of a Boolean matrix."""
        require_no_self_loops(nodes, parents)
        scores = np.empty(len(nodes))
        fits, failures = np.zeros((2, len(nodes)), dtype=np.int64)

        def work(at: int) -> None:
            family = self.family(int(nodes[at]), np.flatnonzero(parents[at]))
            scores[at] = family.evidence
            fits[at], failures[at] = family.fits, family.failures

        on_all_cores(work, range(len(nodes)))
        self.counts["families"] += len(nodes)
        self.counts["fits"] += int(fits.sum())
        self.counts["failures"] += int(failures.sum())
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        return tabulate_families(self.family_scores, self.m)

    @cached_property
    def _columns(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each group: the columns over the rows that count, and what scales are linear in."""
        shared = [np.ascontiguousarray(self.columns[:, rows]) for rows in self.kept]
        return [(columns, *scale_columns(columns)) for columns in shared]

    def scale_moments(self) -> tuple[Float[np.ndarray, "m m"], ...]:
        """Mean, standard deviation and mean size of variable i for node j, at [j, i].

        What scales are linear in is standardised by the rows that count for the node.
        """
        found = [
            (columns.mean(axis=1), _spread(columns)[:, 0], np.abs(standard).mean(axis=1))
            for columns, standard, _ in self._columns
        ]
        mean, spread, size = (np.stack(part)[self.group] for part in zip(*found, strict=True))
        return mean, spread, size

    def family(self, node: int, parents: Int[np.ndarray, " l"]) -> Family:
        """Fit all structures of a node and a parent set."""
        columns, standard, size = self._columns[self.group[node]]
        count, n = len(parents), columns.shape[1]
        y, inputs, u = columns[node], np.ones((n, count + 1)), np.ones((n, 1 + 2 * count))
        inputs[:, :count] = columns[parents].T
        u[:, 1 : count + 1], u[:, count + 1 :] = standard[parents].T, size[parents].T
        search = Search("linear", 0.0, self._regression(inputs, u, y, count, np.zeros(0)))
        search.run()
        searches = [search]
        if "network" in self.locations and count:
            searches += self._network(parents, inputs, u, y, tuple(search.found))
        return Family(
            tuple(each for search in searches for each in search.found),
            len(self.locations),
            sum(search.fits for search in searches),
            sum(search.failures for search in searches),
        )

    def _network(self, parents, inputs, u, y, linear):
        """The structures with a network, if it is within reach of the linear location.

        λ of the flexible structures is that with the highest evidence for normal noise; what the
        average over λ has more or less counts for them too.
        """
        wide, rotation, linear_part = self._curves(inputs, parents)
        choices = []
        for precision in HIDDEN_PRECISIONS:
            hidden = np.full(rotation.shape[1], precision)
            data = self._regression(wide, u, y, len(parents), hidden)
            choices.append((exact_evidence(data)[0], precision, data))
        values = np.array([value for value, _, _ in choices])
        average = np.logaddexp.reduce(values) - np.log(len(values))
        if not average > linear[0].evidence - REACH:
            return []
        value, precision, data = choices[int(np.argmax(values))]
        added = float(average - value)
        search = Search("network", precision, data, added, linear, linear_part, rotation)
        search.run()
        return [search]

    def _curves(self, inputs, parents):
        """Inputs and hidden units without their linear part, the latter along their main axes.

        A prior that is the same in all directions is so after a rotation. Directions in which the
        rows hardly differ say nothing: their weights keep the prior and their evidence is 1.
        """
        units = self.hidden_units(inputs[:, :-1], parents)
        linear_part = np.linalg.lstsq(inputs, units, rcond=None)[0]
        units -= inputs @ linear_part
        size, axes = np.linalg.eigh(units.T @ units)
        least = NEGLIGIBLE * min(HIDDEN_PRECISIONS) / self.weight
        kept = min(MOST_CURVES, max(1, int((size > least).sum())))
        rotation = np.ascontiguousarray(axes[:, ::-1][:, :kept])
        return np.column_stack([inputs, units @ rotation]), rotation, linear_part

    def hidden_units(
        self, x: Float[np.ndarray, "n l"], parents: Int[np.ndarray, " l"]
    ) -> Float[np.ndarray, "n units"]:
        """F units √(1/F) max(0, d_kᵀ x_S − t_k), and then some of every single parent.

        Few random directions are close to an axis where there are many parents, and effects that
        add up would cost more than they gain.
        """
        chosen = self.directions[parents]
        chosen = chosen / np.sqrt((chosen**2).sum(axis=0))
        units = (x @ chosen - self.thresholds) / np.sqrt(len(self.thresholds))
        single = np.repeat(x, len(SINGLE_THRESHOLDS), axis=1)
        single -= np.tile(SINGLE_THRESHOLDS, x.shape[1])
        single /= np.sqrt(max(1, single.shape[1]))
        return np.maximum(np.column_stack([units, single]), 0.0)

    def _regression(self, inputs, u, y, size, hidden):
        bge = self.linear
        a, t = bge.scale_weight - bge.m, bge.prior_scale
        precision = np.concatenate([np.full(size, t), [bge.mean_weight], hidden])
        return Regression(
            inputs, u, y, self.weight, precision, 0.5 * (a + size + 1), 0.5 * t, SCALE_PRECISION
        )


def scale_columns(
    columns: Float[np.ndarray, "m n"],
) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n"]]:
    """Standardised columns with far values drawn in, and their sizes less the mean of these.

    Examples
    --------
    >>> standard, size = scale_columns(np.array([[1.0, 3.0, 5.0]]))
    >>> standard.round(2).tolist(), size.round(2).tolist()
    ([[-1.22, 0.0, 1.22]], [[0.41, -0.82, 0.41]])
    """
    if columns.shape[1] == 0:
        return columns, columns
    standard = draw_in((columns - columns.mean(axis=1, keepdims=True)) / _spread(columns))
    size = np.abs(standard)
    return standard, size - size.mean(axis=1, keepdims=True)


def floored(h: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "*rows"]:
    """s(h), the log scale relative to that at h = 0: h with a floor.

    Examples
    --------
    >>> floored(np.array([-20.0, 0.0, 2.0])).round(2).tolist()
    [-3.93, 0.0, 1.98]
    """
    return np.logaddexp(h, np.log(SCALE_FLOOR)) - np.log1p(SCALE_FLOOR)


def draw_in(u: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "*rows"]:
    """u up to |u| = 30, and ±30 (1 + log(|u|/30)) beyond.

    A scale that is exponential in u gives single far values of a heavy-tailed parent all the say;
    so it is a power of u there.

    Examples
    --------
    >>> draw_in(np.array([-1.0, 30.0, 300.0])).round(2).tolist()
    [-1.0, 30.0, 99.08]
    """
    far = np.maximum(np.abs(u) / _FAR, 1.0)
    return u / far * (1 + np.log(far))


def _spread(columns: np.ndarray) -> Float[np.ndarray, "m 1"]:
    """Standard deviations; 1 for a column that does not vary."""
    spread = columns.std(axis=1, keepdims=True)
    return np.where(spread > 0, spread, 1.0)
