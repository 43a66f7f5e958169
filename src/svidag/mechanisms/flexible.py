"""Flexible mechanisms: curved locations, varying scales and noise of any shape, integrated out.

    x_j = f(x_S) + exp(h(x_S)) z

with f linear or a wide network, h constant or linear in (x_S, |x_S|), and z standard normal or from
the tilted density of :mod:`svidag.mechanisms.residual_density` with one of three prior scales. A
choice of each is a structure. The structure linear, constant, normal is BGe, to the last digit; all
others have the prior that BGe implies,

    w | σ ~ N(0, σ² diag(t, …, t, α_μ)⁻¹),    σ² ~ InvGamma(½(a + l + 1), ½ t),

for l parents with a = α_w − m, and more for what BGe does not have: hidden weights N(0, σ²/λ), slopes
of h N(0, ¼) for standardised x_S, and the prior of the density.

The evidence of a structure is the exact one of its location with constant scale and normal noise,
plus the difference of two Laplace approximations: that of the structure less that of the
same location with constant scale and normal noise.

Evidences are averaged over the four noises, and the averages over locations and scales. A node
without parents has one location and one scale only, and would gain from that what others lose by
sharing their weight out, so that arrows would have to pay for structures that nobody needs. The
evidence of a family is therefore never less than that of its plainest location and scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from svidag.data import row_groups
from svidag.mechanisms.flexible_fit import Fit, Regression, fit
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.residual_density import INTERVALS, spline_basis
from svidag.mechanisms.wide import PRECISIONS, even_thresholds, named_directions, on_all_cores

TAIL_SCALES = (1.0, 3.0, 10.0)
"""Prior standard deviations τ of the density's coefficients; normal noise is the fourth choice."""

SCALE_PRECISION = 4.0
"""Prior precision of the slopes of log scale in standardised parents."""

REACH = 30.0
"""A structure whose evidence is further than this below the best does not count."""

LOCATIONS = ("linear", "network")
COEFFICIENTS = INTERVALS  # of the density: three splines more than intervals, three constraints


@dataclass(frozen=True)
class Structure:
    """One choice of location, scale and noise for a family, with its fit.

    Attributes
    ----------
    location
        ``"linear"`` or ``"network"``.
    varying
        Whether the scale varies with the parents.
    tail
        The prior scale τ of the density, or 0 for normal noise.
    precision
        λ of hidden weights; 0 for a linear location.
    evidence
        Its log evidence.
    fit
        The joint mode and the information there.
    """

    location: str
    varying: bool
    tail: float
    precision: float
    evidence: float
    fit: Fit


