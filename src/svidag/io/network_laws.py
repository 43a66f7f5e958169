"""Parts of the published preset's guide and mechanisms.

A network is rebuilt from its settings and then given its saved leaves, which must agree with it in
name, shape and type; the settings are held against the leaves first, so that a file cannot ask
for networks larger than itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from math import isqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from svidag.guide import BernoulliGuide, FlowGuide, FlowSettings, MeanFieldGuide
from svidag.inference.fitted import GuideLaw, NetworkLaw
from svidag.inference.published import GaussianOrders
from svidag.io.laws import pack_scaling, unpack_scaling
from svidag.mechanisms.mlp import MLPMechanism
from svidag.objective import Beliefs, Networks
from svidag.problem import Problem


def pack_guide(law: GuideLaw, problem: Problem | None) -> dict[str, Any]:
    """Networks, orders and beliefs."""
    orders = law.orders
    if isinstance(orders, GaussianOrders):
        orders = {"mean": orders.mean, "rho": orders.rho}
    beliefs = law.beliefs
    return {
        "networks": _pack_networks(law.networks),
        "orders": orders,
        "beliefs": (beliefs.alpha, beliefs.beta, beliefs.allowed, beliefs.required),
    }


def unpack_guide(parts: Mapping[str, Any], problem: Problem | None) -> GuideLaw:
    """The guide over graphs."""
    orders = parts["orders"]
    if isinstance(orders, dict):
        orders = GaussianOrders(jnp.asarray(orders["mean"]), jnp.asarray(orders["rho"]))
    else:
        orders = jnp.asarray(orders)
    beliefs = Beliefs(*map(jnp.asarray, parts["beliefs"]))
    return GuideLaw(_unpack_networks(parts["networks"]), orders, beliefs)


def pack_networks(law: NetworkLaw, problem: Problem | None) -> dict[str, Any]:
    """Networks, and the units of the table."""
    return {"networks": _pack_networks(law.networks), "scaling": pack_scaling(law.scaling)}


def unpack_networks(parts: Mapping[str, Any], problem: Problem | None) -> NetworkLaw:
    """The guide over parameters."""
    return NetworkLaw(_unpack_networks(parts["networks"]), unpack_scaling(parts["scaling"]))


def _pack_networks(networks: Networks) -> dict[str, Any]:
    mechanism = networks.mechanism
    return {
        "edges": _pack_edges(networks.edges),
        "mechanism": {
            "hyper": tuple(bias.shape[1] for bias in mechanism.trunk_biases),
            **{name: getattr(mechanism, name) for name in ("widths", *_MECHANISM)},
            "leaves": _leaves(mechanism),
        },
    }


def _unpack_networks(parts: Mapping[str, Any]) -> Networks:
    return Networks(_unpack_edges(parts["edges"]), _unpack_mechanism(parts["mechanism"]))


_MECHANISM = (
    "condition",
    "prior_scale",
    "noise_location",
    "noise_spread",
    "scale_floor",
    "variance_floor",
)


def _unpack_mechanism(parts: Mapping[str, Any]) -> MLPMechanism:
    (m, *hidden, _), hyper = parts["widths"], tuple(parts["hyper"])
    inputs = m if parts["condition"] == "column" else m * m
    outputs = sum((a + 1) * b for a, b in pairwise(parts["widths"]))
    trunk = sum(a * b for a, b in pairwise((inputs, *hyper)))
    _require_room(m * (trunk + 2 * outputs), parts["leaves"])
    skeleton = MLPMechanism(
        m,
        hidden=tuple(hidden),
        hyper=hyper,
        key=jr.key(0),
        **{name: parts[name] for name in _MECHANISM},
    )
    return _filled(skeleton, parts["leaves"])


def _pack_edges(guide: Any) -> dict[str, Any]:
    if isinstance(guide, BernoulliGuide):
        return {"guide": "bernoulli", "logits": guide.logits}
    if isinstance(guide, MeanFieldGuide):
        return {"guide": "mean-field", "leaves": _leaves(guide)}
    if not isinstance(guide.family, str):
        raise ValueError(
            f"a guide with a flow of your own ({guide.family}) cannot be saved; "
            "only the families that have a name can be built again"
        )
    return {
        "guide": "flow",
        "family": guide.family,
        "settings": asdict(guide.settings),
        "leaves": _leaves(guide),
    }


def _unpack_edges(parts: Mapping[str, Any]) -> BernoulliGuide | FlowGuide | MeanFieldGuide:
    if parts["guide"] == "bernoulli":
        return BernoulliGuide(jnp.asarray(parts["logits"]))
    leaves = parts["leaves"]
    if parts["guide"] == "mean-field":
        return _filled(MeanFieldGuide(_variables(leaves[".location"])), leaves)
    m = _variables(next(leaf for name, leaf in leaves.items() if name.endswith(".loc")))
    family, settings = parts["family"], FlowSettings(**parts["settings"])
    bends = settings.bins if family.startswith("spline") else 1
    wide = m * (m - 1) // 2 * (1 + bends) + max(settings.depth - 1, 0) * settings.width
    _require_room(settings.blocks * settings.width * wide, leaves)

    def build() -> FlowGuide:
        return FlowGuide(m, family=family, **parts["settings"], key=None)

    # Shapes need no compilation; but flowjax's own layers keep arrays inside functions.
    own = family == "spline-coupling"
    return _filled(eqx.filter_eval_shape(build) if own else build(), leaves)


def _variables(pairs: np.ndarray) -> int:
    """The m of m(m − 1) ordered pairs."""
    return (1 + isqrt(1 + 4 * len(pairs))) // 2


def _require_room(least: int, leaves: Mapping[str, np.ndarray]) -> None:
    if least > sum(leaf.size for leaf in leaves.values()):
        raise ValueError("the settings of a network ask for more parameters than there are")


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array | jax.ShapeDtypeStruct)


def _leaves(tree: Any) -> dict[str, Any]:
    """Every array of a module, by its path."""
    found = jax.tree.leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def _filled(skeleton: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """The module with saved arrays in place of its own."""
    arrays, rest = eqx.partition(skeleton, _is_array)
    wanted = _leaves(skeleton)
    if wanted.keys() != leaves.keys():
        raise ValueError(
            f"a network has the parameters {sorted(leaves)}; expected {sorted(wanted)}"
        )
    for name, leaf in wanted.items():
        if (leaf.shape, leaf.dtype) != (leaves[name].shape, leaves[name].dtype):
            raise ValueError(f"a network's {name} has the shape {leaves[name].shape}")
    filled = [jnp.asarray(leaves[name]) for name in wanted]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), filled), rest)
