"""The paper's mechanism: one Bayesian network per node, its parameters drawn by a hypernetwork.

Node j is predicted from its parents by a tanh network g_j(x; θ_j) = f_j(A[:, j] ⊙ x; θ_j) with
additive Gaussian noise of scale σ_j. The hypernetwork H_φ reads the graph and gives a diagonal
Gaussian over (θ_j, log σ_j),

    q(θ | A) = N(μ_φ(A), diag σ_φ²(A)),    θ = μ_φ(A) + σ_φ(A) ⊙ ε,

whose divergence from the prior has a closed form (Eq. KL_closed_form). The nodes are stacked along
the leading axis of every array. Methods act on one graph, or on many at once: then the axes of the
graphs, written ``*K``, come second, after the nodes. In that layout every product of a forward and
backward pass is a batched matrix product without a transpose; under `vmap` half of them need one.
"""

from itertools import pairwise
from math import log, prod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from svidag.kernels import noise
from svidag.kernels.elementary import softplus
from svidag.run.streams import host_generator

__all__ = ["MLPMechanism", "NodeKL", "ParameterGuide", "Parameters"]


class Parameters(eqx.Module):
    """Weights and biases of every layer and the log noise scale, for all nodes.

    Layer l of node j maps h to `weights[l][j]`ᵀ h + `biases[l][j]`; a linear `skip` adds its own
    weights of the parents to the last one.

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr
    >>> theta = MLPMechanism(3, key=jr.key(0)).guide(jnp.zeros((3, 3))).sample(jr.key(1))
    >>> [weight.shape for weight in theta.weights], theta.log_noise.shape
    ([(3, 3, 32), (3, 32, 32), (3, 32, 1)], (3,))
    """

    weights: tuple[Float[Array, "m *K _ _"], ...]
    biases: tuple[Float[Array, "m *K _"], ...]
    log_noise: Float[Array, "m *K"]
    skip: Float[Array, "m *K _"] | None = None


class ParameterGuide(eqx.Module):
    """The diagonal Gaussian q(θ_j, log σ_j | A) of every node; the last coordinate is log σ_j.

    The weights of a linear skip, where there is one, stand before it.

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr
    >>> guide = ParameterGuide(jnp.zeros((3, 5)), jnp.ones((3, 5)), widths=(3, 1))
    >>> guide.sample(jr.key(0)).biases[0].shape
    (3, 1)
    """

    mean: Float[Array, "m *K d"]
    scale: Float[Array, "m *K d"]
    widths: tuple[int, ...] = eqx.field(static=True)
    skip: bool = eqx.field(static=True, default=False)

    def sample(self, key: PRNGKeyArray) -> Parameters:
        """Draw θ = μ + σ ⊙ ε for all nodes."""
        # Barriers, because XLA would repeat the work wherever the noise and the draw are used.
        epsilon = jax.lax.optimization_barrier(noise.normal(key, self.mean.shape))
        theta = jax.lax.optimization_barrier(self.mean + self.scale * epsilon)
        return _unpack(theta, self.widths, self.skip)


class NodeKL(NamedTuple):
    """KL(q ‖ p) of each node, network parameters and noise scale apart.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> NodeKL(weights=jnp.ones(3), noise=jnp.zeros(3)).weights.shape
    (3,)
    """

    weights: Float[Array, "m *K"]
    noise: Float[Array, "m *K"]


