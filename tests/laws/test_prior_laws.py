"""Laws of the prior: densities integrate, marginals agree, hard knowledge holds in every draw."""

from itertools import permutations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import beta as beta_distribution
from scipy.stats import chisquare

from svidag.graph.extension import draw_linear_extensions
from svidag.prior import EdgePrior, Prior, logistic_beta_log_density

FALSE_ALARM = 1e-4  # of each statistical test below, were its seed drawn afresh

SHAPES = [(1.0, 1.0), (0.3, 2.0), (1.35, 1.65), (7.0, 2.5), (102.3, 6.4), (4000.0, 9.0)]


def one_pair(alpha: float, beta: float) -> EdgePrior:
    off = ~np.eye(2, dtype=bool)
    a, b = np.full((2, 2), alpha), np.full((2, 2), beta)
    return EdgePrior(("x", "y"), a / (a + b), a + b, a, b, off, np.zeros_like(off))


def density(edges: EdgePrior, gamma: float) -> float:
    return float(np.exp(edges.log_density(np.full((2, 2), gamma))[0, 1]))


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_logistic_beta_integrates_to_one_with_the_marginal_as_mean(alpha, beta):
    edges = one_pair(alpha, beta)
    mode = np.log(alpha / beta)
    points = {"points": [mode - 1, mode, mode + 1], "limit": 200, "epsabs": 1e-11}
    total = quad(lambda g: density(edges, g), mode - 150, mode + 150, **points)[0]
    mean = quad(lambda g: expit(g) * density(edges, g), mode - 150, mode + 150, **points)[0]
    assert total == pytest.approx(1, abs=1e-8)
    assert mean == pytest.approx(alpha / (alpha + beta), abs=1e-8)
    assert edges.marginal[0, 1] == pytest.approx(alpha / (alpha + beta))


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_logistic_beta_is_the_beta_density_by_change_of_variable(alpha, beta):
    edges = one_pair(alpha, beta)
    for gamma in (-6.0, -0.5, 0.0, 1.3, 5.0):
        pi = expit(gamma)
        expected = beta_distribution.logpdf(pi, alpha, beta) + np.log(pi * (1 - pi))
        assert edges.log_density(np.full((2, 2), gamma))[0, 1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_logistic_beta_is_exponential_far_out(alpha, beta):
    edges = one_pair(alpha, beta)
    at = {
        g: edges.log_density(np.full((2, 2), g))[0, 1] for g in (-2000.0, -1000.0, 1000.0, 2000.0)
    }
    assert at[-1000.0] - at[-2000.0] == pytest.approx(1000 * alpha)
    assert at[1000.0] - at[2000.0] == pytest.approx(1000 * beta)


def test_density_in_jax_equals_numpy_in_both_precisions_and_any_batch():
    prior = Prior(p=0.2, beliefs={("a", "b"): 0.95}).bind(["a", "b", "c"])
    gamma = np.random.default_rng(0).normal(scale=20, size=(2, 4, 3, 3))
    expected = prior.log_density(gamma)[..., prior.free]
    single = logistic_beta_log_density(jnp.asarray(gamma, jnp.float32), prior.alpha, prior.beta)
    assert single.dtype == jnp.float32
    assert np.allclose(np.asarray(single)[..., prior.free], expected, rtol=1e-5, atol=1e-4)
    with jax.enable_x64(True):
        double = logistic_beta_log_density(jnp.asarray(gamma), prior.alpha, prior.beta)
        assert double.dtype == jnp.float64
        assert np.allclose(np.asarray(double)[..., prior.free], expected, rtol=1e-12)


def test_gradient_of_the_density_is_beta_minus_total_times_sigmoid():
    edges = Prior(p=0.2).bind(["a", "b"])
    gamma = jnp.asarray([[0.0, 60.0], [-60.0, 0.7]], jnp.float32)
    slope = jax.grad(lambda g: logistic_beta_log_density(g, edges.alpha, edges.beta).sum())(gamma)
    expected = edges.alpha - (edges.alpha + edges.beta) * expit(np.asarray(gamma, float))
    assert np.allclose(slope, expected, rtol=1e-5)


def test_settled_pairs_add_nothing_to_the_density():
    edges = Prior(required=[("a", "b")], forbidden=[("b", "c")]).bind(["a", "b", "c"])
    density = edges.log_density(np.full((3, 3), 2.0))
    assert (density[~edges.free] == 0).all()
    assert (density[edges.free] != 0).all()


@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_beta_bernoulli_concentrates_on_the_belief(p):
    """Proposition on the concentration of the Beta–Bernoulli prior, with its exact variance."""
    for nu in (1.0, 10.0, 1e3, 1e6):
        edges = Prior(p=p, confidence=nu, shrink_to=0.5).bind(["a", "b"])
        a, b = edges.alpha[0, 1], edges.beta[0, 1]
        variance = a * b / ((a + b) ** 2 * (a + b + 1))
        closed = (nu**2 * p * (1 - p) + nu + 1) / ((nu + 2) ** 2 * (nu + 3))
        assert edges.marginal[0, 1] - p == pytest.approx((1 - 2 * p) / (nu + 2), abs=1e-12)
        assert variance == pytest.approx(closed)
    assert variance * nu == pytest.approx(p * (1 - p), rel=1e-4)


def test_log_marginal_is_a_normalised_law_over_graphs_that_keep_the_knowledge():
    edges = Prior(p=0.3, required=[("a", "b")], forbidden=[("c", "a")]).bind(["a", "b", "c"])
    cells = list(product(range(3), repeat=2))
    B = np.zeros((512, 3, 3), dtype=np.uint8)
    for cell, values in zip(cells, np.array(list(product((0, 1), repeat=9))).T, strict=True):
        B[:, *cell] = values
    weight = np.exp(edges.log_marginal(B))
    assert weight.sum() == pytest.approx(1)
    assert (weight[B[:, 0, 1] == 0] == 0).all()
    assert (weight[B[:, 2, 0] == 1] == 0).all()
    for i, j in np.argwhere(edges.free):
        assert weight[B[:, i, j] == 1].sum() == pytest.approx(edges.marginal[i, j])


def is_acyclic(draws: np.ndarray) -> np.ndarray:
    power = np.eye(draws.shape[-1], dtype=np.int64)
    for _ in range(draws.shape[-1]):
        power = (power @ draws.astype(np.int64) > 0).astype(np.int64)
    return ~power.any(axis=(1, 2))


KNOWLEDGE = {
    "nothing": {},
    "required": {"required": [("d", "a"), ("b", "a")]},
    "forbidden": {"forbidden": [("a", "b"), ("c", "d")]},
    "tiers": {"tiers": [["b"], ["c", "d"]], "closed_tiers": [1]},
    "all": {
        "required": [("b", "c")],
        "forbidden": [("a", "d")],
        "tiers": [["b"], ["c", "a"]],
        "beliefs": {("d", "c"): 0.9},
    },
}


@pytest.mark.parametrize("kind", KNOWLEDGE)
def test_every_draw_is_a_dag_that_keeps_the_hard_knowledge(kind):
    edges = Prior(p=0.6, **KNOWLEDGE[kind]).bind(list("abcd"))
    draws = edges.sample(5000, seed=11)
    assert is_acyclic(draws).all()
    assert (draws[:, edges.required] == 1).all()
    assert (draws[:, ~edges.allowed] == 0).all()
    possible = edges.free & ~edges.required.T
    assert (draws[:, possible].mean(axis=0) > 0).all()


def graph_law(edges: EdgePrior) -> dict[bytes, float]:
    """p(A | K) by enumeration of orders and free edges."""
    m, free = len(edges.names), np.argwhere(edges.free)
    distribution: dict[bytes, float] = {}
    for order in permutations(range(m)):
        rank = np.argsort(order)
        if any(rank[i] > rank[j] for i, j in np.argwhere(edges.required)):
            continue
        ahead = rank[:, None] < rank[None, :]
        for values in product((0, 1), repeat=len(free)):
            B = edges.required.astype(np.uint8)
            B[tuple(free.T)] = values
            key = (B * ahead).astype(np.uint8).tobytes()
            distribution[key] = distribution.get(key, 0.0) + np.exp(edges.log_marginal(B))
    total = sum(distribution.values())
    return {key: weight / total for key, weight in distribution.items()}


@pytest.mark.parametrize("knowledge", [{}, {"required": [("c", "a")]}, {"tiers": [["b"], ["a"]]}])
def test_draws_follow_the_enumerated_law_of_graphs(knowledge):
    edges = Prior(p=0.4, beliefs={("b", "c"): 0.9}, **knowledge).bind(list("abc"))
    distribution, n = graph_law(edges), 40_000
    draws = edges.sample(n, seed=5)
    keys, counts = np.unique(draws.reshape(n, -1), axis=0, return_counts=True)
    seen = {key.tobytes(): count for key, count in zip(keys, counts, strict=True)}
    assert set(seen) <= set(distribution)
    test = chisquare(
        [seen.get(key, 0) for key in distribution], [n * weight for weight in distribution.values()]
    )
    assert test.pvalue > FALSE_ALARM


@pytest.mark.parametrize("knowledge", KNOWLEDGE.values())
def test_edge_probabilities_agree_with_enumeration_and_with_draws(knowledge):
    edges = Prior(p=0.4, **{"tiers": (), **knowledge}).bind(list("abcd"))
    pairs = np.argwhere(edges.required)
    feasible = [np.argsort(order) for order in permutations(range(4))]
    feasible = [rank for rank in feasible if all(rank[i] < rank[j] for i, j in pairs)]
    ahead = np.mean([rank[:, None] < rank[None, :] for rank in feasible], axis=0)
    exact = np.where(edges.required, 1.0, edges.marginal * ahead)
    assert np.allclose(edges.edge_probabilities(n=40_000), exact, atol=4 * 0.5 / 200)
    if not edges.required.any():
        assert np.allclose(edges.edge_probabilities(), edges.marginal / 2, rtol=1e-14)
    assert np.allclose(edges.sample(40_000).mean(axis=0), exact, atol=4.5 * 0.5 / 200)


PARTIAL_ORDERS = {
    "one edge": [(2, 0)],
    "fork": [(3, 0), (3, 1)],
    "collider": [(0, 3), (1, 3)],
    "N": [(0, 2), (1, 2), (1, 3)],
    "two parts": [(1, 0), (2, 3)],
    "chain": [(3, 2), (2, 0)],
}


@pytest.mark.parametrize("ideals", [2**14, 0], ids=["counting", "from the past"])
@pytest.mark.parametrize("kind", PARTIAL_ORDERS)
def test_orders_are_uniform_over_the_linear_extensions(kind, ideals):
    A = np.zeros((4, 4), dtype=bool)
    A[tuple(np.transpose(PARTIAL_ORDERS[kind]))] = True
    expected = [
        order
        for order in permutations(range(4))
        if all(order.index(i) < order.index(j) for i, j in PARTIAL_ORDERS[kind])
    ]
    orders = draw_linear_extensions(A, 12_000, np.random.default_rng(2), ideals=ideals)
    seen, counts = np.unique(orders, axis=0, return_counts=True)
    assert sorted(map(tuple, seen.tolist())) == expected
    assert len(expected) == 1 or chisquare(counts).pvalue > FALSE_ALARM


def test_both_samplers_agree_on_a_larger_partial_order():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((8, 8)) < 0.25, k=1)
    first, second = (
        np.argsort(draw_linear_extensions(A, 10_000, rng, ideals=ideals), axis=1)
        for ideals in (2**14, 0)
    )
    before = [(rank[:, :, None] < rank[:, None, :]).mean(axis=0) for rank in (first, second)]
    assert np.allclose(*before, atol=4.5 * np.sqrt(0.5 / 10_000))
    assert (before[0][A] == 1).all()
    assert (before[1][A] == 1).all()


def test_potentials_are_normal_given_the_required_edges():
    edges = Prior(required=[("b", "a")]).bind(["a", "b", "c"])
    r = edges.sample_potentials(40_000, seed=1)
    # E max(x, y) = 1/√π for two standard normals.
    assert np.allclose(r.mean(axis=0), [-1 / np.sqrt(np.pi), 1 / np.sqrt(np.pi), 0], atol=0.025)
    assert (r**2).mean() == pytest.approx(1, abs=0.02)
    assert (r[:, 1] > r[:, 0]).all()
