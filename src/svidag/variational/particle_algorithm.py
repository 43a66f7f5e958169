"""Algorithm 1 of the paper: Stein particles over orders, a guide over edges, any mechanism.

One forward and backward pass over the K particles gives the gradient for the networks φ and the
score of every particle together: the bound is differentiated once with respect to φ, to the
potentials (through the flow's condition) and to the relaxed masks, and the masks' cotangents are
pulled back to the potentials by the same linear maps that the kernel's repulsion uses.

Bayesian networks are part of the compiled step (`ParticleAlgorithm`). Mechanisms with their
parameters integrated out are scored on the host in float64 (`IntegratedParticles`): the graphs of
a step are drawn, scored with their changes by one edge, and drawn again for the gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from svidag.kernels import noise
from svidag.kernels.descent import Rule, adam, descend, guarded
from svidag.mechanisms.local import LocalScores
from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.relaxation import relax
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run import streams
from svidag.run.loop import CompiledAlgorithm, HostAlgorithm, compiled
from svidag.run.streams import Stream
from svidag.samplers.stein import SteinSettings, direction, linearise
from svidag.variational.guide import BernoulliGuide, FlowGuide, MeanFieldGuide
from svidag.variational.order_guide import (
    GaussianOrders,
    antithetic_potentials,
    feasible_potentials,
)
from svidag.variational.particle_bound import (
    BoundEstimation,
    BoundTerms,
    Evidence,
    Networks,
    Rows,
    conditional_bound,
    draw_edges,
)
from svidag.variational.settings import FLOWS, VariationalSettings


class ParticleState(eqx.Module):
    """Everything that a step changes."""

    orders: Float[Array, "K m"] | GaussianOrders
    networks: Networks
    optimiser: Any
    order_optimiser: Any
    count: Int[Array, ""]
    rejected: Int[Array, ""]


class ParticleInfo(NamedTuple):
    """How the particles moved: the kernel's bandwidth, and how many scores were shortened."""

    bandwidth: Float[Array, ""]
    clipped: Int[Array, ""]


class GaussianInfo(NamedTuple):
    """The term of the bound that a Gaussian guide over potentials adds: −KL(q(r) ‖ p(r))."""

    potentials: Float[Array, ""]


class BoundInfo(NamedTuple):
    """The metrics of one estimate of the bound.

    Attributes
    ----------
    bound, terms
        The bound and its terms, averaged over orders and draws.
    edges
        The mean number of edges.
    row_error
        The largest |row sum − 1| of the relaxed permutations.
    spread
        The standard deviation of a potential, averaged over variables.
    orders
        What concerns the guide over orders.
    """

    bound: Float[Array, ""]
    terms: BoundTerms
    edges: Float[Array, ""]
    row_error: Float[Array, ""]
    spread: Float[Array, ""]
    orders: ParticleInfo | GaussianInfo


class StepInfo(NamedTuple):
    """The metrics of a step: its estimate, and how many steps in a row were rejected so far."""

    estimate: BoundInfo
    rejected: Int[Array, ""]


class Gradients(NamedTuple):
    """The gradients to descend along, of the networks and of the orders, and their estimate."""

    networks: Networks
    orders: Any
    estimate: BoundInfo


