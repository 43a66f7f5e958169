"""Local scores: what inference asks of a mechanism whose parameters are integrated out.

Everything downstream needs only f_j(S), the log evidence of node j with the parent set S, and its
changes by one edge, Δ_ij = f_j(S ∪ i) − f_j(S ∖ i).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int


@runtime_checkable
class FamilyScores(Protocol):
    """The evidence of a node given any parent set, in float64."""

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        ...


@runtime_checkable
class SubsetScores(Protocol):
    """Evidences of all subsets of some candidates in one go."""

    def subset_scores(
        self, node: int, candidates: Int[np.ndarray, " k"]
    ) -> Float[np.ndarray, " subsets"]:
        """f_j(S) for every subset S of the candidates, indexed by bit mask."""
        ...


def charge_idle_parents(
    scores: Float[np.ndarray, " B"],
    cheap: FamilyScores,
    nodes: Int[np.ndarray, " B"],
    parents: Bool[np.ndarray, "B m"],
    kept: Bool[np.ndarray, "B m"],
) -> None:
    """Turn f_j(T) into f_j(S) = f_j(T) + g_j(S) − g_j(T), with `cheap` scores g and kept T ⊆ S."""
    idle = np.flatnonzero((kept != parents).any(axis=1))
    if len(idle):
        own = nodes[idle]
        scores[idle] += cheap.family_scores(own, parents[idle])
        scores[idle] -= cheap.family_scores(own, kept[idle])


def tabulate_families(
    family_scores: Callable[[np.ndarray, np.ndarray], np.ndarray], m: int
) -> Float[np.ndarray, "m subsets"]:
    """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S.

    Examples
    --------
    >>> import numpy as np
    >>> tabulate_families(lambda nodes, parents: parents.sum(axis=1) * 1.0, 2).tolist()
    [[0.0, -inf, 1.0, -inf], [0.0, 1.0, -inf, -inf]]
    """
    members = (np.arange(2**m)[:, None] >> np.arange(m)) & 1 == 1
    without, nodes = np.nonzero(~members)
    table = np.full((m, 2**m), -np.inf)
    table[nodes, without] = family_scores(nodes, members[without])
    return table


def require_no_self_loops(nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]) -> None:
    """Refuse families in which a node is among its own parents."""
    own = parents[np.arange(len(nodes)), nodes]
    if own.any():
        raise ValueError(f"node {int(nodes[own][0])} is among its own parents")


class LocalScores(abc.ABC):
    """Evidences together with their changes by one edge."""

    @abc.abstractmethod
    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""

    @abc.abstractmethod
    def flips(
        self,
        nodes: Int[np.ndarray, " B"],
        parents: Bool[np.ndarray, "B m"],
        wanted: Bool[np.ndarray, "B m"],
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B m"]]:
        """f_j(S), and Δ_i = f_j(S ∪ i) − f_j(S ∖ i) for the wanted i; zero elsewhere."""


@dataclass(eq=False)
class CachedScores(LocalScores):
    """Scores that are computed once: later questions about the same family are look-ups.

    A change by one edge is the difference of two scores, so that any mechanism with
    `family_scores` has flips. All families that a call has not seen are scored together.

    Attributes
    ----------
    source
        Where unseen families are scored.
    capacity
        Families kept; when a call would go beyond, the cache starts afresh.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> cached = CachedScores(LinearGaussian.from_values(x))
    >>> families = np.array([0, 0]), np.array([[0, 1, 1], [0, 1, 1]], dtype=bool)
    >>> score = cached.family_scores(*families)
    >>> bool(score[0] == score[1]), len(cached)
    (True, 1)
    """

    source: FamilyScores
    capacity: int = 2_000_000
    _known: dict[bytes, float] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self._known)

    def arrays(self) -> dict[str, np.ndarray]:
        """What is known: keys as rows of bytes, and scores."""
        keys = np.frombuffer(b"".join(self._known), dtype=np.uint8)
        scores = np.fromiter(self._known.values(), float)
        return {"keys": keys.reshape(len(self), keys.size // max(1, len(self))), "scores": scores}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Know what `arrays` of another cache of the same source gave."""
        keys = [row.tobytes() for row in arrays["keys"]]
        self._known = dict(zip(keys, arrays["scores"].tolist(), strict=True))

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S), from the cache where it is known."""
        keys = pack_families(nodes, parents)
        unseen = {key: at for at, key in enumerate(keys) if key not in self._known}
        if unseen:
            rows = np.fromiter(unseen.values(), dtype=np.int64)
            fresh = dict(
                zip(unseen, self.source.family_scores(nodes[rows], parents[rows]), strict=True)
            )
            if len(self._known) + len(fresh) > self.capacity:
                self._known = {key: self._known[key] for key in keys if key in self._known}
            self._known.update(fresh)
        return np.array([self._known[key] for key in keys])

    def flips(
        self,
        nodes: Int[np.ndarray, " B"],
        parents: Bool[np.ndarray, "B m"],
        wanted: Bool[np.ndarray, "B m"],
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B m"]]:
        """f_j(S) and Δ_i, from the scores of S and of S with each wanted i flipped."""
        row, i = np.nonzero(wanted)
        flipped = parents[row]
        flipped[np.arange(len(row)), i] ^= True
        every = self.family_scores(
            np.concatenate([nodes, nodes[row]]), np.concatenate([parents, flipped])
        )
        scores, other = every[: len(nodes)], every[len(nodes) :]
        delta = np.zeros(parents.shape)
        delta[row, i] = np.where(parents[row, i], scores[row] - other, other - scores[row])
        return scores, delta


def with_edge_changes(scores: FamilyScores) -> LocalScores:
    """Evidences with their changes by one edge: in closed form, or else from a cache."""
    return scores if isinstance(scores, LocalScores) else CachedScores(scores)


def pack_families(nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]) -> list[bytes]:
    r"""A node and a parent set as a short key.

    Examples
    --------
    >>> import numpy as np
    >>> pack_families(np.array([2]), np.array([[True, False, False]]))
    [b'\x02\x00\x80']
    """
    number = nodes.astype("<u2").view(np.uint8).reshape(-1, 2)
    packed = np.hstack([number, np.packbits(parents, axis=1)])
    width = packed.shape[1]
    return packed.view(np.dtype((np.void, width))).ravel().tolist()


def by_parent_set(
    group: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
) -> Iterator[Int[np.ndarray, " _"]]:
    """The positions of the families that share both their parent set and their group of rows.

    Examples
    --------
    >>> sets = np.array([[True, False], [False, False], [True, False]])
    >>> [part.tolist() for part in by_parent_set(np.zeros(3, int), sets)]
    [[1], [0, 2]]
    """
    keys = np.hstack(
        [np.packbits(parents, axis=1), group[:, None].astype(np.uint16).view(np.uint8)]
    )
    _, which = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.flatnonzero(np.diff(which.reshape(-1)[order])) + 1
    return (part for part in np.split(order, ends) if len(part))


def unpack_families(
    keys: Sequence[bytes], m: int
) -> tuple[Int[np.ndarray, " B"], Bool[np.ndarray, "B m"]]:
    """The nodes and parent sets behind short keys.

    Examples
    --------
    >>> keys = pack_families(np.array([2]), np.array([[True, False, False]]))
    >>> nodes, parents = unpack_families(keys, 3)
    >>> nodes.tolist(), parents.tolist()
    ([2], [[True, False, False]])
    """
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
    nodes = np.ascontiguousarray(packed[:, :2]).view("<u2").ravel().astype(np.int64)
    return nodes, np.unpackbits(packed[:, 2:], axis=1, count=m).astype(bool)


def pack_sets(members: Bool[np.ndarray, "B m"]) -> list[int]:
    """Sets as whole numbers of any length: bit i is set if i is a member.

    Examples
    --------
    >>> import numpy as np
    >>> pack_sets(np.array([[True, False, True]]))
    [5]
    """
    packed = np.packbits(members, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def unpack_sets(sets: Sequence[int], m: int) -> Bool[np.ndarray, "B m"]:
    """Whole numbers as rows of bits.

    Examples
    --------
    >>> unpack_sets([5], 3).tolist()
    [[True, False, True]]
    """
    width = -(-m // 8)
    joined = b"".join(one.to_bytes(width, "little") for one in sets)
    rows = np.frombuffer(joined, dtype=np.uint8).reshape(len(sets), width)
    return np.unpackbits(rows, axis=1, count=m, bitorder="little").astype(bool)
