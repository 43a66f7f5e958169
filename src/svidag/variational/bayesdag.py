"""BayesDAG: chains over orders and parameters, edges by a network (Annadani et al., NeurIPS 2023).

Each of C chains has potentials p, which order the variables, and the parameters θ of all equations;
a network h gives the edge logits of an order, q(W | p) = Bernoulli(σ(h(p))), and

    A = W ⊙ 1[p_i > p_j],    x̂_j = Σ_i A_ij ω_ij x_i  or  f_j(Σ_i A_ij ω_ij g(x_i, e_i), e_j).

A minibatch has three steps, each with fresh draws of W: Adam-SGMCMC on p and on θ with the targets

    log p(D | A, θ) + log p(A) + log N(p; 0, 0.1²),
    log p(D | A, θ) + log p(A) + log N(θ; 0, 1),

and Adam on h and the noise scales, which follow E_q[log p(D | A, θ) + log p(A)] + H[q(W | p)].
log p(A) is −λ ΣA plus Bernoulli beliefs on the pairs that the order allows. Derivatives pass
straight through Sinkhorn's relaxed permutation and the relaxed W. A step here is an epoch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from svidag.kernels import noise
from svidag.kernels.descent import adam, descend
from svidag.networks.embedded_mlp import EmbeddedMLP, LinearNodes
from svidag.networks.residual_mlp import ResidualMLP, normalise
from svidag.orders.relaxation import permuted_mask, sorting_permutation
from svidag.orders.softsort import raise_causes
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run.loop import CompiledAlgorithm, compiled
from svidag.run.streams import host_generator
from svidag.samplers.sgmcmc import MomentumState, langevin_step, momentum_start
from svidag.variational.bayesdag_settings import BayesDAGSettings
from svidag.variational.minibatches import epoch_batches, summarise_epoch
from svidag.variational.relaxed_edges import draw_relaxed_edges

GAP = 0.005
"""By how much the potential of a required cause stays above that of its effect."""

POTENTIAL_START = 0.01
"""Standard deviation of potentials at the start."""

SMALLEST_VARIANCE = 1e-7
"""Added to the variance of the noise."""


class Guide(eqx.Module):
    """What Adam trains: the network over edges, and log noise scales of chains and variables."""

    edges: ResidualMLP
    log_noise: Float[Array, "C m"]


class Chains(eqx.Module):
    """What the sampler moves: potentials and the parameters of the equations, with momenta."""

    potentials: Float[Array, "C m"]
    equations: LinearNodes | EmbeddedMLP
    potential_momentum: MomentumState
    equation_momentum: MomentumState


class BayesDAGState(eqx.Module):
    """Everything that an epoch changes, and λ."""

    chains: Chains
    guide: Guide
    optimiser: Any
    sparsity: Float[Array, ""]
    rejected: Int[Array, ""]


class BayesDAGInfo(NamedTuple):
    """The metrics of an epoch: means over its minibatches.

    Attributes
    ----------
    loss
        Minus the network's objective, divided by the number of rows.
    likelihood
        Log likelihood of a row.
    edges
        Arrows of a graph.
    left_out
        Minibatches in which one of the three steps was not finite and left out.
    rejected
        Epochs in a row in which all were.
    """

    loss: Float[Array, ""]
    likelihood: Float[Array, ""]
    edges: Float[Array, ""]
    left_out: Int[Array, ""]
    rejected: Int[Array, ""]


class Rows(NamedTuple):
    """Rows, which entries count, and which rows do: their weight is one, that of others zero."""

    values: Float[Array, "B m"]
    observed: Bool[Array, "B m"]
    weights: Float[Array, " B"]

    def chosen(self, rows: Int[Array, " b"], weights: Float[Array, " b"]) -> Rows:
        """These rows; each counts if it did and its weight is one."""
        return Rows(self.values[rows], self.observed[rows], weights * self.weights[rows])


class ChainScores(NamedTuple):
    """Of each chain: the log likelihood of a row, log p(A), and the number of arrows."""

    likelihood: Float[Array, " C"]
    log_prior: Float[Array, " C"]
    arrows: Float[Array, " C"]


class BayesDAG(CompiledAlgorithm[BayesDAGState]):
    """BayesDAG on those rows of a table that count; held-out ones do not.

    That shapes stay the same, whatever is held out, saves compiling the steps twice.
    """

    table: Rows
    prior: JaxEdgePrior
    above: Float[Array, "m m"]
    probability: Float[Array, "m m"]
    sparsity: Float[Array, ""]
    mechanism: str = eqx.field(static=True)
    settings: BayesDAGSettings = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> BayesDAGState:
        """Potentials near zero, equations and network as usual in PyTorch, noise of scale one."""
        s, m, rng = self.settings, self.table.values.shape[1], host_generator(key)
        potentials = jax.device_put(
            (POTENTIAL_START * rng.standard_normal((s.chains, m))).astype(np.float32)
        )
        if self.mechanism == "linear":
            equations = LinearNodes.start(m, rng, s.chains)
        else:
            equations = EmbeddedMLP.start(m, s.layers(m), rng, s.chains)
        seen = m if s.edge_input == "potentials" else m * m
        edges = ResidualMLP.uniform((seen, *s.edge_hidden, m * m), rng)
        guide = Guide(edges, jax.device_put(np.zeros((s.chains, m), np.float32)))
        chains = Chains(
            potentials, equations, momentum_start(potentials), momentum_start(equations)
        )
        optimiser = _rule(s).init(guide)
        return BayesDAGState(chains, guide, optimiser, self.sparsity, jax.device_put(np.int32(0)))

    def step(self, state: BayesDAGState, key: PRNGKeyArray) -> tuple[BayesDAGState, BayesDAGInfo]:
        """One epoch."""
        keys = noise.split(key, 2)
        batches, weights = epoch_batches(keys[0], len(self.table.values), self.settings.batch)

        def minibatch(state, batch):
            rows, weights, key = batch
            return self._minibatch(state, self.table.chosen(rows, weights), key)

        state, (losses, likelihood, arrows, finite) = jax.lax.scan(
            minibatch, state, (batches, weights, noise.split(keys[1], len(batches)))
        )
        summary = summarise_epoch(losses, finite, state.rejected)
        state = eqx.tree_at(lambda state: state.rejected, state, summary.rejected)
        metrics = summary.loss, likelihood.mean(), arrows.mean(), *summary[1:]
        return state, BayesDAGInfo(*metrics)

    def _minibatch(self, state: BayesDAGState, rows: Rows, key: Array) -> tuple[Any, Any]:
        keys = noise.split(key, 3)
        chains, finite_orders = self.move_potentials(state, rows, keys[0])
        state = eqx.tree_at(lambda state: state.chains, state, chains)

        def loss(guide):
            fitted = self.fit(
                chains.potentials, chains.equations, guide, state.sparsity, rows, keys[1]
            )
            entropy = self.entropy(chains.potentials, guide.edges)
            each = fitted.likelihood + (fitted.log_prior + entropy) / self.count
            return -each.mean(), (fitted.likelihood.mean(), fitted.arrows.mean())

        (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(state.guide)
        finite = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient, squared=True))
        guide, optimiser = descend(
            _rule(self.settings), gradient, state.optimiser, state.guide, finite
        )
        state = eqx.tree_at(lambda state: (state.guide, state.optimiser), state, (guide, optimiser))
        chains, finite_equations = self.move_equations(state, rows, keys[2])
        state = eqx.tree_at(lambda state: state.chains, state, chains)
        return state, (value, *metrics, finite & finite_orders & finite_equations)

    def move_potentials(
        self, state: BayesDAGState, rows: Rows, key: PRNGKeyArray
    ) -> tuple[Chains, Bool[Array, ""]]:
        """One step of the sampler on the potentials; whether it was finite."""
        s, chains, keys = self.settings, state.chains, noise.split(key, 2)

        def energy(potentials):
            fitted = self.fit(
                potentials, chains.equations, state.guide, state.sparsity, rows, keys[0]
            )
            own = -0.5 * ((potentials / s.potential_spread) ** 2).sum()
            return self._energy(fitted) - own * self._share

        potentials, momentum, finite = langevin_step(
            keys[1],
            chains.potentials,
            chains.potential_momentum,
            jax.grad(energy)(chains.potentials),
            rate=math.sqrt(s.sampler_rate),
            noise_scale=s.potential_noise,
        )
        return Chains(potentials, chains.equations, momentum, chains.equation_momentum), finite

    def move_equations(
        self, state: BayesDAGState, rows: Rows, key: PRNGKeyArray
    ) -> tuple[Chains, Bool[Array, ""]]:
        """One step of the sampler on the parameters of the equations; whether it was finite."""
        s, chains, keys = self.settings, state.chains, noise.split(key, 2)

        def energy(equations):
            fitted = self.fit(
                chains.potentials, equations, state.guide, state.sparsity, rows, keys[0]
            )
            own = -0.5 * optax.tree.norm(equations, squared=True)
            return self._energy(fitted) - own * self._share

        equations, momentum, finite = langevin_step(
            keys[1],
            chains.equations,
            chains.equation_momentum,
            jax.grad(energy)(chains.equations),
            rate=math.sqrt(s.sampler_rate),
            noise_scale=s.parameter_noise,
        )
        return Chains(chains.potentials, equations, chains.potential_momentum, momentum), finite

    @property
    def count(self) -> Float[Array, ""]:
        """The rows that count, n."""
        return self.table.weights.sum()

    @property
    def _share(self) -> float:
        """What a chain's log posterior counts in the energy whose gradient moves it."""
        return 1.0 if self.settings.drift == "chain" else 1 / self.settings.chains

    def _energy(self, fitted: ChainScores) -> Float[Array, ""]:
        each = self.count * fitted.likelihood + fitted.log_prior
        return -each.sum() * self._share

    def fit(
        self,
        potentials: Float[Array, "C m"],
        equations: LinearNodes | EmbeddedMLP,
        guide: Guide,
        sparsity: Float[Array, ""],
        rows: Rows,
        key: PRNGKeyArray,
    ) -> ChainScores:
        """How well a fresh graph of each chain fits the rows."""

        def one(potentials, equations, log_noise, key):
            A, mask = self.draw(key, potentials, guide.edges)
            each = log_densities(rows, equations(A, rows.values), log_noise)
            likelihood = (rows.weights * each).sum() / jnp.maximum(rows.weights.sum(), 1.0)
            odds = jnp.where(self.prior.free, jnp.log(self.probability), 0.0)
            none = jnp.where(self.prior.free, jnp.log1p(-self.probability), 0.0)
            beliefs = jnp.sum(A * (odds - none)) + jnp.sum(mask * none)
            return likelihood, beliefs - sparsity * A.sum(), A.sum()

        keys = noise.split(key, len(potentials))
        return ChainScores(*jax.vmap(one)(potentials, equations, guide.log_noise, keys))

    def draw(
        self, key: PRNGKeyArray, potentials: Float[Array, " m"], edges: ResidualMLP
    ) -> tuple[Float[Array, "m m"], Float[Array, "m m"]]:
        """A graph of these potentials and what their order allows, with relaxed derivatives."""
        logits, P = self.logits(potentials, edges)
        W, mask = draw_relaxed_edges(key, logits, self.settings.edge_temperature), permuted_mask(P)
        return self.prior.graph(W, mask), mask

    def logits(
        self, potentials: Float[Array, " m"], edges: ResidualMLP
    ) -> tuple[Float[Array, "m m"], Float[Array, "m m"]]:
        """Edge logits given the order of these potentials, and the permutation P of the order."""
        s, raised = self.settings, raise_causes(potentials, self.above)
        P = sorting_permutation(raised, s.order_temperature)
        seen = normalise(raised) if s.edge_input == "potentials" else P.reshape(-1)
        return edges(seen).reshape(P.shape) + s.edge_start, P

    def entropy(self, potentials: Float[Array, "C m"], edges: ResidualMLP) -> Float[Array, " C"]:
        """H[q(W | p)] of the pairs that hard knowledge leaves open."""

        def one(potentials):
            logits, _ = self.logits(potentials, edges)
            each = jax.nn.softplus(logits) - logits * jax.nn.sigmoid(logits)
            return jnp.where(self.prior.free, each, 0.0).sum()

        return jax.vmap(one)(potentials)

    def moved(self, state: BayesDAGState, key: PRNGKeyArray) -> tuple[BayesDAGState, Array]:
        """The state after one more step of the chains, with the network over edges as it is."""
        keys = noise.split(key, 3)
        n = len(self.table.values)
        size = min(self.settings.draw_batch, n)
        chosen = jax.random.permutation(keys[0], n)[:size]
        rows = self.table.chosen(chosen, jnp.ones(size))
        chains, finite_orders = self.move_potentials(state, rows, keys[1])
        state = eqx.tree_at(lambda state: state.chains, state, chains)
        chains, finite_equations = self.move_equations(state, rows, keys[2])
        state = eqx.tree_at(lambda state: state.chains, state, chains)
        return state, finite_orders & finite_equations


