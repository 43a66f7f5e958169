"""Stein variational gradient descent with a kernel on features of the particles.

Particles r⁽ᵏ⁾ with scores g⁽ᵏ⁾ = ∇ log p̃(r⁽ᵏ⁾) move along (Eq. svgd_update)

    Φ⁽ᵏ⁾ = K⁻¹ Σ_j [ k(ψ_j, ψ_k) g⁽ʲ⁾ + ∇_{r⁽ʲ⁾} k(ψ_j, ψ_k) ],    k(ψ, ψ') = exp(−‖ψ − ψ'‖² / h).

With J_j the Jacobian of the features ψ at r⁽ʲ⁾, the second term is −(2/h) k_jk J_jᵀ(ψ_j − ψ_k): one
pullback for each *pair*. J_jᵀ is linear, so each particle is linearised once and pulls back the K
features that all particles share; for ψ = vec M_τ(r) this is one matrix product over all pairs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Features(NamedTuple):
    """The features of K particles, and the transposed Jacobians there.

    Attributes
    ----------
    values
        ψ(r⁽ᵏ⁾), any shape per particle.
    pullbacks
        The K linear maps J_kᵀ, stacked.
    aux
        What else the feature map returned, stacked.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> squares = linearise(jnp.square, jnp.array([[1.0], [3.0]]))
    >>> squares.pull(jnp.array([[1.0], [10.0]])).tolist()
    [[2.0], [60.0]]
    >>> squares.pull_all(jnp.array([[1.0], [10.0]])).tolist()
    [[[2.0], [20.0]], [[6.0], [60.0]]]
    """

    values: Float[Array, "K *shape"]
    pullbacks: Any
    aux: Any = None

    def pull(self, cotangents: Float[Array, "K *shape"]) -> Float[Array, "K m"]:
        """J_kᵀ c_k: each particle pulls back its own cotangent."""
        return jax.vmap(lambda pullback, c: pullback(c)[0])(self.pullbacks, cotangents)

    def pull_all(self, cotangents: Float[Array, "C *shape"]) -> Float[Array, "K C m"]:
        """J_kᵀ c for each particle and each of the cotangents, which all particles share."""

        def pull(pullback):
            return jax.vmap(lambda c: pullback(c)[0])(cotangents)

        # The size is stated for linear features, whose pullbacks hold no arrays.
        return jax.vmap(pull, axis_size=self.values.shape[0])(self.pullbacks)


def linearise(
    feature: Callable[[Array], Any], particles: Float[Array, "K m"], *, has_aux: bool = False
) -> Features:
    """Map each particle to its features, ready to pull cotangents back to the particles.

    With `has_aux`, `feature` returns a pair whose second part is kept beside the features.

    Examples
    --------
    The relaxed orders of two particles, with the mask as the feature:

    >>> import jax.numpy as jnp
    >>> from svidag.orders.relaxation import relax
    >>> def mask(r):
    ...     relaxed = relax(r, tau=0.1)
    ...     return relaxed.mask, relaxed
    >>> orders = linearise(mask, jnp.array([[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]]), has_aux=True)
    >>> orders.values.shape, orders.aux.row_error.shape
    ((2, 3, 3), (2,))
    """
    parts: tuple = jax.vmap(lambda r: jax.vjp(feature, r, has_aux=has_aux))(particles)
    return Features(*parts)


@dataclass(frozen=True)
class SteinSettings:
    """The settings of the particle move.

    Parameters
    ----------
    bandwidth
        h of the kernel; None takes the median of the squared distances between different particles,
        divided by log(K + 1), as a constant in the derivative. (The median over all K² pairs would
        count the K zeros and shrink h.)
    smallest_bandwidth
        Floor under the median rule, for particles that coincide.
    score_clip
        Largest ℓ2 norm of a particle's score; longer ones are shortened to it and counted.

    Examples
    --------
    >>> SteinSettings(bandwidth=2.0).score_clip
    10.0
    """

    bandwidth: float | None = None
    smallest_bandwidth: float = 1e-6
    score_clip: float = 10.0

    def __post_init__(self):
        for name in ("bandwidth", "smallest_bandwidth", "score_clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")


class ParticleMove(NamedTuple):
    """Where the particles should go.

    Attributes
    ----------
    direction
        Φ, for ascent. Optimisers that descend take its negative.
    bandwidth
        The kernel's h.
    clipped
        How many of the K scores were shortened.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> alone = linearise(lambda r: r, jnp.zeros((1, 2)))
    >>> move = direction(jnp.array([[30.0, 40.0]]), alone)
    >>> move.direction.round(1).tolist(), int(move.clipped)
    ([[6.0, 8.0]], 1)
    """

    direction: Float[Array, "K m"]
    bandwidth: Float[Array, ""]
    clipped: Int[Array, ""]


def direction(
    scores: Float[Array, "K m"], features: Features, stein: SteinSettings | None = None
) -> ParticleMove:
    """Φ of Eq. svgd_update.

    Examples
    --------
    Two particles under a flat target only repel each other:

    >>> import jax.numpy as jnp
    >>> particles = jnp.array([[0.0], [1.0]])
    >>> features, settings = linearise(lambda r: r, particles), SteinSettings(bandwidth=1.0)
    >>> move = direction(jnp.zeros((2, 1)), features, settings)
    >>> bool(move.direction[0, 0] < 0 < move.direction[1, 0])
    True
    """
    stein = SteinSettings() if stein is None else stein
    K = scores.shape[0]
    scores, clipped = clip(scores, stein.score_clip)
    # Distances and pullbacks of differences do not depend on the mean; it would only cost digits.
    centred = features.values - features.values.mean(axis=0, keepdims=True)
    distances = _squared_distances(centred.reshape(K, -1))
    h = _bandwidth(distances, stein)
    kernel = jnp.exp(-distances / h)
    pulled = features.pull_all(centred)  # [j, k] = J_jᵀ ψ_k
    own = jnp.einsum("jjm->jm", pulled)
    repulsion = 2 / h * (jnp.einsum("jk,jkm->km", kernel, pulled) - kernel.T @ own)
    return ParticleMove((kernel.T @ scores + repulsion) / K, h, clipped)


def sum_of_kernels(
    scores: Sequence[Float[Array, "K _"]],
    particles: Sequence[Float[Array, "K _"]],
    bandwidths: Sequence[float],
) -> list[Float[Array, "K _"]]:
    """Φ of particles in several parts, each with a kernel of its own; the kernels are summed.

    k(x, x') = Σ_g exp(−‖x_g − x'_g‖² / h_g) weighs the scores of every part, and part g is repelled
    by its own term.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> apart = [jnp.array([[0.0], [1.0]])]
    >>> only_repulsion = sum_of_kernels([jnp.zeros((2, 1))], apart, [1.0])[0]
    >>> bool(only_repulsion[0, 0] < 0 < only_repulsion[1, 0])
    True
    """
    K = particles[0].shape[0]
    kernels = [
        jnp.exp(-_squared_distances(x - x.mean(axis=0, keepdims=True)) / h)
        for x, h in zip(particles, bandwidths, strict=True)
    ]
    total = sum(kernels[1:], start=kernels[0])
    return [
        (total @ g + 2 / h * (kernel.sum(axis=1)[:, None] * x - kernel @ x)) / K
        for g, x, h, kernel in zip(scores, particles, bandwidths, kernels, strict=True)
    ]


def clip(scores: Float[Array, "K m"], largest: float) -> tuple[Float[Array, "K m"], Int[Array, ""]]:
    """Scores no longer than `largest` in ℓ2, and how many had been.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> short, count = clip(jnp.array([[3.0, 4.0], [0.3, 0.4]]), largest=1.0)
    >>> jnp.linalg.norm(short, axis=1).round(1).tolist(), int(count)
    ([1.0, 0.5], 1)
    """
    norms = jnp.linalg.norm(scores, axis=1, keepdims=True)
    return scores * jnp.minimum(largest / norms, 1), jnp.sum(norms > largest)


def _squared_distances(points: Float[Array, "K d"]) -> Float[Array, "K K"]:
    products = points @ points.T
    norms = jnp.diag(products)
    return jnp.maximum(norms[:, None] + norms[None, :] - 2 * products, 0)


def _bandwidth(distances: Float[Array, "K K"], stein: SteinSettings) -> Float[Array, ""]:
    if stein.bandwidth is not None:
        return jnp.asarray(stein.bandwidth, distances.dtype)
    K = distances.shape[0]
    if K == 1:
        return jnp.asarray(stein.smallest_bandwidth, distances.dtype)
    ranked = jnp.sort(jnp.where(jnp.eye(K, dtype=bool), -1.0, distances).ravel())[K:]
    middle = K * (K - 1) // 2
    median = ranked[middle - 1 : middle + 1].mean()
    return jnp.maximum(median / jnp.log(K + 1.0), stein.smallest_bandwidth)