class MLPMechanism(eqx.Module):
    """Bayesian networks m → hidden → 1 for all nodes, with q(θ | A) from hypernetworks.

    Parameters
    ----------
    m
        Number of variables.
    hidden
        Hidden widths of each node's network; empty for a linear mechanism.
    hyper
        Hidden widths of each node's hypernetwork (ReLU).
    condition
        What the hypernetwork of node j sees: its own ``"column"`` A[:, j], which loses nothing
        since nodes separate given the graph, or the whole ``"graph"``.
    prior_scale
        θ ~ N(0, prior_scale²).
    noise_location, noise_spread
        log σ_j ~ N(noise_location, noise_spread²).
    skip
        Whether a linear layer from the parents is added to the network.
    absent_weights
        ``"learned"``: all weights count in the divergence, as published. ``"prior"``: those that
        read a variable which is no parent follow their prior, and the divergence is that of
        Σ_{i∈S} KL_i and of the other parameters; f_j(x_S) does not depend on them.
    noise_sd
        σ_j, fixed; None learns it.
    scale_floor, variance_floor
        Added to σ_φ and to the noise variance, to keep both away from zero.

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr
    >>> mechanism = MLPMechanism(3, key=jr.key(0))
    >>> A, x = jnp.zeros((3, 3)).at[0, 1].set(1.0), jnp.ones((5, 3))
    >>> guide = mechanism.guide(A)
    >>> theta = guide.sample(jr.key(1))
    >>> mechanism.predict(theta, A, x).shape, mechanism.kl(guide).weights.shape
    ((5, 3), (3,))
    """

    trunk_weights: tuple[Float[Array, "m _ _"], ...]
    trunk_biases: tuple[Float[Array, "m _"], ...]
    mean_head: Float[Array, "m _ d"]
    scale_head: Float[Array, "m _ d"]
    widths: tuple[int, ...] = eqx.field(static=True)
    condition: str = eqx.field(static=True)
    prior_scale: float = eqx.field(static=True)
    noise_location: float = eqx.field(static=True)
    noise_spread: float = eqx.field(static=True)
    scale_floor: float = eqx.field(static=True)
    variance_floor: float = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    absent_weights: str = eqx.field(static=True)
    noise_sd: float | None = eqx.field(static=True)

    def __init__(
        self,
        m: int,
        *,
        hidden: tuple[int, ...] = (32, 32),
        hyper: tuple[int, ...] = (16, 16),
        condition: str = "column",
        prior_scale: float = 1.0,
        noise_location: float = log(0.1),
        noise_spread: float = 2.0,
        scale_floor: float = 1e-6,
        variance_floor: float = 1e-6,
        skip: bool = False,
        absent_weights: str = "learned",
        noise_sd: float | None = None,
        key: PRNGKeyArray,
    ):
        if condition not in ("column", "graph"):
            raise ValueError(f"condition must be 'column' or 'graph'; got {condition!r}")
        self.widths = (m, *hidden, 1)
        self.condition = condition
        self.prior_scale = prior_scale
        self.noise_location, self.noise_spread = noise_location, noise_spread
        self.scale_floor, self.variance_floor = scale_floor, variance_floor
        self.skip, self.absent_weights, self.noise_sd = skip, absent_weights, noise_sd

        sizes = (m if condition == "column" else m * m, *hyper)
        d = sum(prod(shape) for shape in _shapes(self.widths)) + m * skip + 1
        *kernels, head = _lecun_normal(key, [(m, *size) for size in pairwise((*sizes, d))])
        self.trunk_weights = tuple(jax.device_put(kernels))
        self.trunk_biases = tuple(jax.device_put(np.zeros((m, s), np.float32)) for s in hyper)
        # Heads keep their bias as a last row, which is one large kernel less in either direction.
        bias = np.zeros((m, 1, d), np.float32)
        self.mean_head = jax.device_put(np.concatenate([head, bias], axis=1))
        self.scale_head = jax.device_put(np.concatenate([0 * head, bias - 2], axis=1))

    def guide(self, A: Float[Array, "*K m m"]) -> ParameterGuide:
        """q(θ, log σ | A) with σ_φ = softplus(ρ_φ) + floor."""
        h = jnp.moveaxis(A, -1, 0)
        if self.condition == "graph":
            flat = A.reshape(*A.shape[:-2], -1)
            h = jnp.broadcast_to(flat[None], (A.shape[-1], *flat.shape))
        for weight, bias in zip(self.trunk_weights, self.trunk_biases, strict=True):
            h = jax.nn.relu(jnp.einsum("j...i,jih->j...h", h, weight) + _over_graphs(bias, h))
        h = jnp.concatenate([h, jnp.ones_like(h[..., :1])], axis=-1)
        mean, rho = (
            jnp.einsum("j...h,jhd->j...d", h, head) for head in (self.mean_head, self.scale_head)
        )
        return ParameterGuide(mean, softplus(rho) + self.scale_floor, self.widths, self.skip)

    def kl(self, guide: ParameterGuide, A: Float[Array, "*K m m"] | None = None) -> NodeKL:
        """KL(q(θ, log σ | A) ‖ p(θ) p(log σ)) of each node (Eq. KL_closed_form).

        The graph matters where absent weights follow their prior.
        """
        last = np.arange(guide.mean.shape[-1]) == guide.mean.shape[-1] - 1
        location = np.where(last, self.noise_location, 0.0)
        spread = np.where(last, self.noise_spread, self.prior_scale)
        kl = _gaussian_kl(guide.mean, guide.scale, location, spread)
        noise_kl = kl[..., -1] if self.noise_sd is None else jnp.zeros_like(kl[..., -1])
        if self.absent_weights == "learned" or A is None:
            # A product, because XLA would copy out the slice that a sum is over.
            return NodeKL(jnp.einsum("...d,d->...", kl, (~last).astype(kl.dtype)), noise_kl)
        reads = _readers(self.widths, self.skip)  # which variable each parameter reads, or none
        always = (~last & (reads.sum(axis=0) == 0)).astype(kl.dtype)
        by_parent = jnp.einsum("...d,id->...i", kl, jnp.asarray(reads, kl.dtype))
        parents = (by_parent * jnp.moveaxis(A, -1, 0)).sum(axis=-1)
        return NodeKL(jnp.einsum("...d,d->...", kl, always) + parents, noise_kl)

    def predict(
        self, theta: Parameters, A: Float[Array, "*K m m"], x: Float[Array, "*K B m"]
    ) -> Float[Array, "*K B m"]:
        """f_j(A[:, j] ⊙ x; θ_j) for every row and node."""
        return jnp.moveaxis(self._predict(theta, A, x), 0, -1)

    def predict_node(
        self,
        theta: Parameters,
        A: Float[Array, "m m"],
        x: Float[Array, "B m"],
        j: Int[Array, ""],
    ) -> Float[Array, " B"]:
        """f_j(A[:, j] ⊙ x; θ_j) for every row and one node."""
        own = jax.tree.map(lambda leaf: leaf[j][None], theta)
        return self._predict(own, A[:, j][:, None], x)[0]

    def _predict(self, theta: Parameters, A: Array, x: Array) -> Float[Array, "m *K B"]:
        first, *rest = zip(theta.weights, theta.biases, strict=True)
        # Masking the weights equals masking the inputs, and needs no copy of x for each node.
        weight = first[0] * jnp.moveaxis(A, -1, 0)[..., None]
        h = jnp.einsum("j...ih,...bi->j...hb", weight, x) + first[1][..., None]
        for weight, bias in rest:
            h = jnp.einsum("...hg,...hb->...gb", weight, jnp.tanh(h)) + bias[..., None]
        if theta.skip is None:
            return h[..., 0, :]
        direct = theta.skip * jnp.moveaxis(A, -1, 0)
        return h[..., 0, :] + jnp.einsum("j...i,...bi->j...b", direct, x)

    def noise_variance(self, theta: Parameters) -> Float[Array, "m *K"]:
        """σ_j² + floor."""
        if self.noise_sd is not None:
            return jnp.full_like(theta.log_noise, self.noise_sd**2) + self.variance_floor
        return jnp.exp(2 * theta.log_noise) + self.variance_floor

    def row_log_likelihood(
        self, theta: Parameters, A: Float[Array, "*K m m"], x: Float[Array, "*K B m"]
    ) -> Float[Array, "*K B m"]:
        """Return log N(x_j; f_j, σ_j²) of every row and node."""
        return jnp.moveaxis(self._row_log_likelihood(theta, A, x), 0, -1)

    def _row_log_likelihood(self, theta: Parameters, A: Array, x: Array) -> Array:
        variance = self.noise_variance(theta)[..., None]
        squares = (jnp.moveaxis(x, -1, 0) - self._predict(theta, A, x)) ** 2
        return -0.5 * (squares / variance + jnp.log(2 * jnp.pi * variance))

    def log_likelihood(
        self,
        theta: Parameters,
        A: Float[Array, "*K m m"],
        x: Float[Array, "*K B m"],
        observed: Bool[Array, "*K B m"],
    ) -> Float[Array, "m *K"]:
        """Return log p(x_j | A, θ_j) of each node over the rows where it was not intervened on."""
        rows = self._row_log_likelihood(theta, A, x)
        return jnp.where(jnp.moveaxis(observed, -1, 0), rows, 0.0).sum(axis=-1)


