"""Structural equations of the published algorithm: networks drawn by the hypernetwork."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt8

from svidag.data import Scaling
from svidag.mechanisms.equations import Equations, schedule
from svidag.mechanisms.mlp import MLPMechanism, Parameters

_PARAMETERS_AT_ONCE = 4_000_000  # network parameters held at once: 16 MB
_GRAPHS_AT_ONCE = 64  # at most; the last batch is filled up, so that all have one shape


@dataclass(frozen=True, eq=False)
class NetworkEquations(Equations):
    """x_j = g_j(x_parents; θ_j) + σ_j ε_j with θ ~ q(θ | A), drawn anew from its key when asked."""

    graphs: UInt8[np.ndarray, "S m m"]
    mechanism: MLPMechanism
    keys: Key[Array, " S"]
    scaling: Scaling | None

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""
        values = rows if self.scaling is None else self.scaling.apply(rows)
        jacobian = 0.0 if self.scaling is None else np.log(self.scaling.scale).sum()
        x = jnp.asarray(values, jnp.float32)
        terms = [
            np.asarray(_log_likelihood(self.mechanism, graph.astype(np.float32), key, x))
            for graph, key in zip(self.graphs, self.keys, strict=True)
        ]
        return np.stack(terms).astype(float) - jacobian

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say, a batch of graphs at a time."""
        known = values if self.scaling is None else self.scaling.apply(values)
        known = np.where(np.isnan(known), 0.0, known).astype(np.float32)
        turns = schedule(self.order, nodes)
        parts = [
            np.asarray(
                _propagate(
                    self.mechanism,
                    self.graphs[part].astype(np.float32),
                    self.keys[part],
                    known[part],
                    noise[part].astype(np.float32),
                    turns[part].astype(np.int32),
                )
            )
            for part in self._batches()
        ]
        drawn = np.concatenate(parts)[: len(values)].astype(float)
        drawn = drawn if self.scaling is None else self.scaling.invert(drawn)
        return np.where(nodes[:, None], drawn, values)

    def _batches(self) -> Iterator[Int[np.ndarray, " batch"]]:
        room = _PARAMETERS_AT_ONCE // self.mechanism.mean_head[:, 0].size
        size = int(np.clip(room, 1, _GRAPHS_AT_ONCE))
        for start in range(0, len(self.graphs), size):
            yield np.minimum(np.arange(start, start + size), len(self.graphs) - 1)


@eqx.filter_jit
def draw_parameters(
    mechanism: MLPMechanism, graph: Float[Array, "m m"], keys: Key[Array, " n"]
) -> Parameters:
    """θ ~ q(θ | A) of one graph, once for each key; the draws are the leading axis."""
    return jax.vmap(mechanism.guide(graph).sample)(keys)


@eqx.filter_jit
def _log_likelihood(
    mechanism: MLPMechanism, graph: Float[Array, "m m"], key: PRNGKeyArray, x: Float[Array, "N m"]
) -> Float[Array, " N"]:
    theta = mechanism.guide(graph).sample(key)
    return mechanism.row_log_likelihood(theta, graph, x).sum(axis=-1)


@eqx.filter_jit
def _propagate(mechanism: MLPMechanism, *batch: Any) -> Float[Array, "batch R m"]:
    def one(graph, key, values, noise, turns):
        theta = mechanism.guide(graph).sample(key)
        scale = jnp.sqrt(mechanism.noise_variance(theta))

        def step(x, j):
            drawn = mechanism.predict_node(theta, graph, x, j) + scale[j] * noise[:, j]
            # A turn of −1 has no node: it writes back what is there.
            return x.at[:, j].set(jnp.where(j >= 0, drawn, x[:, j])), None

        return jax.lax.scan(step, values, turns)[0]

    return jax.vmap(one)(*batch)
