"""Nonlinear mechanisms: a wide one-hidden-layer Bayesian network with its weights integrated out.

Given its parents x_S, the features of a node are

    φ(x_S) = (½ x_S, ½, √(2/F) max(0, d_kᵀ x_S − t_k) for k = 1, …, F),

with unit directions d_k and thresholds t_k in (−2, 2); a node without parents has the constant
alone. The prior is w | σ², λ ~ N(0, σ²/λ I), σ² ~ InvGamma(1, 1), λ uniform on {¼, 1, 4}, and
x_j | x_S ~ N(wᵀ φ(x_S), σ²). With G = Φ Φᵀ over the N rows that count for node j, q features and y
the node's column, integrating w and σ² out leaves

    f_j(S | λ) = log Γ(1 + N/2) − (N/2) log 2π + (q/2) log λ − ½ log|G + λI|
                 − (1 + N/2) log(1 + ½ (yᵀy − yᵀΦᵀ (G + λI)⁻¹ Φ y)),

and f_j(S) is the log of the mean of exp f_j(S | λ). How strongly an effect follows its causes is
not known beforehand; with λ = 1 alone, the evidence of strong effects is too low.

One direction matrix serves all parent sets: its rows for S, with each column scaled to unit length.
If directions were drawn afresh for every set, the evidence of irrelevant parents would vary at
random, and a search would select the sets that gained by it. The rows are orthogonal, which lowers
that spread further.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from svidag.data import row_groups
from svidag.kernels.ridge import summarise, write_row_products
from svidag.mechanisms.local import by_parent_set, require_no_self_loops, tabulate_families
from svidag.run.cores import on_all_cores, usable

PRECISIONS = (0.25, 1.0, 4.0)
"""Prior precisions λ of the output weights, relative to the noise: equally likely beforehand."""

_ROWS_AT_ONCE = 1024  # rows of features computed together
_VALUES_AT_ONCE = 2**18  # features of the parent sets handled together: 2 MB, about a core's cache


@dataclass(frozen=True, eq=False)
class WideNetwork:
    """The evidence of every node given any parent set, under a wide network of the parents.

    Attributes
    ----------
    columns
        The data, one variable per row.
    kept
        Rows of the table that count, for each group of nodes that share them.
    group
        For each node, the index of its group.
    directions, thresholds
        The hidden layer: a weight for each variable and unit, and where each unit begins.
    weight
        How many times every row counts: products over rows, and N, are so many times as large.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> x[:, 1] += np.abs(x[:, 0])
    >>> model = WideNetwork.from_values(x, ("a", "b"))
    >>> alone, given_a = model.family_scores(
    ...     np.array([1, 1]), np.array([[False, False], [True, False]])
    ... )
    >>> bool(given_a > alone)
    True
    """

    columns: Float[np.ndarray, "m N"]
    kept: Bool[np.ndarray, "groups N"]
    group: Int[np.ndarray, " m"]
    directions: Float[np.ndarray, "m F"]
    thresholds: Float[np.ndarray, " F"]
    weight: float = 1.0

    @classmethod
    def from_values(
        cls,
        values: Float[np.ndarray, "N m"],
        names: Sequence[str],
        intervened: Bool[np.ndarray, "N m"] | None = None,
        *,
        units: int = 200,
        seed: int = 0,
        weight: float = 1.0,
    ) -> WideNetwork:
        """Lay out a table and draw the hidden layer, leaving out intervened entries."""
        if units < 0:
            raise ValueError(f"units must not be negative; got {units}")
        return cls(
            *lay_out(values, intervened),
            named_directions(names, units, seed),
            even_thresholds(units, seed),
            weight,
        )

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.columns)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S, given as a row of a Boolean matrix.

        A parent set is factorised once for all nodes that ask for it and share its rows.
        """
        require_no_self_loops(nodes, parents)
        scores = np.empty(len(nodes))

        def work(asked: Int[np.ndarray, "sets targets"]) -> None:
            members = np.nonzero(parents[asked[:, 0]])[1].reshape(len(asked), -1)
            scores[asked] = self._evidence(members, nodes[asked])

        sets = by_parent_set(self.group[nodes], parents)
        on_all_cores(work, self._batches(sets, nodes, parents))
        return scores

    def _batches(
        self, sets: Iterable[np.ndarray], nodes: np.ndarray, parents: np.ndarray
    ) -> Iterator[Int[np.ndarray, "sets targets"]]:
        """Parent sets of one size, asked for by as many nodes each, that fit in the cache."""
        alike = defaultdict(list)
        for asked in sets:
            first = asked[0]
            alike[self.group[nodes[first]], parents[first].sum(), len(asked)].append(asked)
        for (group, size, targets), found in alike.items():
            height = len(self.thresholds) + size + 1 + targets
            step = max(1, _VALUES_AT_ONCE // (height * int(self.kept[group].sum()) + 1))
            step = min(step, -(-len(found) // usable()))
            for start in range(0, len(found), step):
                yield np.stack(found[start : start + step])

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        return tabulate_families(self.family_scores, self.m)

    def _evidence(
        self, parents: Int[np.ndarray, "sets l"], nodes: Int[np.ndarray, "sets targets"]
    ) -> Float[np.ndarray, "sets targets"]:
        """f_j(S) of nodes that share their rows."""
        weights = self.feature_weights(parents)
        inputs, targets = self.design(parents, nodes)
        fit = _fit_by_rows if inputs.shape[-1] < weights.shape[-2] else _fit_by_features
        volume, residual = fit(weights, inputs, targets, self.weight)
        n = self.weight * inputs.shape[-1]
        given = volume[..., None] - (1 + n / 2) * np.log1p(residual / 2)
        constant = gammaln(1 + n / 2) - n / 2 * np.log(2 * np.pi) - np.log(len(PRECISIONS))
        return constant + np.logaddexp.reduce(given, axis=1)

    def design(
        self, parents: Int[np.ndarray, "*sets l"], nodes: Int[np.ndarray, "*sets targets"]
    ) -> tuple[Float[np.ndarray, "*sets inputs n"], Float[np.ndarray, "*sets targets n"]]:
        """(x_S, 1) and the nodes' own values, over the n rows that count for all these nodes."""
        kept = self.kept[self.group[nodes.flat[0]]]
        columns = self.columns if kept.all() else self.columns[:, kept]
        ones = np.ones((*parents.shape[:-1], 1, columns.shape[1]))
        return np.concatenate([columns[parents], ones], axis=-2), columns[nodes]

    def feature_weights(
        self, parents: Int[np.ndarray, "*sets l"]
    ) -> Float[np.ndarray, "*sets features inputs"]:
        """What multiplies (x_S, 1) before the units' max(0, ·): one row per feature."""
        *sets, size = parents.shape
        plain = np.broadcast_to(0.5 * np.eye(size + 1), (*sets, size + 1, size + 1))
        if size == 0 or len(self.thresholds) == 0:
            return plain
        chosen = self.directions[parents].swapaxes(-1, -2)
        chosen = chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)
        thresholds = np.broadcast_to(self.thresholds[:, None], (*chosen.shape[:-1], 1))
        units = np.concatenate([chosen, -thresholds], axis=-1)
        return np.concatenate([plain, np.sqrt(2 / len(self.thresholds)) * units], axis=-2)


def lay_out(
    values: Float[np.ndarray, "N m"], intervened: Bool[np.ndarray, "N m"] | None
) -> tuple[Float[np.ndarray, "m N"], Bool[np.ndarray, "groups N"], Int[np.ndarray, " m"]]:
    """Columns as rows; the rows that count for groups of nodes; and the group of each node."""
    if intervened is None:
        intervened = np.zeros(values.shape, dtype=bool)
    kept, group = row_groups(intervened)
    columns = np.ascontiguousarray(values.T, dtype=np.float64)
    return columns, np.ascontiguousarray(kept.T), group


def _fit_by_features(weights, inputs, targets, weight):
    """(q/2) log λ − ½ log|G + λI| and yᵀy − yᵀΦᵀ(G + λI)⁻¹Φy for every λ."""
    q = weights.shape[-2]
    gram = weight * joint_gram(weights, inputs, targets)
    volume, projected = _summarise(gram, q, np.ones(len(PRECISIONS)))
    own = np.diagonal(gram, axis1=-2, axis2=-1)[..., None, q:]
    return volume, own - projected


def joint_gram(
    weights: Float[np.ndarray, "*sets features inputs"],
    inputs: Float[np.ndarray, "*sets inputs n"],
    targets: Float[np.ndarray, "*sets targets n"],
) -> Float[np.ndarray, "*sets both both"]:
    """Products of features and targets, each with each, summed over the rows."""
    *sets, q, _ = weights.shape
    height, n = q + targets.shape[-2], inputs.shape[-1]
    gram = np.zeros((*sets, height, height))
    # Memory fresh from the system costs as much as the arithmetic, so all blocks share it.
    scratch = np.empty((*sets, height, min(n, _ROWS_AT_ONCE)))
    for start in range(0, n, _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        joint = scratch[..., : min(_ROWS_AT_ONCE, n - start)]
        _fill(joint, weights, inputs[..., block], targets[..., block])
        gram += joint @ joint.swapaxes(-1, -2)
    return gram


def _fit_by_rows(weights, inputs, targets, weight):
    """The same from K = ΦᵀΦ, cheaper when features outnumber the N rows.

    (N/2) log λ − ½ log|K + λI| and λ yᵀ(K + λI)⁻¹y.
    """
    n, count = inputs.shape[-1], targets.shape[-2]
    gram = np.zeros((len(weights), n + count, n + count))
    # With a single unit the weights lie otherwise in memory, for which nothing is compiled.
    write_row_products(np.ascontiguousarray(weights), np.ascontiguousarray(inputs), gram)
    gram[:, n:, :n] = targets / np.sqrt(weight)
    gram[:, :n, n:] = gram[:, n:, :n].swapaxes(1, 2)
    gram[:, n:, n:] = targets @ targets.swapaxes(1, 2)
    gram *= weight
    volume, projected = _summarise(gram, n, 1 / np.array(PRECISIONS))
    return volume, np.array(PRECISIONS)[:, None] * projected


def _fill(joint, weights, inputs, targets):
    """Write features and then targets over a block of rows."""
    q, width = weights.shape[-2:]
    np.matmul(weights, inputs, out=joint[..., :q, :])
    units = joint[..., width:q, :]
    np.maximum(units, 0.0, out=units)
    joint[..., q:, :] = targets


def _summarise(gram, q, scale):
    """(q/2) log λ − ½ log|A + λI| and b(A + λI)⁻¹bᵀ for every λ."""
    volume = np.empty((len(gram), len(PRECISIONS)))
    projected = np.empty((*volume.shape, gram.shape[-1] - q))
    summarise(gram, q, np.array(PRECISIONS), scale, volume, projected)
    return volume, projected


def named_directions(names: Sequence[str], units: int, seed: int) -> Float[np.ndarray, "m F"]:
    """A row of weights for each name, the same whatever the order of the columns.

    Gaussian rows keyed by seed and name, made orthogonal in the order of the sorted names (in
    blocks of at most `units` names).

    Examples
    --------
    >>> forward, backward = (named_directions(names, 8, 0) for names in ("ab", "ba"))
    >>> bool((forward == backward[::-1]).all())
    True
    """
    rank = sorted(range(len(names)), key=lambda i: names[i])
    gaussian = np.stack([_keyed(seed, "unit", names[i]).standard_normal(units) for i in rank])
    rows = np.empty((len(names), units))
    if units == 0:
        return rows
    for start in range(0, len(names), units):
        q, r = np.linalg.qr(gaussian[start : start + units].T)
        rows[rank[start : start + units]] = (q * np.sign(np.diag(r))).T
    return rows


def even_thresholds(units: int, seed: int) -> Float[np.ndarray, " F"]:
    """Thresholds evenly spaced in (−2, 2), shuffled so that they do not follow the directions."""
    even = np.linspace(-2, 2, 2 * units + 1)[1::2]
    return _keyed(seed, "threshold", "").permutation(even)


def _keyed(seed: int, purpose: str, name: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}|{purpose}|{name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