def log_densities(
    rows: Rows, predicted: Float[Array, "B m"], log_noise: Float[Array, " m"]
) -> Float[Array, " B"]:
    """Gaussian log likelihood of each row, from the entries that count."""
    variance = (jnp.exp(2 * log_noise) + SMALLEST_VARIANCE)[None]
    errors = (rows.values - predicted) ** 2 / variance
    each = -0.5 * (errors + jnp.log(2 * math.pi * variance))
    return jnp.where(rows.observed, each, 0.0).sum(axis=1)


class ChainDraws(NamedTuple):
    """Graphs by draws and chains, mean log likelihoods of other rows, steps not finite."""

    graphs: UInt8[Array, "S C m m"]
    predicted: Float[Array, " H"]
    left_out: Int[Array, ""]


@compiled
def draw_graphs(
    algorithm: BayesDAG, state: BayesDAGState, key: PRNGKeyArray, draws: int, other: Rows
) -> ChainDraws:
    """Let the chains go on, take a graph of each at times, and see how they predict other rows."""
    thinning = algorithm.settings.thinning
    assert thinning is not None, "resolved before the algorithm is built"

    def draw(carried, key):
        state, total = carried
        keys = noise.split(key, 2)
        state, finite = jax.lax.scan(
            lambda state, key: algorithm.moved(state, key), state, noise.split(keys[0], thinning)
        )
        chains, guide = state.chains, state.guide

        def one(potentials, equations, log_noise, key):
            A, _ = algorithm.draw(key, potentials, guide.edges)
            return A, log_densities(other, equations(A, other.values), log_noise)

        keys = noise.split(keys[1], len(chains.potentials))
        A, each = jax.vmap(one)(chains.potentials, chains.equations, guide.log_noise, keys)
        return (state, total + each.mean(axis=0)), (A.astype(jnp.uint8), jnp.sum(~finite))

    start = state, jnp.zeros(len(other.values))
    (_, total), (graphs, left_out) = jax.lax.scan(draw, start, noise.split(key, draws))
    return ChainDraws(graphs, total / draws, left_out.sum())


def _rule(settings: BayesDAGSettings) -> Any:
    return adam(settings.learning_rate, float("inf"))
