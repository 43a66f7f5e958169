"""Laws of DiBS: its gradients against sums over all graphs, its kernel against autodiff."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.graph import are_dags
from svidag.mechanisms.linear import LinearGaussian
from svidag.methods.dibs import DiBS, without_cycles
from svidag.networks.node_mlp import NodeMLP
from svidag.samplers.stein import sum_of_kernels
from svidag.variational.dibs import JointDiBS, weigh
from svidag.variational.dibs_target import DiBSTarget, Latent, cycle_slope, cycles

pytestmark = pytest.mark.slow  # compiles gradients

m = 3
ALPHA = jnp.asarray(1.5)
SCORES = jnp.asarray(np.random.default_rng(0).normal(size=(1, m, m)), jnp.float32)


@cache
def every_graph():
    """All 64 directed graphs on three nodes, cyclic ones too."""
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    graphs = np.zeros((2 ** len(pairs), m, m), np.uint8)
    for graph, edges in zip(graphs, itertools.product((0, 1), repeat=len(pairs)), strict=True):
        for (i, j), present in zip(pairs, edges, strict=True):
            graph[i, j] = present
    return graphs


@cache
def table(rows=6):
    x = np.random.default_rng(1).standard_normal((rows, m))
    x[:, 1] += x[:, 0]
    return x


def target(log_odds=0.0):
    free = ~jnp.eye(m, dtype=bool)
    return DiBSTarget(jnp.full((m, m), log_odds, jnp.float32), free, jnp.zeros((m, m), bool))


def log_probability(scores, graphs):
    """log p(G | Z) of each graph."""
    logits = ALPHA * scores
    edges = jnp.where(graphs == 1, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits))
    return jnp.where(jnp.eye(m, dtype=bool)[None], 0.0, edges).sum(axis=(1, 2))


def exact_slope(log_likelihood):
    """∂/∂s of log Σ_G p(G | Z) p(D | G)."""
    graphs = jnp.asarray(every_graph())
    evidence = jnp.asarray(log_likelihood, jnp.float32)
    spread = lambda s: jnp.broadcast_to(s, graphs.shape)  # noqa: E731

    def total(scores):
        return jax.nn.logsumexp(log_probability(spread(scores), graphs) + evidence)

    return jax.grad(total)(SCORES)[0]


@pytest.mark.parametrize("by_node", [False, True])
def test_the_gradient_of_the_evidence_is_that_of_the_sum_over_graphs(by_node):
    scores = LinearGaussian.from_values(table())
    exact = exact_slope(scores.graph_scores(every_graph()).sum(axis=1))
    drawn = target().draw_hard(jax.random.key(3), SCORES, ALPHA, 40_000)
    evidence = scores.graph_scores(np.asarray(drawn[0], np.uint8))
    weights, _ = weigh(evidence[None], by_node)
    slope = target().evidence_slope(drawn, jnp.asarray(weights, jnp.float32), SCORES, ALPHA)
    assert np.abs(slope[0] - exact).max() < 0.02
    assert np.abs(exact).max() > 0.2


def test_weights_by_node_vary_less():
    scores = LinearGaussian.from_values(table())
    exact = exact_slope(scores.graph_scores(every_graph()).sum(axis=1))
    errors = {}
    drawn = target().draw_hard(jax.random.key(4), jnp.repeat(SCORES, 200, axis=0), ALPHA, 16)
    evidence = scores.graph_scores(np.asarray(drawn, np.uint8).reshape(-1, m, m))
    for by_node in (False, True):
        weights, _ = weigh(evidence.reshape(200, 16, m), by_node)
        slopes = target().evidence_slope(
            drawn, jnp.asarray(weights, jnp.float32), jnp.repeat(SCORES, 200, axis=0), ALPHA
        )
        errors[by_node] = float(jnp.mean((slopes - exact[None]) ** 2))
    assert errors[True] < 0.5 * errors[False]


def test_the_evidence_of_a_graph_is_the_sum_of_its_families():
    scores = LinearGaussian.from_values(table(), np.arange(6 * m).reshape(6, m) % 5 == 0)
    graphs = every_graph()
    nodes = np.tile(np.arange(m), len(graphs))
    families = graphs.swapaxes(1, 2).reshape(-1, m).astype(bool)
    expected = scores.family_scores(nodes, families).reshape(-1, m)
    assert np.allclose(scores.graph_scores(graphs), expected)


def joint(ratio):
    values = jnp.asarray(table(), jnp.float32)
    settings = DiBS(graph_draws=8, ratio=ratio, hidden=(2,), noise_variance=1.0).resolve("mlp")
    return JointDiBS(values, jnp.ones(values.shape, bool), target(), settings)


@pytest.mark.parametrize("ratio", ["graph", "node"])
def test_the_gradient_of_networks_is_that_of_the_sum_over_graphs(ratio):
    algorithm = joint(ratio)
    networks = NodeMLP.uniform(m, (2,), np.random.default_rng(2))
    graphs = jnp.asarray(every_graph(), jnp.float32)

    def exact(networks):
        prior = log_probability(jnp.broadcast_to(SCORES, graphs.shape), graphs)
        return jax.nn.logsumexp(prior + algorithm.log_joint(networks, graphs).sum(axis=1))

    drawn = algorithm.target.draw_hard(jax.random.key(5), SCORES, ALPHA, 20_000)[0]
    estimated = jax.grad(lambda n: algorithm._ratio(n, drawn)[0])(networks)
    for ours, theirs in zip(
        jax.tree.leaves(estimated), jax.tree.leaves(jax.grad(exact)(networks)), strict=True
    ):
        assert np.allclose(ours, theirs, atol=0.05)


def test_the_gradient_of_soft_graphs_is_that_of_finite_differences():
    algorithm = joint("graph")
    networks = NodeMLP.uniform(m, (2,), np.random.default_rng(2))

    @jax.jit
    def total(scores):
        soft = algorithm.target.draw_soft(jax.random.key(6), scores, ALPHA, 8)[0]
        return algorithm._ratio(networks, soft)[0]

    slope = jax.grad(total)(SCORES)[0]
    step = 1e-2
    for i, j in ((0, 1), (2, 0), (1, 2)):
        moved = [total(SCORES.at[0, i, j].add(sign * step)) for sign in (1, -1)]
        assert float(moved[0] - moved[1]) / (2 * step) == pytest.approx(
            float(slope[i, j]), abs=0.02
        )


def test_log_joint_of_one_graph_is_the_density_written_out():
    algorithm = joint("graph")
    networks = NodeMLP.uniform(m, (2,), np.random.default_rng(2))
    graph = jnp.asarray(every_graph()[37], jnp.float32)
    found = algorithm.log_joint(networks, graph[None])[0]
    x = np.asarray(algorithm.values)
    for j in range(m):
        w1, w2 = (np.asarray(w[j]) for w in networks.weights)
        b1, b2 = (np.asarray(b[j]) for b in networks.biases)
        fit = np.maximum(x * np.asarray(graph)[:, j] @ w1 + b1, 0) @ w2[:, 0] + b2[0]
        normal = lambda z: -0.5 * (z**2 + np.log(2 * np.pi))  # noqa: E731
        expected = normal(x[:, j] - fit).sum() + (normal(w1) * np.asarray(graph)[:, [j]]).sum()
        expected += normal(w2).sum() + normal(b1).sum() + normal(b2).sum()
        assert float(found[j]) == pytest.approx(float(expected), abs=1e-3)


def test_cycles_are_counted_by_walks_that_return():
    graphs = jnp.asarray(every_graph(), jnp.float32)
    assert np.array_equal(np.asarray(cycles(graphs)) > 1e-5, ~are_dags(every_graph()))
    soft = jax.random.uniform(jax.random.key(0), (m, m))
    assert np.allclose(cycle_slope(soft), jax.grad(cycles)(soft), atol=1e-5)


def test_the_slope_of_the_prior_is_its_derivative():
    """With many soft graphs, drawn once, so that their mean can be differentiated."""
    key, beta, draws = jax.random.key(7), jnp.asarray(2.0), 64
    prior = target(log_odds=-1.0)

    def total(scores):
        soft = prior.draw_soft(key, scores, ALPHA, draws)
        return -prior.probabilities(scores, ALPHA).sum() - beta * cycles(soft).mean()

    ours = prior.prior_slope(key, SCORES, ALPHA, beta, draws)
    assert np.allclose(ours, jax.grad(total)(SCORES), atol=1e-4)


def test_slopes_of_scores_are_pulled_back_to_vectors():
    rng = np.random.default_rng(3)
    latent = Latent(*(jnp.asarray(rng.normal(size=(2, m, 4)), jnp.float32) for _ in "uv"))
    weights = jnp.asarray(rng.normal(size=(2, m, m)), jnp.float32)
    expected = jax.grad(lambda z: (weights * z.scores).sum())(latent)
    assert all(map(np.allclose, latent.pull_back(weights), expected))


def test_a_sum_of_kernels_moves_particles_as_autodiff_says():
    rng = np.random.default_rng(4)
    parts = [jnp.asarray(rng.normal(size=(5, d)), jnp.float32) for d in (2, 3)]
    scores = [jnp.asarray(rng.normal(size=(5, d)), jnp.float32) for d in (2, 3)]
    h = (1.0, 4.0)

    def kernel(x, y):
        return sum(jnp.exp(-jnp.sum((a - b) ** 2) / c) for a, b, c in zip(x, y, h, strict=True))

    found = sum_of_kernels(scores, parts, h)
    for at in range(5):
        here = [part[at] for part in parts]
        expected = [jnp.zeros_like(x) for x in here]
        for k in range(5):
            other = [part[k] for part in parts]
            slope = jax.grad(kernel)(other, here)
            both = zip(expected, scores, slope, strict=True)
            expected = [e + kernel(other, here) * s[k] + g for e, s, g in both]
        for ours, theirs in zip(found, expected, strict=True):
            assert np.allclose(ours[at], theirs / 5, atol=1e-5)


def test_cycles_are_broken_at_the_lowest_scores():
    rng = np.random.default_rng(5)
    graphs, ranks = rng.integers(2, size=(50, 6, 6)).astype(np.uint8), rng.normal(size=(50, 6, 6))
    graphs[:, range(6), range(6)] = 0
    broken = np.stack([without_cycles(g, r) for g, r in zip(graphs, ranks, strict=True)])
    assert are_dags(broken).all()
    assert (broken <= graphs).all()
    again = np.stack([without_cycles(g, r) for g, r in zip(broken, ranks, strict=True)])
    assert np.array_equal(again, broken)
