"""Gaussian evidences from one matrix of products, for searches that ask about very many sets.

Every variable has a block of b features, and

    f_j(S) = c(|S|) − ½ log|A_SS| − h(|S|) log(d_j − C_Sjᵀ A_SS⁻¹ C_Sj),

so that a search can factorise A as it adds and removes parents. With b = 1 this is BGe itself
(:mod:`svidag.mechanisms.linear`). With a second feature, max(0, x), it is the evidence of an
additive model, piecewise linear in every cause: no mechanism of its own, but close enough to a wide
network to say which orders and parents are worth its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from svidag.data import row_groups
from svidag.mechanisms.linear import LinearGaussian

_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class GaussianBlocks:
    """Products of features and targets, one set of them for each group of nodes.

    Attributes
    ----------
    inner
        A: products of features with each other.
    outer
        C: products of features with targets.
    own
        d: products of targets with themselves.
    rows
        The number of rows of each group, times their weight.
    group
        For each node, the index of its group.
    size
        b, features of each variable.
    model
        The linear model that this is, or None for the additive one.
    """

    inner: Float[np.ndarray, "groups features features"]
    outer: Float[np.ndarray, "groups features m"]
    own: Float[np.ndarray, "groups m"]
    rows: Int[np.ndarray, " groups"] | Float[np.ndarray, " groups"]
    group: Int[np.ndarray, " m"]
    size: int
    model: LinearGaussian | None = None

    @classmethod
    def linear(cls, model: LinearGaussian) -> GaussianBlocks:
        """BGe."""
        own = np.ascontiguousarray(model.scatter.diagonal(axis1=1, axis2=2))
        return cls(model.scatter, model.scatter, own, model.rows, model.group, 1, model)

    @classmethod
    def additive(
        cls,
        values: Float[np.ndarray, "N m"],
        intervened: Bool[np.ndarray, "N m"],
        weight: float = 1.0,
    ) -> GaussianBlocks:
        """Features ½x and ½max(0, x), a constant, weights N(0, σ²), σ² ~ InvGamma(1, 1)."""
        masks, group = row_groups(intervened)
        parts = [_products(values[mask], weight) for mask in masks.T]
        inner, outer, own = (np.stack(part) for part in zip(*parts, strict=True))
        return cls(inner, outer, own, weight * masks.sum(axis=0), group, 2)

    def arrays(self, most: int) -> tuple[np.ndarray, ...]:
        """A, Cᵀ, d, and c and h by the number of parents up to `most`."""
        outer = np.ascontiguousarray(self.outer.transpose(0, 2, 1))
        size = np.arange(most + 1)
        n = self.rows[:, None].astype(float)
        if self.model is None:
            constant = gammaln(1 + n / 2) - n / 2 * np.log(2 * np.pi) + (1 + n / 2) * np.log(2.0)
            constant -= 0.5 * np.log(0.25 * n + 1.0)  # the determinant of what was eliminated
            power = 1 + n / 2 + 0 * size
            return self.inner, outer, self.own, constant + 0 * size, power
        # BGe has ½(N + a + l) log|R_PP| − ½(N + a + l + 1)(log|R_PP| + log v).
        a = self.model.scale_weight - self.model.m
        constant = self.model.assemble(n, size, 0.0, 0.0)
        return self.inner, outer, self.own, constant, 0.5 * (n + a + size + 1)

    def addition_ratios(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, "B m"]:
        """N log(v_S / v_{S∪i}) for every variable i, v being the variance that is left of the node.

        With R_i = A_ii − A_iS A_SS⁻¹ A_Si and r_i = C_ij − A_iS A_SS⁻¹ C_Sj, adding i leaves
        r_iᵀ R_i⁻¹ r_i less. Members of S and the node itself have no meaning here.

        Examples
        --------
        >>> x = np.random.default_rng(0).standard_normal((200, 3))
        >>> x[:, 1] += np.abs(x[:, 0])
        >>> blocks = GaussianBlocks.additive(x, np.zeros(x.shape, dtype=bool))
        >>> ratios = blocks.addition_ratios(np.array([1]), np.zeros((1, 3), dtype=bool))[0]
        >>> bool(ratios[0] > 50 > 10 > ratios[2])
        True
        """
        m, b = parents.shape[1], self.size
        ratios = np.empty(parents.shape)
        sizes = parents.sum(axis=1)
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            step = max(1, _CELLS_AT_ONCE // ((size + 1) * m * b**2))
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                members = np.nonzero(parents[part])[1].reshape(len(part), size)
                ratios[part] = self._ratios(nodes[part], members)
        return ratios

    def _ratios(
        self, nodes: Int[np.ndarray, " B"], members: Int[np.ndarray, "B l"]
    ) -> Float[np.ndarray, "B m"]:
        B, b, g = len(nodes), self.size, self.group[nodes]
        features = (members[:, :, None] * b + np.arange(b)).reshape(B, -1)
        across = self.inner[g[:, None], features]
        within = np.take_along_axis(across, features[:, None, :], axis=2)
        projected = np.linalg.solve(within, across)
        target = self.outer[g[:, None], features, nodes[:, None]]
        left = self.own[g, nodes] - np.einsum(
            "bk,bk->b", target, np.linalg.solve(within, target[:, :, None])[:, :, 0]
        )
        rest = self.outer[g, :, nodes] - np.einsum("bkf,bk->bf", projected, target)
        rest = rest.reshape(B, -1, b)
        shape = (B, features.shape[1], rest.shape[1], b)
        blocks = np.einsum("gvavc->gvac", self.inner.reshape(len(self.inner), *2 * shape[2:]))
        blocks = blocks[g] - np.einsum(
            "bkva,bkvc->bvac", across.reshape(shape), projected.reshape(shape)
        )
        # Members leave nothing of themselves: the small number keeps their block invertible.
        blocks += 1e-9 * np.eye(b)
        gained = np.einsum("bva,bva->bv", rest, np.linalg.solve(blocks, rest[..., None])[..., 0])
        share = np.clip(gained / np.maximum(left, 1e-12)[:, None], 0.0, 1.0 - 1e-12)
        return -self.rows[g][:, None] * np.log1p(-share)

    def log_sizes(self) -> Float[np.ndarray, "groups m"]:
        """½ log|A_vv| of each variable alone."""
        groups, features, _ = self.inner.shape
        blocks = self.inner.reshape(groups, -1, self.size, features // self.size, self.size)
        own = np.einsum("gvavb->gvab", blocks)
        return 0.5 * np.linalg.slogdet(own)[1]


def _products(
    x: Float[np.ndarray, "n m"], weight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, C and d of the additive model, its constant integrated out."""
    n, m = x.shape
    features = np.stack([0.5 * x, 0.5 * np.maximum(0.0, x)], axis=2).reshape(n, 2 * m)
    inner = weight * (features.T @ features) + np.eye(2 * m)
    outer, own = weight * (features.T @ x), weight * (x**2).sum(axis=0) + 2.0
    # The constant ½ is one more feature, always there: its row and column are eliminated.
    constant = 0.25 * weight * n + 1.0
    of_features = 0.5 * weight * features.sum(axis=0)
    of_targets = 0.5 * weight * x.sum(axis=0)
    return (
        inner - np.outer(of_features, of_features) / constant,
        outer - np.outer(of_features, of_targets) / constant,
        own - of_targets**2 / constant,
    )
