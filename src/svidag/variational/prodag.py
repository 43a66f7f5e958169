"""ProDAG: a Gaussian over weighted graphs, projected onto acyclic ones (Thompson et al. 2024).

Before the projection all weights are independent, w̃ ~ N(0, 1) a priori and q(w̃) = N(μ, σ²)
afterwards, σ = softplus(ρ). The strength of i in j is |w̃_ij|, or the norm of the weights with which
the network of j reads i; `svidag.orders.projection` makes strengths W without cycles of them, and
the weights are multiplied by W_ij over their strength. Steps follow

    KL(q ‖ p)/N − E_q[log p(X | W)]/N,    x_j = f_j(x; W) + σ₀ ε_j.

The divergence is of w̃, which bounds that of W from above.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from svidag.kernels import noise
from svidag.kernels.descent import adam, descend
from svidag.mechanisms.moments import quadratic_forms, second_moments
from svidag.networks.node_mlp import NodeMLP
from svidag.orders.projection import CentralPath, Support, acyclic_support, project
from svidag.run.loop import HostAlgorithm, compiled
from svidag.variational.prodag_settings import ProDAGSettings

ACTIVATIONS_AT_ONCE = 8_000_000  # hidden activations of all draws: 32 MB an array
UNIT = float(np.log(np.expm1(1.0)))  # softplus(UNIT) = 1


class WeightGuide(eqx.Module):
    """q(w̃): means, and what softplus makes scales of, both in the structure of the networks.

    The weights of a linear mechanism are networks with one layer and no bias.
    """

    mean: NodeMLP
    rho: NodeMLP

    @classmethod
    def start(cls, m: int, hidden: int | None) -> WeightGuide:
        """The prior itself; `hidden` units, or None for linear mechanisms."""
        wide = 1 if hidden is None else hidden
        weights, biases = [(m, m, wide)], []
        if hidden is not None:
            weights, biases = [*weights, (m, wide, 1)], [(m, wide), (m, 1)]

        def filled(value: float) -> NodeMLP:
            arrays = [
                tuple(jax.device_put(np.full(shape, value, np.float32)) for shape in shapes)
                for shapes in (weights, biases)
            ]
            return NodeMLP(*arrays)

        return cls(filled(0.0), filled(UNIT))

    def sample(self, key: Array, draws: int) -> NodeMLP:
        """w̃ = μ + σ ε, with the draws as leading axis."""
        leaves, tree = jax.tree.flatten(self.mean)
        keys = noise.split(key, len(leaves))
        epsilon = tree.unflatten(
            [noise.normal(k, (draws, *x.shape)) for k, x in zip(keys, leaves, strict=True)]
        )
        return jax.tree.map(
            lambda mean, rho, e: mean[None] + jax.nn.softplus(rho)[None] * e,
            self.mean,
            self.rho,
            epsilon,
        )

    def kl(self) -> Float[Array, ""]:
        """KL(q ‖ N(0, I))."""

        def one(mean, rho):
            scale = jax.nn.softplus(rho)
            return (0.5 * (scale**2 + mean**2 - 1) - jnp.log(scale)).sum()

        return sum(jax.tree.leaves(jax.tree.map(one, self.mean, self.rho)), jnp.zeros(()))


class Evidence(eqx.Module):
    """Rows, and which entries count as evidence about their own causes.

    Attributes
    ----------
    values, observed
        The rows; for linear mechanisms they are not used.
    moments
        Σ x xᵀ over the rows that count for each variable, over N; one for all where all count.
    """

    values: Float[Array, "N m"]
    observed: Bool[Array, "N m"]
    moments: Float[Array, "g m m"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "N m"], observed: Bool[np.ndarray, "N m"]) -> Evidence:
        """What a table says."""
        moments = second_moments(values, observed) / len(values)
        arrays = (values.astype(np.float32), observed, moments.astype(np.float32))
        return cls(*jax.device_put(arrays))

    def errors(self, weights: NodeMLP, factor: Float[Array, "m m"]) -> Float[Array, ""]:
        """Σ (x_j − f_j(x))² over all entries that count, over N, for one draw of the weights."""
        if len(weights.weights) == 1:
            residual = jnp.eye(len(factor)) - weights.weights[0][:, :, 0].T * factor
            return quadratic_forms(residual, self.moments).sum()
        error = jnp.where(self.observed, self.values - weights(factor, self.values), 0.0)
        return jnp.sum(error**2) / len(self.values)


class ProDAGState(eqx.Module):
    """Everything that a step changes.

    `best` is the lowest loss so far, `stale` counts steps since then, `rejected` those in a row
    that were not finite.
    """

    guide: WeightGuide
    optimiser: Any
    best: Float[Array, ""]
    stale: Int[Array, ""]
    rejected: Int[Array, ""]
    stopped: Bool[Array, ""]


class ProDAGInfo(NamedTuple):
    """The metrics of a step.

    `bound` is the ELBO; `edges` the mean number of arrows; `broken` the arrows that were removed
    from cycles, a draw; `empty` the draws without any arrow; `zero_strengths` the allowed pairs of
    strength 0; `guarded` the shortened steps of the projection; `stopped` whether the fit had
    ended.
    """

    bound: Any
    log_likelihood: Any
    edges: float
    broken: float
    empty: int
    zero_strengths: int
    guarded: int
    rejected: Any
    stopped: bool


NAN = float("nan")
NOTHING = ProDAGInfo(NAN, NAN, NAN, 0.0, 0, 0, 0, 0, True)
"""The metrics of a step after the end."""


class ProDAG(HostAlgorithm[ProDAGState]):
    """ProDAG on a table; the projection runs on the host, between two compiled parts."""

    def __init__(
        self,
        evidence: Evidence,
        allowed: Bool[np.ndarray, "m m"],
        required: Bool[np.ndarray, "m m"],
        mechanism: str,
        settings: ProDAGSettings,
    ) -> None:
        self.evidence = evidence
        self.allowed, self.required = allowed, required
        self.mechanism, self.settings = mechanism, settings
        self.path = central_path(settings, mechanism, final=False)
        radius = settings.radius
        self.radius = float("inf") if radius is None or isinstance(radius, str) else float(radius)

    def init(self, key: Array) -> ProDAGState:
        """The guide at the prior."""
        del key  # the start is not random
        hidden = None if self.mechanism == "linear" else self.settings.hidden
        guide = WeightGuide.start(len(self.allowed), hidden)
        optimiser: Any = _optimiser(self.settings).init(guide)
        zero, no = np.int32(0), np.asarray(False)
        rest = jax.device_put((np.float32(np.inf), zero, zero, no))
        return ProDAGState(guide, optimiser, *rest)

    def step(self, state: ProDAGState, key: Array) -> tuple[ProDAGState, ProDAGInfo]:
        """One step; none where patience has come to its end."""
        if bool(state.stopped):
            return state, NOTHING
        draws = self.settings.step_draws
        strengths = np.asarray(_strengths(state.guide, key, draws))
        support = acyclic_support(strengths, self.allowed, self.required, self.path)
        moved, (loss, log_likelihood) = _advance(
            state,
            self.evidence,
            key,
            jnp.asarray(support.kept),
            jnp.asarray(self.required),
            self.radius,
            self.settings,
        )
        bound = -float(loss) * len(self.evidence.values)
        edges = support.kept.sum(axis=(1, 2))
        info = ProDAGInfo(
            bound=bound,
            log_likelihood=float(log_likelihood),
            edges=float(edges.mean()),
            broken=float(support.broken.mean()),
            empty=int((edges == 0).sum()),
            zero_strengths=int((strengths[:, self.allowed] == 0).sum()),
            guarded=int(support.guarded.sum()),
            rejected=int(moved.rejected),
            stopped=False,
        )
        return moved, info


def _optimiser(settings: ProDAGSettings) -> Any:
    return adam(settings.learning_rate, float("inf"))


def _strength(weights: NodeMLP) -> Float[Array, "*S m m"]:
    """‖weights with which j reads i‖ at [i, j]."""
    squares = jnp.sum(weights.weights[0] ** 2, axis=-1)
    # The root has no derivative at zero; what is zero stays there.
    safe = jnp.where(squares > 0, squares, 1.0)
    return jnp.where(squares > 0, jnp.sqrt(safe), 0.0).swapaxes(-1, -2)


def factors(
    weights: NodeMLP,
    kept: Bool[Array, "*S m m"],
    required: Bool[Array, "m m"],
    radius: Float[Array, ""],
) -> Float[Array, "*S m m"]:
    """W_ij over its strength before the projection: 0 where that is 0, 1 for required arrows."""
    strength = _strength(weights)
    fixed = jnp.broadcast_to(required, strength.shape)
    safe = jnp.where(strength > 0, strength, 1.0)
    return jnp.where(fixed, 1.0, project(strength, kept & ~fixed, radius) / safe)


@compiled
def _strengths(guide: WeightGuide, key: Array, draws: int) -> Float[Array, "S m m"]:
    return _strength(guide.sample(key, draws))


@compiled
def _advance(
    state: ProDAGState,
    evidence: Evidence,
    key: Array,
    kept: Bool[Array, "S m m"],
    required: Bool[Array, "m m"],
    radius: float,
    settings: ProDAGSettings,
) -> tuple[ProDAGState, tuple[Array, Array]]:
    """The state after a step with these supports, the loss, and E[log p(X | W)]."""
    N, m = evidence.values.shape
    entries = evidence.observed.sum().astype(jnp.float32)
    constant = -0.5 * entries * np.log(2 * np.pi * settings.noise**2).astype(np.float32)
    limit = jnp.asarray(radius, jnp.float32)
    block = _block(len(kept), N, m, state.guide)

    def errors(guide, kept, weights_key):
        """Mean of the errors over all draws, a block of them at a time."""
        weights = guide.sample(weights_key, len(kept))

        def one(weights, kept):
            return evidence.errors(weights, factors(weights, kept, required, limit))

        at_once = jax.vmap(one)
        if block == len(kept):
            return at_once(weights, kept).mean()
        parts = jax.tree.map(lambda x: x.reshape(-1, block, *x.shape[1:]), (weights, kept))
        return jax.lax.map(lambda part: jax.checkpoint(at_once)(*part), parts).mean()

    def loss(guide):
        likelihood = constant - 0.5 * N * errors(guide, kept, key) / settings.noise**2
        return (guide.kl() - likelihood) / N, likelihood

    (value, likelihood), gradient = jax.value_and_grad(loss, has_aux=True)(state.guide)
    finite = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient, squared=True))
    better = value < state.best
    stale = jnp.where(better, 0, state.stale + 1)
    patience = settings.patience
    stopped = jnp.asarray(False) if patience is None else stale >= patience
    guide, optimiser = descend(
        _optimiser(settings), gradient, state.optimiser, state.guide, finite & ~stopped
    )
    rejected = jnp.where(finite, 0, state.rejected + 1)
    best = jnp.where(better, value, state.best)
    return ProDAGState(guide, optimiser, best, stale, rejected, stopped), (value, likelihood)


def _block(draws: int, rows: int, m: int, guide: WeightGuide) -> int:
    """Draws to compute at once: a divisor of their number, all of them for linear mechanisms."""
    if len(guide.mean.weights) == 1:
        return draws
    most = ACTIVATIONS_AT_ONCE // (rows * m * guide.mean.weights[0].shape[-1])
    return max(size for size in range(1, draws + 1) if draws % size == 0 and size <= max(most, 1))


class ProjectedDraws(NamedTuple):
    """Weights before the projection, what it keeps of them, and which arrows are required."""

    weights: NodeMLP
    support: Support
    required: Bool[np.ndarray, "m m"]

    def strengths(self, radius: float) -> Float[np.ndarray, "S m m"]:
        """The strengths W of the draws in the ℓ1 ball of a radius."""
        return np.asarray(_strengths_within(*self._arrays(None), jnp.asarray(radius, jnp.float32)))

    def error(self, evidence: Evidence, radius: float, most: int) -> float:
        """The squared error of these rows, averaged over rows and at most so many draws."""
        limit = jnp.asarray(radius, jnp.float32)
        return float(_mean_error(*self._arrays(most), limit, evidence))

    def _arrays(self, most: int | None) -> tuple[NodeMLP, Array, Array]:
        weights = jax.tree.map(lambda x: x[:most], self.weights)
        return weights, jnp.asarray(self.support.kept[:most]), jnp.asarray(self.required)


def central_path(settings: ProDAGSettings, mechanism: str, *, final: bool) -> CentralPath:
    """The projection of steps, or of final draws."""
    return CentralPath(
        settings.solver,
        settings.tolerance if final else settings.step_tolerance,
        rate=1.0 if mechanism == "linear" else 0.25,
        threshold=settings.threshold,
        break_cycles=final or settings.acyclic_steps,
    )


def draw_projected(
    guide: WeightGuide,
    allowed: Bool[np.ndarray, "m m"],
    required: Bool[np.ndarray, "m m"],
    path: CentralPath,
    key: Array,
    draws: int,
) -> ProjectedDraws:
    """Draws of the guide, projected."""
    weights = _sample(guide, key, draws)
    support = acyclic_support(np.asarray(_strength(weights)), allowed, required, path)
    return ProjectedDraws(weights, support, required)


@partial(jax.jit, static_argnums=2)
def _sample(guide: WeightGuide, key: Array, draws: int) -> NodeMLP:
    return guide.sample(key, draws)


@jax.jit
def _strengths_within(weights, kept, required, radius):
    return factors(weights, kept, required, radius) * _strength(weights)


@jax.jit
def _mean_error(weights, kept, required, radius, evidence):
    def one(pair):
        weights, kept = pair
        return evidence.errors(weights, factors(weights, kept, required, radius))

    return jax.lax.map(one, (weights, kept)).mean()
