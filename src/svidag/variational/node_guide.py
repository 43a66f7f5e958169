"""The per-node edge guide: parents of one node given its predecessors in the order.

Given the order, nodes separate, so the conditional guide is built per node and conditioned on the
node's own column c = M(r)[:, j]:

    γ = T_φ,j(z; c) ∈ Rᵐ,   z ~ N(0, I),        B_i ~ Bernoulli(σ(γ_i)) on the open pairs.

Integrating z out makes the parents of a node dependent. The density of a parent set is known up to
that integral, and several draws of z give the estimate

    q̂(B) = S⁻¹ Σ_s Π_i Bernoulli(B_i; σ(γˢ_i)).

A guide module describes one node; `stack` holds all m of them as one module whose arrays have a
leading axis, and `of_node` takes one out again.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from svidag.networks.flows import FlowSettings, conditional_flow

__all__ = [
    "LIMIT",
    "GuideNoise",
    "NodeFlow",
    "NodeGuide",
    "NodeMeanField",
    "ParentDraws",
    "draw_parents",
    "edge_log_odds",
    "of_node",
    "stack_flows",
    "stack_mean_fields",
]

LIMIT = 10.0
"""Logits stay within ±LIMIT, so that every parent set keeps a probability one can draw from."""


class LogitLocation(eqx.Module):
    """c ↦ l + W c: how probable each parent is, depending on which variables come before the node.

    A parent often stands in for another that the order rules out; W is where that is learned. It
    starts where the limited logits are `start`, or 0.99 of the limit.
    """

    base: Float[Array, " m"]
    slopes: Float[Array, "m m"]

    def __init__(self, start: Float[np.ndarray, " m"]):
        bounded = np.clip(start / LIMIT, -0.99, 0.99)
        self.base = jnp.asarray(LIMIT * np.arctanh(bounded), jnp.float32)
        self.slopes = jnp.asarray(np.zeros((len(start), len(start)), np.float32))

    def __call__(self, column: Float[Array, " m"]) -> Float[Array, " m"]:
        return self.base + self.slopes @ column


class NodeGuide(eqx.Module):
    """Edge logits of one node given its column; the own entry is unused."""

    @abstractmethod
    def logits(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, "S m"]:
        """γ for each of several draws of z, within ±LIMIT."""

    @abstractmethod
    def log_density(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, " S"]:
        """log q(γ | c) at the logits of each draw of z."""


class NodeFlow(NodeGuide):
    """γ = l + W c + s ⊙ T(z; c), with T a conditional flow that starts as the identity.

    Examples
    --------
    >>> guide = NodeFlow(jr.key(0), np.array([-1.0, -1.0, 0.0]), FlowSettings(2, 8, 5.0, 16, 1))
    >>> guide.logits(jr.normal(jr.key(1), (4, 3)), jnp.array([1.0, 1.0, 0.0])).shape
    (4, 3)
    """

    location: LogitLocation
    log_scale: Float[Array, " m"]
    bijection: AbstractBijection

    def __init__(
        self,
        key: PRNGKeyArray,
        start: Float[np.ndarray, " m"],
        settings: FlowSettings,
        family: str = "spline-coupling",
        scale: float = 0.5,
    ):
        m = len(start)
        self.location = LogitLocation(start)
        self.log_scale = jnp.asarray(np.full(m, np.log(scale), np.float32))
        self.bijection = conditional_flow(key, m, m, settings, family)

    def logits(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, "S m"]:
        """One pass of the flow for each draw of z."""
        bent = jax.vmap(lambda one: self.bijection.transform(one, column))(z)
        spread = jnp.exp(self.log_scale)
        return _limited(self.location(column)[None, :] + spread[None, :] * bent)

    def log_density(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, " S"]:
        """log N(z) − log |det ∂γ/∂z|, by the same forward pass."""
        bent, log_det = jax.vmap(lambda one: self.bijection.transform_and_log_det(one, column))(z)
        free = self.location(column)[None, :] + jnp.exp(self.log_scale)[None, :] * bent
        limited = jnp.log1p(-(jnp.tanh(free / LIMIT) ** 2)).sum(axis=1)
        base = jax.scipy.stats.norm.logpdf(z).sum(axis=1)
        return base - log_det - self.log_scale.sum() - limited


class NodeMeanField(NodeGuide):
    """γ = l + W c without z: given the order, every edge is independent.

    Examples
    --------
    >>> guide = NodeMeanField(np.array([-1.0, 0.0]))
    >>> guide.logits(jnp.zeros((1, 2)), jnp.array([1.0, 0.0])).round(4).tolist()
    [[-1.0, 0.0]]
    """

    location: LogitLocation

    def __init__(self, start: Float[np.ndarray, " m"]):
        self.location = LogitLocation(start)

    def logits(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, "S m"]:
        """The same logits in every draw."""
        return jnp.broadcast_to(_limited(self.location(column))[None, :], z.shape)

    def log_density(self, z: Float[Array, "S m"], column: Float[Array, " m"]) -> Float[Array, " S"]:
        """There is none: the logits are not random."""
        raise TypeError("the logits of a mean-field guide are fixed and have no density")


Guide = TypeVar("Guide", bound=NodeGuide)


def stack_flows(
    key: PRNGKeyArray, start: Float[np.ndarray, "m m"], settings: FlowSettings, family: str
) -> NodeFlow:
    """One flow for each node; column j of `start` holds the logits at which node j starts.

    Examples
    --------
    >>> guides = stack_flows(jr.key(0), np.zeros((3, 3)), FlowSettings(2, 8, 5.0, 16, 1),
    ...                      "spline-coupling")
    >>> guides.log_scale.shape
    (3, 3)
    """
    keys = jr.split(key, len(start))
    flows = [NodeFlow(*one, settings, family) for one in zip(keys, start.T, strict=True)]
    return _stack(flows)


def stack_mean_fields(start: Float[np.ndarray, "m m"]) -> NodeMeanField:
    """One mean-field guide for each node, starting at the columns of `start`.

    Examples
    --------
    >>> stack_mean_fields(np.zeros((3, 3))).location.base.shape
    (3, 3)
    """
    return _stack([NodeMeanField(column) for column in start.T])


def _stack(guides: list[Guide]) -> Guide:
    def join(*leaves):
        return jnp.asarray(np.stack(leaves)) if eqx.is_array(leaves[0]) else leaves[0]

    return jax.tree.map(join, *guides)


def of_node(guides: NodeGuide, node: Int[Array, ""]) -> NodeGuide:
    """The guide of one node out of a stack.

    Examples
    --------
    >>> of_node(stack_mean_fields(np.zeros((3, 3))), jnp.asarray(1)).location.base.shape
    (3,)
    """
    return jax.tree.map(lambda leaf: leaf[node] if eqx.is_array(leaf) else leaf, guides)


class ParentDraws(NamedTuple):
    """Parent sets of one node, one for each draw of z.

    Attributes
    ----------
    logits
        γˢ of every draw.
    parents
        Bˢ ~ Bernoulli(σ(γˢ)) on the open pairs; required pairs are present, all others absent.
    log_terms
        log Π_i Bernoulli(Bˢ_i; σ(γˡ_i)) over the open pairs, for draw s under the logits of draw l.
    """

    logits: Float[Array, "S m"]
    parents: Bool[Array, "S m"]
    log_terms: Float[Array, "S S"]

    @property
    def log_guide(self) -> Float[Array, " S"]:
        """log q̂(Bˢ), the mixture over all draws of z, the generating one among them."""
        return logsumexp(self.log_terms, axis=1) - jnp.log(float(self.log_terms.shape[1]))


class GuideNoise(NamedTuple):
    """The randomness of S parent sets: z for the flow, logistic noise for the edges."""

    z: Float[Array, "*batch S m"]
    edges: Float[Array, "*batch S m"]

    @classmethod
    def draw(cls, key: PRNGKeyArray, shape: tuple[int, ...]) -> GuideNoise:
        """All the noise of a batch at once.

        Examples
        --------
        >>> GuideNoise.draw(jr.key(0), (7, 4, 3)).z.shape
        (7, 4, 3)
        """
        return cls(*_flat_noise(key, math.prod(shape), shape))


@partial(jax.jit, static_argnums=(1, 2))
def _flat_noise(key, size, shape):
    """Drawn flat, and apart from what uses it: a shape of rank four takes XLA 8 s to compile."""
    key_z, key_edges = jr.split(key)
    return jr.normal(key_z, (size,)).reshape(shape), jr.logistic(key_edges, (size,)).reshape(shape)


def draw_parents(
    guide: NodeGuide,
    noise: GuideNoise,
    column: Bool[Array, " m"],
    required: Bool[Array, " m"],
) -> ParentDraws:
    """Several parent sets of one node, with the terms of their density.

    `column` marks the predecessors that may be parents. Those that must be are in every set and
    carry no factor.

    Examples
    --------
    >>> guide = NodeMeanField(np.array([3.0, 3.0, 0.0]))
    >>> column = jnp.array([True, False, False])
    >>> drawn = draw_parents(guide, GuideNoise.draw(jr.key(0), (5, 3)), column, jnp.zeros(3, bool))
    >>> drawn.parents.shape, bool(drawn.parents[:, 1].any())
    ((5, 3), False)
    """
    logits = guide.logits(noise.z, column.astype(jnp.float32))
    free = (column & ~required)[None, :]
    parents = jnp.where(free, logits + noise.edges > 0, (column & required)[None, :])
    return ParentDraws(logits, parents, log_terms(logits, parents, free[0]))


def log_terms(
    logits: Float[Array, "S m"], parents: Bool[Array, "S m"], free: Bool[Array, " m"]
) -> Float[Array, "S S"]:
    """log Π_{i free} Bernoulli(Bˢ_i; σ(γˡ_i)) = Σ_i Bˢ_i γˡ_i + log σ(−γˡ_i).

    Examples
    --------
    >>> empty = log_terms(jnp.zeros((1, 2)), jnp.zeros((1, 2), bool), jnp.ones(2, bool))
    >>> float(empty[0, 0])  # 2 log ½
    -1.386294...
    """
    none = jnp.where(free[None, :], jax.nn.log_sigmoid(-logits), 0.0).sum(axis=1)
    present = (parents & free[None, :])[:, None, :]
    # Not a matrix product: XLA for CPU (jaxlib 0.10.2) reads beyond a broadcast operand of one.
    return jnp.where(present, logits[None, :, :], 0.0).sum(axis=2) + none[None, :]


def edge_log_odds(
    logits: Float[Array, "S m"], parents: Bool[Array, "S m"], terms: Float[Array, "S S"]
) -> Float[Array, "S m"]:
    """log q̂(Bˢ with i) − log q̂(Bˢ without i) for every draw and every i, the others as drawn.

    Examples
    --------
    Without mixing over z this is the logit itself:

    >>> logits, none = jnp.array([[0.5, -2.0]]), jnp.zeros((1, 2), bool)
    >>> edge_log_odds(logits, none, log_terms(logits, none, jnp.ones(2, bool))).round(4).tolist()
    [[0.5, -2.0]]
    """
    present = parents.astype(logits.dtype)[:, None, :]
    lift = jnp.broadcast_to(logits[None, :, :], (parents.shape[0], *logits.shape))
    base = jnp.broadcast_to(terms[:, :, None], lift.shape)
    with_i = logsumexp(base + (1 - present) * lift, axis=1)
    without_i = logsumexp(base - present * lift, axis=1)
    return with_i - without_i


def _limited(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return LIMIT * jnp.tanh(x / LIMIT)