class ParticleAlgorithm(CompiledAlgorithm[ParticleState]):
    """Algorithm 1 on a data set, with the networks it starts from."""

    rows: Rows
    prior: JaxEdgePrior
    start: Networks
    settings: VariationalSettings = eqx.field(static=True)

    @classmethod
    def build(
        cls,
        rows: Rows,
        prior: JaxEdgePrior,
        settings: VariationalSettings,
        seed: int,
        *,
        integrated: bool = False,
    ) -> ParticleAlgorithm:
        """Prepare the algorithm with networks drawn by the seed; `integrated` has no mechanism."""
        mechanism = None if integrated else _mechanism(seed, len(prior.alpha), settings)
        return cls(rows, prior, Networks(_edge_guide(seed, prior, settings), mechanism), settings)

    def complete(self, networks: Networks) -> Networks:
        """Trained parameters put back into the networks' structure."""
        return eqx.combine(networks, eqx.partition(self.start, eqx.is_inexact_array)[1])

    def init(self, key: Array) -> ParticleState:
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
            drawn = scale * antithetic_potentials(key, self.settings.particles, m)
            orders = jax.device_put(feasible_potentials(drawn, np.asarray(self.prior.required)))
        optimiser: Any = _optimiser(self.settings).init(networks)
        order_optimiser: Any = _order_optimiser(self.settings).init(orders)
        none = jax.device_put(np.int32(0))
        return ParticleState(orders, networks, optimiser, order_optimiser, none, none)

    def step(
        self, state: ParticleState, key: Array, evidence: Evidence | None = None
    ) -> tuple[ParticleState, StepInfo]:
        """One iteration; where a gradient is not finite, the state stays as it was.

        `evidence` of an integrated mechanism is about the graphs that `draw` gives for the key.
        """
        if isinstance(state.orders, GaussianOrders):
            gradients = self._gaussian(state, state.orders, key, evidence)
        else:
            gradients = self._stein(state, state.orders, key, evidence)
        with jax.named_scope("optimiser"):
            state = self._follow(state, gradients)
        return state, StepInfo(gradients.estimate, state.rejected)

    def _follow(self, state: ParticleState, gradients: Gradients) -> ParticleState:
        finite = (
            jnp.isfinite(gradients.estimate.bound)
            & _finite(gradients.networks)
            & _finite(gradients.orders)
        )
        networks, optimiser = descend(
            _optimiser(self.settings), gradients.networks, state.optimiser, state.networks, finite
        )
        orders, order_optimiser = descend(
            _order_optimiser(self.settings),
            gradients.orders,
            state.order_optimiser,
            state.orders,
            finite,
        )
        if not isinstance(state.orders, GaussianOrders):
            possible = jax.vmap(self.prior.feasible)(orders)
            orders = jnp.where(possible[:, None], orders, state.orders)
        rejected = jnp.where(finite, 0, state.rejected + 1)
        return ParticleState(
            orders, networks, optimiser, order_optimiser, state.count + 1, rejected
        )

    def draw(self, state: ParticleState, key: Array) -> Float[Array, "KS m m"]:
        """The graphs that a step with this key evaluates."""
        r: Any = state.orders
        if isinstance(r, GaussianOrders):
            key_orders, key = noise.split(key, 2)
            r = r.sample(key_orders, self.settings.particles)
        estimation = _estimation(self.settings)
        return draw_edges(self.complete(state.networks), self.prior, r, key, estimation).graph

    def _tau(self, count: Int[Array, ""]) -> Float[Array, ""]:
        s = self.settings
        done = jnp.minimum(count.astype(jnp.float32) / s.iterations, 1.0)
        return s.tau_initial + (s.tau - s.tau_initial) * done

    def _hardness(self, count: Int[Array, ""]) -> Float[Array, ""] | None:
        """w of the warm-up; None without one."""
        s = self.settings
        if not s.warm_up:
            return None
        return jnp.minimum(count.astype(jnp.float32) / (s.warm_up * s.iterations), 1.0)

    def _bound(self, networks, r, masks, key, count, evidence):
        """The bound averaged over particles, with the mean of each of its terms."""
        terms, edges = conditional_bound(
            self.complete(networks),
            self.prior,
            self.rows,
            r,
            masks,
            key,
            _estimation(self.settings),
            evidence=evidence,
            hardness=self._hardness(count),
        )
        return terms.total, (terms, edges)

    def _stein(
        self, state: ParticleState, r: Float[Array, "K m"], key: Array, evidence: Evidence | None
    ) -> Gradients:
        s, tau, networks = self.settings, self._tau(state.count), state.networks

        def relaxed(r):
            relaxation = relax(r, tau, s.sinkhorn)
            return relaxation.mask, relaxation.row_error

        with jax.named_scope("order"):
            features = linearise(relaxed, r, has_aux=True)

        def objective(networks, r, masks):
            total, aux = self._bound(networks, r, masks, key, state.count, evidence)
            return total.mean(), aux

        gradient, aux = jax.grad(objective, argnums=(0, 1, 2), has_aux=True)(
            networks, r, features.values
        )
        with jax.named_scope("order"):
            per_particle = len(r) * (gradient[1] + features.pull(gradient[2]))
        with jax.named_scope("kernel"):
            scores = per_particle - r / s.potential_scale**2
            move = direction(scores, features, SteinSettings(score_clip=s.particle_clip))
        terms, edges = aux
        estimate = BoundInfo(
            bound=terms.total.mean(),
            terms=_means(terms),
            edges=edges.mean(),
            row_error=features.aux.max(),
            spread=jnp.std(r, axis=0).mean(),
            orders=ParticleInfo(move.bandwidth, move.clipped),
        )
        return Gradients(jax.tree.map(jnp.negative, gradient[0]), -move.direction, estimate)

    def _gaussian(
        self, state: ParticleState, orders: GaussianOrders, key: Array, evidence: Evidence | None
    ) -> Gradients:
        s, tau, networks = self.settings, self._tau(state.count), state.networks
        key_orders, key_bound = noise.split(key, 2)

        def objective(networks, orders):
            r = orders.sample(key_orders, s.particles)
            relaxation = jax.vmap(lambda r: relax(r, tau, s.sinkhorn))(r)
            total, aux = self._bound(networks, r, relaxation.mask, key_bound, state.count, evidence)
            # Draws that a required edge rules out do not belong to the guide.
            possible = jax.vmap(self.prior.feasible)(r).astype(total.dtype)
            mean = jnp.sum(possible * total) / jnp.maximum(possible.sum(), 1.0)
            kl = orders.kl(s.potential_scale)
            return kl - mean, (aux, kl, relaxation.row_error.max())

        gradient, ((terms, edges), kl, row_error) = jax.grad(
            objective, argnums=(0, 1), has_aux=True
        )(networks, orders)
        estimate = BoundInfo(
            bound=terms.total.mean() - kl,
            terms=_means(terms),
            edges=edges.mean(),
            row_error=row_error,
            spread=orders.scale.mean(),
            orders=GaussianInfo(-kl),
        )
        return Gradients(gradient[0], gradient[1], estimate)


