"""Conditional flows by family: bijections z → γ whose conditioners see the order.

Every family starts as a permutation of the coordinates, since the last layer of each conditioner is
zero. flowjax keeps some parameters unconstrained inside wrappers (paramax); its bijections unwrap
themselves when called.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import MappingProxyType

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import (
    AbstractBijection,
    Affine,
    Chain,
    Coupling,
    Flip,
    Permute,
    RationalQuadraticSpline,
    Scan,
)
from flowjax.distributions import StandardNormal
from flowjax.flows import masked_autoregressive_flow
from jaxtyping import PRNGKeyArray

from svidag.kernels.coupling import SplineCoupling
from svidag.run.streams import host_generator

__all__ = ["FAMILIES", "FlowFamily", "FlowSettings", "conditional_flow", "undrawn_flow"]


@dataclass(frozen=True)
class FlowSettings:
    """What a flow family may use: number of blocks, spline bins on ±boundary, conditioner size.

    Examples
    --------
    >>> import jax.random as jr
    >>> settings = FlowSettings(blocks=2, bins=8, boundary=5.0, width=16, depth=1)
    >>> FAMILIES["affine-coupling"](6, 3, settings).shape
    (6,)
    """

    blocks: int
    bins: int
    boundary: float
    width: int
    depth: int


FlowFamily = Callable[[int, int, FlowSettings], AbstractBijection]


def spline_coupling(dim: int, condition_dim: int, settings: FlowSettings) -> AbstractBijection:
    """Half of the coordinates bend the other half: the paper's neural spline coupling flow."""
    return SplineCoupling(dim, condition_dim, **asdict(settings))


def affine_coupling(dim: int, condition_dim: int, settings: FlowSettings) -> AbstractBijection:
    """Coupling blocks that shift and scale (RealNVP)."""
    return _coupling(Affine(), dim, condition_dim, settings)


