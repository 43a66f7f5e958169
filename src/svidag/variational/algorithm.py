"""Algorithm 1 of the paper: Stein particles over orders, a flow over edges, Bayesian networks.

One forward and backward pass over the K particles gives the gradient for the networks φ and the
score of every particle together: the bound is differentiated once with respect to φ, to the
potentials (through the flow's condition) and to the relaxed masks, and the masks' cotangents are
pulled back to the potentials by the same linear maps that the kernel's repulsion uses.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from svidag.kernels import noise
from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.relaxation import relax
from svidag.run.loop import REJECTIONS, Algorithm
from svidag.samplers.stein import Stein, direction, linearise
from svidag.variational.descent import Rule, adam, descend, guarded
from svidag.variational.guide import BernoulliGuide, FlowGuide, MeanFieldGuide
from svidag.variational.published_bound import (
    Beliefs,
    Networks,
    Relaxing,
    Rows,
    Terms,
    conditional_bound,
)
from svidag.variational.settings import PublishedSettings


class GaussianOrders(eqx.Module):
    """q(r) = N(mean, softplus(rho)²), the guide over potentials without Stein particles."""

    mean: Float[Array, " m"]
    rho: Float[Array, " m"]

    def sample(self, key: Array, count: int) -> Float[Array, "K m"]:
        """Reparameterised draws."""
        drawn = noise.normal(key, (count, self.mean.shape[0]))
        return self.mean[None] + self.scale[None] * drawn

    @property
    def scale(self) -> Float[Array, " m"]:
        """Standard deviations."""
        return jax.nn.softplus(self.rho)

    def kl(self, prior_scale: float) -> Float[Array, ""]:
        """KL(q(r) ‖ N(0, σ_r²))."""
        scale = self.scale / prior_scale
        shift = self.mean / prior_scale
        return 0.5 * jnp.sum(scale**2 + shift**2 - 1 - 2 * jnp.log(scale))


class State(eqx.Module):
    """Everything that a step changes."""

    orders: Float[Array, "K m"] | GaussianOrders
    networks: Networks
    optimiser: Any
    order_optimiser: Any
    count: Int[Array, ""]
    rejected: Int[Array, ""]


class Published(Algorithm[State]):
    """Algorithm 1 on a data set, with the networks it starts from."""

    rows: Rows
    beliefs: Beliefs
    start: Networks
    settings: PublishedSettings = eqx.field(static=True)

    @classmethod
    def build(
        cls, rows: Rows, beliefs: Beliefs, settings: PublishedSettings, seed: int
    ) -> Published:
        """Prepare the algorithm with networks drawn by the seed."""
        return cls(rows, beliefs, _networks(seed, beliefs, settings), settings)

    def complete(self, networks: Networks) -> Networks:
        """Trained parameters put back into the networks' structure."""
        return eqx.combine(networks, eqx.partition(self.start, eqx.is_inexact_array)[1])

    def init(self, key: Array) -> State:
        """Networks at their start, potentials from the prior in an order that is feasible."""
        networks, _ = eqx.partition(self.start, eqx.is_inexact_array)
        m = self.rows.values.shape[1]
        scale = self.settings.potential_scale
        if self.settings.orders == "gaussian":
            unit = float(np.log(np.expm1(scale)))
            orders = GaussianOrders(
                *jax.device_put([np.zeros(m, np.float32), np.full(m, unit, np.float32)])
            )
        else:
            drawn = scale * _antithetic(key, self.settings.particles, m)
            orders = jax.device_put(feasible_potentials(drawn, np.asarray(self.beliefs.required)))
        optimiser: Any = _optimiser(self.settings).init(networks)
        order_optimiser: Any = _order_optimiser(self.settings).init(orders)
        none = jax.device_put(np.int32(0))
        return State(orders, networks, optimiser, order_optimiser, none, none)

    def step(self, state: State, key: Array) -> tuple[State, dict[str, Array]]:
        """One iteration; where a gradient is not finite, the state stays as it was."""
        if isinstance(state.orders, GaussianOrders):
            gradients = self._gaussian(state.networks, state.orders, key, self._tau(state.count))
        else:
            gradients = self._stein(state.networks, state.orders, key, self._tau(state.count))
        networks_gradient, orders_gradient, info = gradients
        with jax.named_scope("optimiser"):
            state = self._follow(state, networks_gradient, orders_gradient, info["bound"])
        return state, {**info, REJECTIONS: state.rejected}

    def _follow(
        self, state: State, networks_gradient: Any, orders_gradient: Any, bound: Array
    ) -> State:
        finite = jnp.isfinite(bound) & _finite(networks_gradient) & _finite(orders_gradient)
        networks, optimiser = descend(
            _optimiser(self.settings), networks_gradient, state.optimiser, state.networks, finite
        )
        orders, order_optimiser = descend(
            _order_optimiser(self.settings),
            orders_gradient,
            state.order_optimiser,
            state.orders,
            finite,
        )
        if not isinstance(state.orders, GaussianOrders):
            possible = jax.vmap(self.beliefs.feasible)(orders)
            orders = jnp.where(possible[:, None], orders, state.orders)
        rejected = jnp.where(finite, 0, state.rejected + 1)
        return State(orders, networks, optimiser, order_optimiser, state.count + 1, rejected)

    @property
    def figures(self) -> tuple[str, ...]:
        """The bound and its terms, and what tells about the particles."""
        orders = "potentials" if self.settings.orders == "gaussian" else "bandwidth"
        clipped = () if self.settings.orders == "gaussian" else ("clipped",)
        own = ("bound", *Terms._fields, "edges", "row_error", "spread", orders, *clipped)
        return (*own, REJECTIONS)

    def _tau(self, count: Int[Array, ""]) -> Float[Array, ""]:
        s = self.settings
        done = jnp.minimum(count.astype(jnp.float32) / s.iterations, 1.0)
        return s.tau_initial + (s.tau - s.tau_initial) * done

    def _bound(self, networks, r, masks, key):
        """The bound averaged over particles, with the mean of each of its terms."""
        terms, edges = conditional_bound(
            self.complete(networks),
            self.beliefs,
            self.rows,
            r,
            masks,
            key,
            _relaxing(self.settings),
        )
        return terms.total, (terms, edges)

    def _stein(self, networks: Networks, r: Float[Array, "K m"], key: Array, tau: Array):
        s = self.settings

        def relaxed(r):
            relaxation = relax(r, tau, s.sinkhorn)
            return relaxation.mask, relaxation.row_error

        with jax.named_scope("order"):
            features = linearise(relaxed, r, has_aux=True)

        def objective(networks, r, masks):
            total, aux = self._bound(networks, r, masks, key)
            return total.mean(), aux

        gradient, aux = jax.grad(objective, argnums=(0, 1, 2), has_aux=True)(
            networks, r, features.values
        )
        with jax.named_scope("order"):
            per_particle = len(r) * (gradient[1] + features.pull(gradient[2]))
        with jax.named_scope("kernel"):
            scores = per_particle - r / s.potential_scale**2
            move = direction(scores, features, Stein(score_clip=s.particle_clip))
        info = _info(*aux) | {
            "bandwidth": move.bandwidth,
            "clipped": move.clipped,
            "row_error": features.aux.max(),
            "spread": jnp.std(r, axis=0).mean(),
        }
        return jax.tree.map(jnp.negative, gradient[0]), -move.direction, info

    def _gaussian(self, networks: Networks, orders: GaussianOrders, key: Array, tau: Array):
        s = self.settings
        key_orders, key_bound = noise.split(key, 2)

        def objective(networks, orders):
            r = orders.sample(key_orders, s.particles)
            relaxation = jax.vmap(lambda r: relax(r, tau, s.sinkhorn))(r)
            total, aux = self._bound(networks, r, relaxation.mask, key_bound)
            # Draws that a required edge rules out do not belong to the guide.
            possible = jax.vmap(self.beliefs.feasible)(r).astype(total.dtype)
            mean = jnp.sum(possible * total) / jnp.maximum(possible.sum(), 1.0)
            kl = orders.kl(s.potential_scale)
            return kl - mean, (aux, kl, relaxation.row_error.max())

        gradient, (aux, kl, row_error) = jax.grad(objective, argnums=(0, 1), has_aux=True)(
            networks, orders
        )
        info = _info(*aux)
        info["bound"] = info["bound"] - kl
        info |= {"potentials": -kl, "row_error": row_error, "spread": orders.scale.mean()}
        return gradient[0], gradient[1], info