class IntegratedParticles(HostAlgorithm[ParticleState]):
    """The same algorithm with mechanisms integrated out: evidence from the host at every step."""

    def __init__(self, algorithm: ParticleAlgorithm, scores: LocalScores) -> None:
        self.algorithm, self.scores = algorithm, scores

    def init(self, key: Array) -> ParticleState:
        """The state before the first step."""
        return self.algorithm.init(key)

    def step(self, state: ParticleState, key: Array) -> tuple[ParticleState, StepInfo]:
        """Draw graphs, score them, and follow the gradient."""
        graphs = np.asarray(_draw(self.algorithm, state, key)) > 0
        wanted = np.asarray(self.algorithm.prior.allowed).T
        count, m, _ = graphs.shape
        scores, changes = self.scores.flips(
            np.tile(np.arange(m), count),
            graphs.swapaxes(1, 2).reshape(-1, m),
            np.tile(wanted, (count, 1)),
        )
        evidence = Evidence(
            jnp.asarray(scores.reshape(count, m), jnp.float32),
            jnp.asarray(changes.reshape(count, m, m).swapaxes(1, 2), jnp.float32),
        )
        return _step(self.algorithm, state, key, evidence)


@compiled
def _draw(algorithm: ParticleAlgorithm, state: ParticleState, key: Array) -> Array:
    return algorithm.draw(state, key)


@compiled
def _step(
    algorithm: ParticleAlgorithm, state: ParticleState, key: Array, evidence: Evidence
) -> tuple[ParticleState, StepInfo]:
    return algorithm.step(state, key, evidence)


def _edge_guide(
    seed: int, prior: JaxEdgePrior, s: VariationalSettings
) -> FlowGuide | MeanFieldGuide | BernoulliGuide:
    m = len(prior.alpha)
    logits = s.starting_logits(np.asarray(prior.alpha), np.asarray(prior.beta))
    start = np.where(np.eye(m, dtype=bool), np.float32(0), logits)
    if s.guide == "mean-field":
        tight = s.bound == "tight"
        return BernoulliGuide(jax.device_put(start)) if tight else MeanFieldGuide(m, location=start)
    return FlowGuide(
        m,
        family=FLOWS[s.guide],
        blocks=s.blocks,
        bins=s.bins,
        boundary=s.boundary,
        width=s.width,
        depth=s.depth,
        location=start,
        key=streams.key(seed, Stream.EDGE_NETWORKS),
    )


def _mechanism(seed: int, m: int, s: VariationalSettings) -> MLPMechanism:
    return MLPMechanism(
        m,
        hidden=tuple(s.hidden),
        hyper=tuple(s.hyper),
        condition=s.condition,
        skip=s.skip,
        absent_weights=s.absent_weights,
        noise_sd=s.noise_sd,
        key=streams.key(seed, Stream.MECHANISM_NETWORKS),
    )


def _estimation(s: VariationalSettings) -> BoundEstimation:
    return BoundEstimation(
        s.temperature, s.batch, s.draws, s.edge_gradient, s.bound, float(s.kl_weight)
    )


def _optimiser(s: VariationalSettings) -> Rule:
    return guarded(s.optimiser) if s.optimiser else adam(s.learning_rate, s.gradient_clip)


def _order_optimiser(s: VariationalSettings) -> Rule:
    if s.particle_optimiser is not None:
        return guarded(s.particle_optimiser)
    if s.orders == "stein":
        return guarded(optax.sgd(s.particle_rate))
    return adam(s.learning_rate, float("inf"))


def _means(terms: BoundTerms) -> BoundTerms:
    return BoundTerms(*(term.mean() for term in terms))


def _finite(gradient: Any) -> Array:
    """Whether a gradient can be followed: its sum of squares overflows or is NaN if it cannot."""
    return jnp.isfinite(optax.tree.norm(gradient, squared=True))