def masked_autoregressive(
    dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    """Inverse autoregressive blocks that shift and scale: a draw is one pass, a density is D."""
    return _autoregressive(Affine(), dim, condition_dim, settings)


def spline_autoregressive(
    dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    """Inverse autoregressive blocks whose transformer is the spline."""
    return _autoregressive(_spline(settings), dim, condition_dim, settings)


def _spline(settings: FlowSettings) -> RationalQuadraticSpline:
    return RationalQuadraticSpline(knots=settings.bins - 1, interval=settings.boundary)


def _coupling(
    transformer: AbstractBijection, dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    """Coupling blocks, each followed by a fixed permutation, scanned.

    Put together from flowjax's layers with empty conditioners: its own `coupling_flow` draws them
    one operation at a time, which takes seconds, and `_redraw` fills them anyway.
    """
    half, width, depth = dim // 2, settings.width, settings.depth
    block = Coupling(
        jr.key(0),
        transformer=transformer,
        untransformed_dim=half,
        dim=dim,
        cond_dim=condition_dim,
        nn_width=1,
        nn_depth=0,
    )
    outputs = block.conditioner.out_size
    empty = eqx.filter_eval_shape(
        eqx.nn.MLP, half + condition_dim, outputs, width, depth, jax.nn.relu, key=jr.key(0)
    )
    stacked = jax.tree.map(
        lambda leaf: (
            np.zeros((settings.blocks, *leaf.shape), leaf.dtype)
            if isinstance(leaf, jax.ShapeDtypeStruct)
            else leaf
        ),
        empty,
    )
    block = eqx.tree_at(lambda b: b.conditioner, block, stacked)
    return Scan(Chain([block, _permutations(dim, settings.blocks)]))


def _permutations(dim: int, blocks: int) -> AbstractBijection:
    """One permutation of the coordinates for each block."""
    if dim == 2:
        return Flip((dim,))
    rng = np.random.default_rng(0)
    order = np.stack([rng.permutation(dim) for _ in range(blocks)])
    inverse = np.argsort(order, axis=1)
    return eqx.tree_at(
        lambda p: (p.permutation, p.inverse_permutation),
        Permute(np.arange(dim)),
        ((jnp.asarray(order),), (jnp.asarray(inverse),)),
    )


def _autoregressive(
    transformer: AbstractBijection, dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    # invert=False makes z → γ the direction without an inverse.
    return masked_autoregressive_flow(
        jr.key(0),
        base_dist=StandardNormal((dim,)),
        transformer=transformer,
        cond_dim=condition_dim,
        flow_layers=settings.blocks,
        nn_width=settings.width,
        nn_depth=settings.depth,
        invert=False,
    ).bijection


FAMILIES: Mapping[str, FlowFamily] = MappingProxyType(
    {
        "spline-coupling": spline_coupling,
        "affine-coupling": affine_coupling,
        "masked-autoregressive": masked_autoregressive,
        "spline-autoregressive": spline_autoregressive,
    }
)


def conditional_flow(
    key: PRNGKeyArray,
    dim: int,
    condition_dim: int,
    settings: FlowSettings,
    family: str | FlowFamily = "spline-coupling",
) -> AbstractBijection:
    """A flow that starts as a permutation of the coordinates, whatever the condition.

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr
    >>> flow = conditional_flow(jr.key(0), 4, 2, FlowSettings(2, 8, 5.0, 16, 1))
    >>> moved = flow.transform(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.zeros(2))
    >>> bool(jnp.allclose(jnp.sort(moved), jnp.array([1.0, 2.0, 3.0, 4.0])))
    True
    """
    return _redraw(_template(_family(family), dim, condition_dim, settings), key)


def _family(family: str | FlowFamily) -> FlowFamily:
    if not isinstance(family, str):
        return family
    if family not in FAMILIES:
        known = ", ".join(map(repr, FAMILIES))
        raise ValueError(f"family must be one of {known} or a function; got {family!r}")
    return FAMILIES[family]


@lru_cache(maxsize=16)
def _template(
    family: FlowFamily, dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    """A flow whose weights do not matter. Guides of one shape share it, and so one compilation."""
    return undrawn_flow(family, dim, condition_dim, settings)


def undrawn_flow(
    family: str | FlowFamily, dim: int, condition_dim: int, settings: FlowSettings
) -> AbstractBijection:
    """A flow for its shapes: whatever its weights are.

    Examples
    --------
    >>> undrawn_flow("affine-coupling", 6, 3, FlowSettings(2, 8, 5.0, 16, 1)).shape
    (6,)
    """
    with jax.numpy_rank_promotion("allow"):  # flowjax's autoregressive masks rely on it
        return _family(family)(dim, condition_dim, settings)


def _redraw(flow: AbstractBijection, key: PRNGKeyArray) -> AbstractBijection:
    """Draw the weights of every conditioner (LeCun normal, zero biases), the last layer zero.

    flowjax's transformers are then the identity. NumPy draws: each JAX call would compile anew.
    """
    rng = host_generator(key)

    def filled(leaves, gain):
        def fill(leaf):
            spread = gain / np.sqrt(leaf.shape[-1])
            drawn = spread * rng.standard_normal(leaf.shape)
            return jax.device_put(drawn.astype(leaf.dtype))

        return jax.tree.map(lambda x: fill(x) if eqx.is_inexact_array_like(x) else x, leaves)

    def redraw(node):
        if isinstance(node, SplineCoupling):
            return node.redrawn(rng)
        if not isinstance(node, eqx.nn.MLP):
            return node
        last = len(node.layers) - 1
        layers = tuple(
            eqx.tree_at(
                lambda linear: (linear.weight, linear.bias),
                linear,
                (filled(linear.weight, float(i < last)), filled(linear.bias, 0.0)),
            )
            for i, linear in enumerate(node.layers)
        )
        return eqx.tree_at(lambda mlp: mlp.layers, node, layers)

    networks = (SplineCoupling, eqx.nn.MLP)
    return jax.tree.map(redraw, flow, is_leaf=lambda node: isinstance(node, networks))