def _shapes(widths: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Weight and bias of each layer in turn."""
    return [shape for inner, outer in pairwise(widths) for shape in ((inner, outer), (outer,))]


def _readers(widths: tuple[int, ...], skip: bool) -> Bool[np.ndarray, "m d"]:
    """Which parameters read variable i: its weights in the first layer and in a linear skip."""
    m, first = widths[:2]
    d = sum(prod(shape) for shape in _shapes(widths)) + m * skip + 1
    reads = np.zeros((m, d), dtype=bool)
    each = np.arange(m)
    reads[:, : m * first] = np.repeat(np.eye(m, dtype=bool), first, axis=1)
    if skip:
        reads[each, d - 1 - m + each] = True
    return reads


def _lecun_normal(
    key: PRNGKeyArray, shapes: list[tuple[int, int, int]]
) -> list[Float[np.ndarray, "m _ _"]]:
    """Draw stacks of kernels with variance one over the fan-in."""
    # By NumPy, because JAX would compile a random kernel for each shape, seconds at m = 50.
    rng = host_generator(key)
    return [rng.standard_normal(s, np.float32) / np.float32(s[1] ** 0.5) for s in shapes]


def _over_graphs(bias: Float[Array, "m h"], like: Array) -> Array:
    """A bias for each node, ready to be added to an array [m, *K, h]."""
    return bias.reshape(len(bias), *(1,) * (like.ndim - 2), -1)


def _unpack(theta: Float[Array, "m *K d"], widths: tuple[int, ...], skip: bool) -> Parameters:
    direct = None
    if skip:
        theta, direct = _without_skip(theta, widths[0])
    shapes = _shapes(widths)
    cuts = np.cumsum([prod(shape) for shape in shapes])
    *pieces, log_noise = jnp.split(theta, cuts, axis=-1)
    shaped = [
        piece.reshape(*theta.shape[:-1], *shape)
        for piece, shape in zip(pieces, shapes, strict=True)
    ]
    return Parameters(tuple(shaped[::2]), tuple(shaped[1::2]), log_noise[..., 0], direct)


def _without_skip(theta: Float[Array, "m *K d"], m: int) -> tuple[Array, Array]:
    """The parameters without the m weights of the skip, and these."""
    d = theta.shape[-1]
    layers, direct, log_noise = jnp.split(theta, [d - 1 - m, d - 1], axis=-1)
    return jnp.concatenate([layers, log_noise], axis=-1), direct


def _gaussian_kl(mean: Array, scale: Array, location: np.ndarray, spread: np.ndarray) -> Array:
    prior_mean = jnp.broadcast_to(jnp.asarray(location, mean.dtype), mean.shape)
    prior_scale = jnp.broadcast_to(jnp.asarray(spread, mean.dtype), mean.shape)
    ratio, shift = scale / prior_scale, (mean - prior_mean) / prior_scale
    return 0.5 * (ratio**2 + shift**2 - 1) - jnp.log(ratio)
