"""BCD Nets: weights and noise of a linear model, and an order given these (Cundy et al. 2021).

W = P U Pᵀ with U strictly upper triangular and P a permutation: row i of P has its one at the place
of variable i, causes first. The guide is Gaussian over the entries ℓ of U and the log noise scales
s, and q(P | ℓ, s) ∝ exp⟨T, P⟩ with T from a network of (ℓ, s). Steps follow

    E[log p(X | W, s) + log p(ℓ) + log p(s) − log q(ℓ, s) − log q(P | ℓ, s)] − log m!,

with p(ℓ) the horseshoe, p(s) Gaussian, and Bethe's approximation to the normalising constant of
q(P). A permutation is drawn as the best assignment for S_τ = Sinkhorn((T + Gumbel noise)/τ), and
derivatives pass through S_τ.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from svidag.kernels import noise
from svidag.kernels.descent import Rule, descend, guarded
from svidag.mechanisms.horseshoe import at_pole, log_horseshoe
from svidag.mechanisms.moments import quadratic_forms
from svidag.orders.assignment import best_assignment, log_bethe_permanent
from svidag.orders.relaxation import Sinkhorn, at_fixed_point, balance, straight_through
from svidag.run.loop import HostAlgorithm, compiled
from svidag.run.streams import host_generator
from svidag.variational.bcd_settings import BCDSettings

BOUNDED = 10.0  # log scales and entries of T are kept within ±10 by a tangent
COLD = 0.5  # below this temperature Newton steps may leave the domain: sweeps alone


class Moments(eqx.Module):
    """Σ x xᵀ/N over the rows that count for each variable, their number, and N."""

    second: Float[Array, "g m m"]
    rows: Float[Array, " m"]
    N: int = eqx.field(static=True)


class BCDGuide(eqx.Module):
    """q(ℓ, s) = N(mean, exp(2c)), c = 10 tanh(spread/10), and the network that gives T."""

    mean: Float[Array, " d"]
    spread: Float[Array, " d"]
    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]

    @classmethod
    def start(
        cls, m: int, equal_noise: bool, hidden: tuple[int, ...], rng: np.random.Generator
    ) -> BCDGuide:
        """Weights of zero with log scales of −1; a network from truncated normals."""
        d = m * (m - 1) // 2 + (1 if equal_noise else m)
        shapes = list(pairwise((d, *hidden, m * m)))
        weights = [_truncated_normal(rng, shape) / math.sqrt(shape[0]) for shape in shapes]
        biases = [np.zeros(shape[1]) for shape in shapes]
        arrays = (np.zeros(d), np.full(d, -1.0), tuple(weights), tuple(biases))
        return cls(*jax.device_put(jax.tree.map(lambda x: x.astype(np.float32), arrays)))

    @property
    def log_scale(self) -> Float[Array, " d"]:
        """c."""
        return _bounded(self.spread)

    def sample(self, key: Array, draws: int) -> Float[Array, "S d"]:
        """(ℓ, s), by draws."""
        epsilon = noise.normal(key, (draws, len(self.mean)))
        return self.mean[None] + jnp.exp(self.log_scale)[None] * epsilon

    def log_density(self, drawn: Float[Array, "S d"]) -> Float[Array, " S"]:
        """log q(ℓ, s)."""
        c = self.log_scale[None]
        z = (drawn - self.mean[None]) * jnp.exp(-c)
        return jnp.sum(-0.5 * z**2 - c - 0.5 * math.log(2 * math.pi), axis=1)

    def order_scores(self, drawn: Float[Array, "S d"], m: int) -> Float[Array, "S m m"]:
        """T of each draw."""
        h = drawn
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = (jax.nn.gelu(h, approximate=True) if at else h) @ weight + bias[None]
        return _bounded(h).reshape(-1, m, m)


class BCDState(eqx.Module):
    """Everything that a step changes."""

    guide: BCDGuide
    optimiser: Any
    count: Int[Array, ""]
    rejected: Int[Array, ""]


class BCDInfo(NamedTuple):
    """The metrics of a step.

    `bound` is the ELBO; `edges` the mean number of arrows above the threshold; `row_error` the
    largest |row sum − 1| of the relaxed permutations; `poles` the weights kept from the pole of the
    prior.
    """

    bound: float
    log_likelihood: float
    edges: float
    row_error: float
    poles: float
    rejected: int


class BCDNets(HostAlgorithm[BCDState]):
    """BCD Nets on a table; assignments are found on the host, between two compiled parts."""

    def __init__(self, moments: Moments, settings: BCDSettings) -> None:
        self.moments, self.settings = moments, settings
        self.m = len(moments.rows)
        self.scale = settings.scale(self.m, moments.N)

    def init(self, key: Array) -> BCDState:
        """The guide at its start."""
        s = self.settings
        guide = BCDGuide.start(self.m, s.equal_noise, tuple(s.hidden), host_generator(key))
        optimiser: Any = _optimiser(s).init(guide)
        return BCDState(guide, optimiser, *jax.device_put((np.int32(0), np.int32(0))))

    def temperature(self, step: int) -> float:
        """τ of a step."""
        parts = self.settings.temperatures
        return float(parts[min(step * len(parts) // self.settings.iterations, len(parts) - 1)])

    def step(self, state: BCDState, key: Array) -> tuple[BCDState, BCDInfo]:
        """One step; where a gradient is not finite, the state stays as it was."""
        tau = self.temperature(int(state.count))
        drawn = draw_orders(state.guide, key, tau, self.settings.step_draws, self.m)
        moved, metrics = _advance(
            state, self.moments, key, drawn, jnp.asarray(tau), self.scale, self.settings
        )
        error = float(np.abs(np.asarray(drawn.relaxed).sum(axis=2) - 1).max())
        bound, likelihood, edges, poles = (float(x) for x in metrics)
        return moved, BCDInfo(bound, likelihood, edges, error, poles, int(moved.rejected))


class OrderDraws(NamedTuple):
    """Relaxed permutations S_τ, and the place of each variable in the hard ones."""

    relaxed: Float[Array, "S m m"]
    places: Int[Array, "S m"]


def draw_orders(guide: BCDGuide, key: Array, tau: float, draws: int, m: int) -> OrderDraws:
    """Permutations from q(P | ℓ, s), with the (ℓ, s) that the same key gives."""
    sinkhorn = Sinkhorn(sweeps=10, newton=2) if tau >= COLD else Sinkhorn(sweeps=200, newton=0)
    relaxed = _relaxed(guide, key, jnp.asarray(tau), draws, m, sinkhorn)
    return OrderDraws(relaxed, jnp.asarray(best_assignment(np.asarray(relaxed)).astype(np.int32)))


def draw_weights(
    guide: BCDGuide, key: Array, tau: float, draws: int, m: int
) -> Float[np.ndarray, "S m m"]:
    """W by draws."""
    places = draw_orders(guide, key, tau, draws, m).places
    return np.asarray(_weights_of_draws(guide, key, places, m))


def _relaxed_scores(guide, key, tau, draws, m):
    """(ℓ, s), T, and (T + Gumbel noise)/τ: all that a key determines."""
    key_weights, key_order = noise.split(key, 2)
    drawn = guide.sample(key_weights, draws)
    T = guide.order_scores(drawn, m)
    # A Gumbel number is −log of an exponential one; the logistic gives that of a uniform.
    gumbel = -jnp.log(jax.nn.softplus(noise.logistic(key_order, T.shape)))
    return drawn, T, (T + gumbel) / tau


@compiled
def _relaxed(guide, key, tau, draws, m, sinkhorn):
    scores = _relaxed_scores(guide, key, tau, draws, m)[2]
    return jax.vmap(lambda y: balance(y, sinkhorn))(scores)


@compiled
def _weights_of_draws(guide, key, places, m):
    drawn = _relaxed_scores(guide, key, 1.0, len(places), m)[0]
    return _weights(drawn, jax.nn.one_hot(places, m, dtype=drawn.dtype))


def _weights(drawn: Float[Array, "S d"], P: Float[Array, "S m m"]) -> Float[Array, "S m m"]:
    """W = P U Pᵀ."""
    m = P.shape[-1]
    rows, columns = np.triu_indices(m, 1)
    U = jnp.zeros(P.shape, P.dtype).at[:, rows, columns].set(drawn[:, : len(rows)])
    return P @ U @ P.swapaxes(1, 2)


@compiled
def _advance(
    state: BCDState,
    moments: Moments,
    key: Array,
    orders: OrderDraws,
    tau: Array,
    scale: float,
    settings: BCDSettings,
) -> tuple[BCDState, tuple[Array, ...]]:
    """The state after a step with these permutations, and its metrics."""
    S, m = orders.places.shape
    hard = jax.nn.one_hot(orders.places, m, dtype=orders.relaxed.dtype)

    def loss(guide):
        drawn, T, scores = _relaxed_scores(guide, key, tau, S, m)
        P = straight_through(hard, jax.vmap(at_fixed_point)(scores, orders.relaxed))
        bound, likelihood, W = _bound(guide, moments, drawn, T, P, scale, settings)
        edges = (jnp.abs(W) > settings.threshold).sum(axis=(1, 2)).astype(jnp.float32).mean()
        poles = at_pole(drawn[:, : m * (m - 1) // 2], scale).sum().astype(jnp.float32)
        return -bound, (bound, likelihood, edges, poles)

    gradient, metrics = jax.grad(loss, has_aux=True)(state.guide)
    if settings.network_decay:
        decayed = jax.tree.map(
            lambda g, w: g + settings.network_decay * w, gradient.weights, state.guide.weights
        )
        gradient = eqx.tree_at(lambda guide: guide.weights, gradient, decayed)
    finite = jnp.isfinite(metrics[0]) & jnp.isfinite(optax.tree.norm(gradient, squared=True))
    guide, optimiser = descend(_optimiser(settings), gradient, state.optimiser, state.guide, finite)
    rejected = jnp.where(finite, 0, state.rejected + 1)
    return BCDState(guide, optimiser, state.count + 1, rejected), metrics


def _bound(guide, moments, drawn, T, P, scale, settings):
    """The ELBO averaged over draws, its expected log likelihood, and W."""
    m = P.shape[-1]
    size = m * (m - 1) // 2
    W = _weights(drawn, P)
    s = jnp.broadcast_to(drawn[:, size:], (len(drawn), m))
    errors = quadratic_forms(jnp.broadcast_to(jnp.eye(m), W.shape) - W, moments.second)
    rows = moments.rows[None]
    constant = 0.5 * math.log(2 * math.pi)
    likelihood = jnp.sum(
        -rows * (s + constant) - 0.5 * moments.N * jnp.exp(-2 * s) * errors, axis=1
    )
    spread = settings.noise_spread
    own = drawn[:, size:]
    log_prior = (
        log_horseshoe(drawn[:, :size], scale).sum(axis=1)
        + jnp.sum(-0.5 * (own / spread) ** 2 - math.log(spread) - constant, axis=1)
        - math.lgamma(m + 1)
    )
    log_order = jnp.sum(T * P, axis=(1, 2)) - jax.vmap(log_bethe_permanent)(T)
    bound = likelihood + log_prior - guide.log_density(drawn) - log_order
    return bound.mean(), likelihood.mean(), W


def _optimiser(settings: BCDSettings) -> Rule:
    return guarded(optax.adabelief(settings.learning_rate, eps=1e-8, eps_root=0.0))


def _bounded(x: Array) -> Array:
    return BOUNDED * jnp.tanh(x / BOUNDED)


def _truncated_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normals within ±2: what falls outside is drawn again."""
    drawn = rng.standard_normal(shape)
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = rng.standard_normal(int(outside.sum()))
    return drawn