def feasible_potentials(
    r: Float[np.ndarray, "K m"], required: Bool[np.ndarray, "m m"]
) -> Float[np.ndarray, "K m"]:
    """The same potentials, handed out so that every required cause comes before its effect.

    Walks down the sorted potentials; each goes to the free variable with the highest of its own,
    so a feasible order stays as it is.
    """
    out = np.empty_like(r)
    for particle, row in zip(out, r, strict=True):
        waiting = required.sum(axis=0)
        free = np.ones(len(row), dtype=bool)
        for value in np.sort(row)[::-1]:
            ready = np.flatnonzero(free & (waiting == 0))
            node = ready[row[ready].argmax()]
            particle[node] = value
            free[node] = False
            waiting = waiting - required[node]
    return out


def _antithetic(key: Array, count: int, m: int) -> Float[np.ndarray, "K m"]:
    """Standard normal potentials in pairs r and −r, so that no order is favoured by chance."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    half = rng.standard_normal(((count + 1) // 2, m), np.float32)
    return np.stack([half, -half], axis=1).reshape(-1, m)[:count]


def _networks(seed: int, beliefs: Beliefs, s: PublishedSettings) -> Networks:
    m = len(beliefs.alpha)
    odds = np.log(np.asarray(beliefs.alpha) / np.asarray(beliefs.beta))
    start = np.where(np.eye(m, dtype=bool), np.float32(0), odds)
    if s.edges == "bernoulli":
        edges = BernoulliGuide(jax.device_put(start))
    elif s.edges == "mean-field":
        edges = MeanFieldGuide(m, location=start)
    else:
        edges = FlowGuide(
            m,
            family=s.edges,
            blocks=s.blocks,
            bins=s.bins,
            boundary=s.boundary,
            width=s.width,
            location=start,
            key=noise.seeded(seed, 2),
        )
    mechanism = MLPMechanism(
        m,
        hidden=tuple(s.hidden),
        hyper=tuple(s.hyper),
        condition=s.condition,
        key=noise.seeded(seed, 3),
    )
    return Networks(edges, mechanism)


def _relaxing(s: PublishedSettings) -> Relaxing:
    """How the bound is estimated."""
    return Relaxing(s.temperature, s.batch, s.draws, s.edge_gradient)


def _optimiser(s: PublishedSettings) -> Rule:
    return guarded(s.optimiser) if s.optimiser else adam(s.learning_rate, s.gradient_clip)


def _order_optimiser(s: PublishedSettings) -> Rule:
    if s.particle_optimiser is not None:
        return guarded(s.particle_optimiser)
    if s.orders == "stein":
        return guarded(optax.sgd(s.particle_rate))
    return adam(s.learning_rate, float("inf"))


def _info(terms, edges) -> dict[str, Array]:
    means = {name: value.mean() for name, value in terms._asdict().items()}
    return {"bound": terms.total.mean(), **means, "edges": edges.mean()}


def _finite(gradient: Any) -> Array:
    """Whether a gradient can be followed: its sum of squares overflows or is NaN if it cannot."""
    return jnp.isfinite(optax.tree.norm(gradient, squared=True))
