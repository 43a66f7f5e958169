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
