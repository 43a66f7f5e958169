"""The paper's flow: coupling blocks whose transformer is a rational-quadratic spline.

In each block the first half of the coordinates and the condition r choose, through a network, a
monotone spline for every coordinate of the second half (Durkan et al., Neural Spline Flows, 2019);
then the halves change places. flowjax has the same flow for any transformer. Here bins are an axis
of the arrays, a bin is chosen by comparison and has its derivative in closed form, without search,
gather or scatter, which XLA runs and compiles in a third of the time on a CPU.

With flowjax's coupling a step takes 14 % longer at m = 11 and 20 % longer at m = 25
(`python benchmarks/kernels.py flowjax`).
"""

from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Bool, Float

SMALLEST_BIN = 0.1
"""Least width and height of a bin, in parts of an equal share of the interval."""
SMALLEST_SLOPE = 1e-3
"""Least derivative at a knot."""


Located = tuple[
    Float[Array, "2 d"],
    Float[Array, "2 d"],
    Float[Array, " d"],
    Float[Array, " d"],
]
"""Lower left corner and size of each coordinate's bin, and the raw slopes at its ends."""


class SplineCoupling(AbstractBijection):
    """Blocks of spline couplings on R^dim given a condition; the identity beyond ±boundary.

    The weights start at zero, where every block only swaps the halves. The last row of a layer is
    its bias.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> flow = SplineCoupling(4, 2, blocks=3, bins=8, boundary=5.0, width=16, depth=1)
    >>> y, log_det = flow.transform_and_log_det(jnp.arange(4.0), jnp.zeros(2))
    >>> bool(jnp.allclose(jnp.sort(y), jnp.arange(4.0))), bool(jnp.abs(log_det) < 1e-5)
    (True, True)
    """

    layers: tuple[Float[Array, "blocks _ _"], ...]
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    boundary: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        condition_dim: int,
        *,
        blocks: int,
        bins: int,
        boundary: float,
        width: int,
        depth: int,
    ):
        half = dim // 2
        widths = (half + condition_dim, *[width] * depth, (3 * bins - 1) * (dim - half))
        self.layers = tuple(
            jax.device_put(np.zeros((blocks, inner + 1, outer), np.float32))
            for inner, outer in pairwise(widths)
        )
        self.shape, self.cond_shape = (dim,), (condition_dim,)
        self.bins, self.boundary = bins, boundary

    def redrawn(self, rng: np.random.Generator) -> "SplineCoupling":
        """Hidden layers with weights of variance one over the fan-in; the rest stays as it is."""

        def draw(layer):
            blocks, rows, outer = layer.shape
            weights = rng.standard_normal((blocks, rows - 1, outer)) / np.sqrt(rows - 1)
            padded = np.pad(weights, ((0, 0), (0, 1), (0, 0)))
            return jax.device_put(padded.astype(layer.dtype))

        *hidden, last = self.layers
        return eqx.tree_at(lambda flow: flow.layers, self, (*map(draw, hidden), last))

    def transform_and_log_det(self, x, condition=None) -> tuple[Array, Array]:
        """Map z → γ block by block."""

        def block(x, layers):
            fixed, moved = jnp.split(x, [self.shape[0] // 2])
            raw = self._condition(layers, fixed, condition)
            moved, log_det = spline(moved, raw, self.boundary)
            return jnp.concatenate([moved, fixed]), log_det.sum()

        y, log_dets = jax.lax.scan(block, x, self.layers)
        return jnp.asarray(y), log_dets.sum()

    def inverse_and_log_det(self, y, condition=None) -> tuple[Array, Array]:
        """Map γ → z, the blocks in reverse."""

        def block(y, layers):
            moved, fixed = jnp.split(y, [self.shape[0] - self.shape[0] // 2])
            raw = self._condition(layers, fixed, condition)
            moved, log_det = inverse_spline(moved, raw, self.boundary)
            return jnp.concatenate([fixed, moved]), log_det.sum()

        x, log_dets = jax.lax.scan(block, y, self.layers, reverse=True)
        return jnp.asarray(x), log_dets.sum()

    def _condition(self, layers, fixed: Array, condition) -> Float[Array, "parameters half"]:
        one = jnp.ones(1, fixed.dtype)
        h = jnp.concatenate([fixed, condition, one])
        for layer in layers[:-1]:
            h = jnp.concatenate([jax.nn.relu(h @ layer), one])
        return (h @ layers[-1]).reshape(3 * self.bins - 1, -1)


def spline(
    x: Float[Array, " d"], raw: Float[Array, "parameters d"], boundary: float
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Monotone rational-quadratic map of each coordinate, and the log of its derivative.

    `raw` holds n widths, n heights and n − 1 slopes, all zero for the identity.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> x = jnp.array([-7.0, 0.5])
    >>> y, log_slope = spline(x, jnp.zeros((11, 2)), boundary=5.0)
    >>> bool(jnp.allclose(y, x)), bool(jnp.abs(log_slope).max() < 1e-5)
    (True, True)
    """
    return _bent(x, _located(_inside(x, boundary), raw, boundary, 0), boundary)


def inverse_spline(
    y: Float[Array, " d"], raw: Float[Array, "parameters d"], boundary: float
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Undo `spline`; the second value is the log derivative of the inverse.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> raw = jnp.linspace(-1.0, 1.0, 22).reshape(11, 2)
    >>> x = jnp.array([-2.0, 3.0])
    >>> bool(jnp.allclose(inverse_spline(spline(x, raw, 5.0)[0], raw, 5.0)[0], x, atol=1e-4))
    True
    """
    inside = _inside(y, boundary)
    bend = _Bin.at(_located(inside, raw, boundary, 1))
    position = bend.backward(inside - bend.bottom)
    log_slope = bend.forward(position)[1]
    x = bend.left + bend.width * position
    within = jnp.abs(y) < boundary
    return jnp.where(within, x, y), jnp.where(within, -log_slope, 0.0)


# The forward pass is repeated in the backward pass: it costs less than to keep what it computed.
@partial(jax.checkpoint, prevent_cse=False, static_argnums=2)
def _bent(x: Float[Array, " d"], located: Located, boundary: float) -> tuple[Array, Array]:
    bend = _Bin.at(located)
    y, log_slope = bend.forward((_inside(x, boundary) - bend.left) / bend.width)
    within = jnp.abs(x) < boundary
    return jnp.where(within, y, x), jnp.where(within, log_slope, 0.0)


def _inside(x: Float[Array, " d"], boundary: float) -> Float[Array, " d"]:
    """The coordinates with those beyond the boundary moved to zero."""
    return jnp.where(jnp.abs(x) < boundary, x, 0.0)


class _Bin(eqx.Module):
    """The bin of each coordinate: its corner, its size, and the slopes at both ends."""

    left: Array
    bottom: Array
    width: Array
    height: Array
    slopes: tuple[Array, Array]

    @classmethod
    def at(cls, located: Located) -> "_Bin":
        corner, size, start, end = located
        return cls(corner[0], corner[1], size[0], size[1], (_slope(start), _slope(end)))

    def forward(self, position: Array) -> tuple[Array, Array]:
        """Height and log slope at a position in [0, 1] (their equations 4 and 5)."""
        secant = self.height / self.width
        start, end = self.slopes
        mixed = position * (1 - position)
        below = secant + (start + end - 2 * secant) * mixed
        y = self.bottom + self.height * (secant * position**2 + start * mixed) / below
        slope = end * position**2 + 2 * secant * mixed + start * (1 - position) ** 2
        return y, jnp.log(slope * (secant / below) ** 2)

    def backward(self, rise: Array) -> Array:
        """Position at which the spline has risen so far (their equations 6 to 8)."""
        secant = self.height / self.width
        start, end = self.slopes
        bent = rise * (start + end - 2 * secant)
        a, b, c = self.height * (secant - start) + bent, self.height * start - bent, -secant * rise
        return 2 * c / (-b - jnp.sqrt(jnp.maximum(b**2 - 4 * a * c, 0.0)))


def _locate(
    value: Float[Array, " d"], raw: Float[Array, "parameters d"], boundary: float, axis: int
) -> Located:
    """Find the bin that holds each value on the axis of x (0) or y (1)."""
    return _locate_forward(value, raw, boundary, axis)[0]


_located = jax.custom_vjp(_locate, nondiff_argnums=(2, 3))


def _locate_forward(value, raw, boundary, axis):
    n = (raw.shape[0] + 1) // 3
    shares = jax.nn.softmax(raw[: 2 * n].reshape(2, n, -1), axis=1)
    sizes = 2 * boundary * (SMALLEST_BIN / n + (1 - SMALLEST_BIN) * shares)
    knots = jnp.cumsum(sizes[axis], axis=0)[:-1] - boundary
    index = (value[None] >= knots).astype(raw.dtype).sum(axis=0)
    before, here = _bins_before(index, n), _bin_here(index, n)
    corner = jnp.where(before[None], sizes, 0.0).sum(axis=1) - boundary
    size = jnp.where(here[None], sizes, 0.0).sum(axis=1)
    start, end = (jnp.where(h, raw[2 * n :], 0.0).sum(axis=0) for h in (here[1:], here[:-1]))
    return (corner, size, start, end), (shares, index, corner, size)


def _locate_backward(boundary, axis, residuals, cotangents):
    """Corner and size are linear in the shares p = softmax(a), and ∂p_b/∂a_c = p_b (δ_bc − p_c)."""
    shares, index, corner, size = residuals
    corner_bar, size_bar, start_bar, end_bar = jax.lax.optimization_barrier(cotangents)
    n, free = shares.shape[1], 1 - SMALLEST_BIN
    before, here = (bins(index, n).astype(index.dtype) for bins in (_bins_before, _bin_here))
    p_before = ((corner + boundary) / (2 * boundary) - SMALLEST_BIN / n * index[None]) / free
    p_here = (size / (2 * boundary) - SMALLEST_BIN / n) / free
    pulled = corner_bar[:, None] * (before[None] - p_before[:, None])
    pulled += size_bar[:, None] * (here[None] - p_here[:, None])
    shares_bar = 2 * boundary * free * shares * pulled
    slopes_bar = here[1:] * start_bar[None] + here[:-1] * end_bar[None]
    return None, jnp.concatenate([shares_bar.reshape(2 * n, -1), slopes_bar])


_located.defvjp(_locate_forward, _locate_backward)


def _bins_before(index: Float[Array, " d"], n: int) -> Bool[Array, "n d"]:
    return jnp.arange(n, dtype=index.dtype)[:, None] < index[None]


def _bin_here(index: Float[Array, " d"], n: int) -> Bool[Array, "n d"]:
    return jnp.arange(n, dtype=index.dtype)[:, None] == index[None]


def _slope(raw: Array) -> Array:
    """Positive, and one at zero, as the slope at the boundary is."""
    unit = float(np.log(np.expm1(1 - SMALLEST_SLOPE)))
    return jax.nn.softplus(raw + unit) + SMALLEST_SLOPE