@dataclass(frozen=True)
class Family:
    """All structures of a node and a parent set that count, and what their search met.

    Attributes
    ----------
    structures
        The structures that were fitted.
    locations
        How many locations were allowed.
    failures
        Fits that did not converge; their structures are left out where they have no evidence.
    """

    structures: tuple[Structure, ...]
    locations: int
    failures: int

    @property
    def evidence(self) -> float:
        """f_j(S): the average over structures, or that of the plainest if it is higher."""
        groups: dict[tuple[str, bool], list[float]] = {}
        for each in self.structures:
            groups.setdefault((each.location, each.varying), []).append(each.evidence)
        noises = np.log(1 + len(TAIL_SCALES))
        means = {key: np.logaddexp.reduce(found) - noises for key, found in groups.items()}
        plain = means["linear", False] if ("linear", False) in means else -np.inf
        average = np.logaddexp.reduce(list(means.values())) - np.log(2 * self.locations)
        return float(max(plain, average))

    @property
    def shares(self) -> Float[np.ndarray, " structures"]:
        """The posterior probabilities of the structures, equally likely beforehand."""
        evidences = np.array([each.evidence for each in self.structures])
        return np.exp(evidences - np.logaddexp.reduce(evidences))


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
    >>> x = rng.laplace(size=(400, 2))
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
        coarsen: float | None = None,
        locations: Sequence[str] = LOCATIONS,
    ) -> FlexibleMechanism:
        """Lay out a table and draw the hidden layer, leaving out intervened entries."""
        if units < 1:
            raise ValueError(f"units must be positive; got {units}")
        if coarsen is not None and not coarsen > 0:
            raise ValueError(f"coarsen must be positive or None; got {coarsen}")
        if not set(locations) <= set(LOCATIONS) or "linear" not in locations:
            raise ValueError(
                f"locations must be ('linear',) or ('linear', 'network'); got {locations!r}"
            )
        if intervened is None:
            intervened = np.zeros(values.shape, dtype=bool)
        kept, group = row_groups(intervened)
        return cls(
            np.ascontiguousarray(values.T, dtype=np.float64),
            np.ascontiguousarray(kept.T),
            group,
            named_directions(names, units, seed),
            even_thresholds(units, seed),
            LinearGaussian.from_values(values, intervened),
            tuple(locations),
            1.0 if coarsen is None else coarsen / (coarsen + len(values)),
        )

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.columns)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S, given as a row of a Boolean matrix."""
        if parents[np.arange(len(nodes)), nodes].any():
            bad = int(nodes[parents[np.arange(len(nodes)), nodes]][0])
            raise ValueError(f"node {bad} is among its own parents")
        scores = np.empty(len(nodes))
        fits, failures = np.zeros((2, len(nodes)), dtype=np.int64)

        def work(at: int) -> None:
            family = self.family(int(nodes[at]), np.flatnonzero(parents[at]))
            scores[at] = family.evidence
            fits[at], failures[at] = len(family.structures), family.failures

        on_all_cores(work, range(len(nodes)))
        self.counts["families"] += len(nodes)
        self.counts["fits"] += int(fits.sum())
        self.counts["failures"] += int(failures.sum())
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        members = _members(self.m)
        without, nodes = np.nonzero(~members)
        table = np.full((self.m, 2**self.m), -np.inf)
        table[nodes, without] = self.family_scores(nodes, members[without])
        return table

    def screened_tables(self, margin: float = 12.0) -> Float[np.ndarray, "m subsets"]:
        """Score tables in which only sets that BGe does not rule out are scored in full.

        A set S with BGe more than `margin` below that of its best subset T has the score of T and
        the difference of the two in BGe. The linear Gaussian score, unlike a network's, does not
        take heavy tails for effects, and a parent it cannot see costs about ½ log N.
        """
        screen = self.linear.score_tables()
        best = best_subsets(screen)
        codes = np.broadcast_to(np.arange(2**self.m), screen.shape)
        drop = screen - np.take_along_axis(screen, best, axis=1)
        scored = np.isfinite(screen) & (drop >= -margin)
        scored |= np.isfinite(screen) & (best == codes)
        nodes, masks = np.nonzero(scored)
        table = np.full(screen.shape, -np.inf)
        table[nodes, masks] = self.family_scores(nodes, _members(self.m)[masks])
        nodes, masks = np.nonzero(np.isfinite(screen) & ~scored)
        table[nodes, masks] = table[nodes, best[nodes, masks]] + drop[nodes, masks]
        return table

    def family(self, node: int, parents: Int[np.ndarray, " l"]) -> Family:
        """Fit all structures of a node and a parent set."""
        rows = self.kept[self.group[node]]
        columns = self.columns if rows.all() else self.columns[:, rows]
        x, y = np.ascontiguousarray(columns[parents].T), np.ascontiguousarray(columns[node])
        inputs = np.column_stack([x, np.ones(len(y))])
        u = scale_features(x)
        plain = self._regression(inputs, u, y, len(parents), np.zeros(0))
        structures, failures = _fit_structures("linear", 0.0, plain)
        if "network" in self.locations and len(parents):
            reached = self._network(parents, x, inputs, u, y, structures[0].evidence)
            structures, failures = structures + reached[0], failures + reached[1]
        return Family(tuple(structures), len(self.locations), failures)

    def _network(self, parents, x, inputs, u, y, linear):
        """The structures with a network, if it is within reach of the linear location.

        λ of the flexible structures is that with the highest evidence for normal noise; what the
        average over λ has more or less counts for them too.
        """
        wide = np.column_stack([inputs, self.hidden_units(x, parents)])
        exact = []
        for precision in PRECISIONS:
            hidden = np.full(len(self.thresholds), precision)
            data = self._regression(wide, u, y, len(parents), hidden)
            exact.append((_exact(data)[0], precision, data))
        values = np.array([each[0] for each in exact])
        average = np.logaddexp.reduce(values) - np.log(len(values))
        if not average > linear - REACH:
            return [], 0
        value, precision, data = exact[int(np.argmax(values))]
        return _fit_structures("network", precision, data, float(average - value))

    def hidden_units(
        self, x: Float[np.ndarray, "n l"], parents: Int[np.ndarray, " l"]
    ) -> Float[np.ndarray, "n F"]:
        """√(2/F) max(0, d_kᵀ x_S − t_k)."""
        chosen = self.directions[parents]
        chosen = chosen / np.sqrt((chosen**2).sum(axis=0))
        units = x @ chosen - self.thresholds
        np.maximum(units, 0.0, out=units)
        units *= np.sqrt(2 / len(self.thresholds))
        return units

    def _regression(self, inputs, u, y, size, hidden):
        bge = self.linear
        a, t = bge.scale_weight - bge.m, bge.prior_scale
        precision = np.concatenate([np.full(size, t), [bge.mean_weight], hidden])
        return Regression(
            inputs, u, y, self.weight, precision, 0.5 * (a + size + 1), 0.5 * t, SCALE_PRECISION
        )


def scale_features(x: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n p"]:
    """1, standardised parents, and their absolute values less the mean of these.

    Examples
    --------
    >>> scale_features(np.array([[1.0], [3.0], [5.0]])).round(2).tolist()
    [[1.0, -1.22, 0.41], [1.0, 0.0, -0.82], [1.0, 1.22, 0.41]]
    """
    if x.size == 0:
        return np.ones((len(x), 1))
    spread = x.std(axis=0)
    standard = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    size = np.abs(standard)
    return np.column_stack([np.ones(len(x)), standard, size - size.mean(axis=0)])


def best_subsets(scores: Float[np.ndarray, "m subsets"]) -> Int[np.ndarray, "m subsets"]:
    """The subset with the highest score of every set, by bit mask.

    Examples
    --------
    >>> best_subsets(np.array([[0.0, 2.0, 1.0, 1.5]])).tolist()
    [[0, 1, 2, 1]]
    """
    m, codes = scores.shape[1].bit_length() - 1, np.arange(scores.shape[1])
    best = np.broadcast_to(codes, scores.shape).copy()
    for bit in range(m):
        inside = codes[codes >> bit & 1 == 1]
        own, other = best[:, inside], best[:, inside ^ (1 << bit)]
        higher = np.take_along_axis(scores, other, 1) > np.take_along_axis(scores, own, 1)
        best[:, inside] = np.where(higher, other, own)
    return best


def _members(m: int) -> Bool[np.ndarray, "subsets m"]:
    return (np.arange(2**m)[:, None] >> np.arange(m)) & 1 == 1


def _exact(data: Regression) -> tuple[float, Float[np.ndarray, " q1"]]:
    """The exact log evidence with constant scale and normal noise, and the mode of (w, log σ).

    With G = XᵀX, Xᵀy, yᵀy and n all times the weight of a row,

        log Γ(k + n/2) − log Γ(k) − (n/2) log 2π + k log r + ½ log|Λ| − ½ log|G + Λ|
        − (k + n/2) log(r + ½ (yᵀy − yᵀX (G + Λ)⁻¹ Xᵀy)).
    """
    c, k, q = data.weight, data.shape, data.x.shape[1]
    n = c * len(data.y)
    factor = np.linalg.cholesky(c * (data.x.T @ data.x) + np.diag(data.precision))
    whitened = solve_triangular(factor, c * (data.y @ data.x), lower=True, check_finite=False)
    w = solve_triangular(factor, whitened, lower=True, trans=1, check_finite=False)
    rest = data.rate + 0.5 * max(c * float(data.y @ data.y) - float(whitened @ whitened), 0.0)
    volume = 0.5 * np.log(data.precision).sum() - np.log(np.diag(factor)).sum()
    value = gammaln(k + n / 2) - gammaln(k) - n / 2 * np.log(2 * np.pi)
    value += k * np.log(data.rate) + volume - (k + n / 2) * np.log(rest)
    return float(value), np.append(w, 0.5 * np.log(2 * rest / (n + q + 2 * k)))


def _fit_structures(
    location: str, precision: float, data: Regression, added: float = 0.0
) -> tuple[list[Structure], int]:
    """Fit all scales and noises of one location; `added` counts for all of them.

    Each fit starts from the nearest one before: normal noise from the exact mode, the first tilted
    density from normal noise, each further one from the one before.
    """
    exact, mode = _exact(data)
    x, u = data.x, data.u
    grams = (x.T @ x, x.sum(axis=0), u.T @ u)
    basis, failures = spline_basis(), 0
    normal = fit(mode, data, grams, basis, 1, 1.0)
    level = exact + added - normal.evidence
    found = [Structure(location, False, 0.0, precision, exact + added, normal)]
    tilted = np.concatenate([mode, np.zeros(COEFFICIENTS)])
    starts = []

    def attempt(start, p, tail):
        nonlocal failures
        result = fit(start, data, grams, basis, p, tail**-2 if tail else 1.0)
        failures += not result.ok
        if np.isfinite(result.evidence):
            value = result.evidence + level
            found.append(Structure(location, p > 1, tail, precision, value, result))
        return result

    for tail in TAIL_SCALES:
        result = attempt(tilted, 1, tail)
        if result.ok:
            tilted = result.theta
        starts.append(tilted)
    p = u.shape[1]
    if p == 1:
        return found, failures
    q = x.shape[1]
    free = np.zeros(p - 1)
    attempt(np.concatenate([mode, free]), p, 0.0)
    start = np.concatenate([starts[0][: q + 1], free, starts[0][q + 1 :]])
    for tail in TAIL_SCALES:
        result = attempt(start, p, tail)
        if result.ok:
            start = result.theta
        if result.ok and result.evidence + level < max(each.evidence for each in found) - REACH:
            break  # further prior scales change it by less than that
    return found, failures
