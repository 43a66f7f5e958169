"""Each bound lies below the log evidence, and its slopes against sums over all edges.

Three variables in a fixed order: three pairs are open, and eight graphs are all there are.
"""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.relaxation import hard_mask
from svidag.prior import Prior
from svidag.variational.guide import BernoulliGuide, MeanFieldGuide
from svidag.variational.particle_bound import (
    BoundEstimation,
    Evidence,
    Networks,
    Rows,
    conditional_bound,
    draw_edges,
)

pytestmark = pytest.mark.slow  # compiles bounds and their gradients

DRAWS = 20_000
PAIRS = ((0, 1), (0, 2), (1, 2))  # open in the order 0, 1, 2
R = jnp.tile(jnp.array([[1.0, 0.0, -1.0]]), (DRAWS, 1))
GRAPHS = np.zeros((8, 3, 3), dtype=bool)
for at, present in enumerate(itertools.product([False, True], repeat=3)):
    for pair, there in zip(PAIRS, present, strict=True):
        GRAPHS[at][pair] = there
PRIOR = Prior(p=0.3).bind("abc")
LOGITS = np.array([[0.0, 0.8, -0.3], [0.0, 0.0, 0.6], [0.0, 0.0, 0.0]], np.float32)


def table():
    x = np.random.default_rng(4).standard_normal((25, 3))
    x[:, 1] += 0.5 * x[:, 0]
    x[:, 2] += 0.6 * x[:, 1]
    return (x - x.mean(axis=0)) / x.std(axis=0)


SCORES = LinearGaussian.from_values(table())
ROWS = Rows(jnp.asarray(table(), jnp.float32), jnp.ones((25, 3), bool))


def log_joints():
    """log p(D, B) of the eight graphs."""
    odds = np.log(PRIOR.alpha / PRIOR.beta)
    found = []
    for graph in GRAPHS:
        score = SCORES.family_scores(np.arange(3), graph.T).sum()
        edges = [odds[pair] * graph[pair] - np.log1p(np.exp(odds[pair])) for pair in PAIRS]
        found.append(score + sum(edges))
    return np.array(found)


def scored(networks, estimation, key):
    """The evidence of the graphs that an estimate with this key draws, with their changes."""
    graphs = np.asarray(draw_edges(networks, PRIOR.to_jax(), R, key, estimation).graph) > 0
    nodes = np.tile(np.arange(3), len(graphs))
    wanted = np.tile(PRIOR.allowed.T, (len(graphs), 1))
    scores, changes = SCORES.flips(nodes, graphs.swapaxes(1, 2).reshape(-1, 3), wanted)
    return Evidence(
        jnp.asarray(scores.reshape(-1, 3), jnp.float32),
        jnp.asarray(changes.reshape(-1, 3, 3).swapaxes(1, 2), jnp.float32),
    )


def estimate(guide, bound, gradient="difference", key=jr.key(0)):  # noqa: B008
    """The bound of every draw, and the mean slope of the guide's logits."""
    estimation = BoundEstimation(0.3, 1, 1, gradient, bound)
    evidence = scored(Networks(guide, None), estimation, key)

    @eqx.filter_jit
    @partial(eqx.filter_value_and_grad, has_aux=True)
    def climb(guide):
        networks = Networks(guide, None)
        terms, _ = conditional_bound(
            networks, PRIOR.to_jax(), ROWS, R, hard_mask(R), key, estimation, evidence=evidence
        )
        return terms.total.mean(), terms.total

    (_, each), slope = climb(guide)
    return np.asarray(each, float), slope


def below(each, log_evidence):
    error = each.std() / np.sqrt(len(each))
    return each.mean() - 4 * error <= log_evidence


@pytest.mark.parametrize("shift", [-2.0, 0.0, 1.5])
def test_the_tight_bound_is_below_the_log_evidence_and_close_where_the_guide_is_right(shift):
    log_joint = log_joints()
    log_evidence = np.logaddexp.reduce(log_joint)
    weights = np.exp(log_joint - log_evidence)
    shares = np.einsum("b,bij->ij", weights, GRAPHS)
    right = np.log(np.clip(shares, 1e-6, 1 - 1e-6) / np.clip(1 - shares, 1e-6, 1))
    right[~GRAPHS.any(axis=0)] = 0
    each, _ = estimate(BernoulliGuide(jnp.asarray(right + shift, jnp.float32)), "tight")
    assert below(each, log_evidence)
    if shift == 0:
        assert each.mean() > log_evidence - 0.5
    else:
        assert each.mean() < log_evidence - 0.2


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_the_published_bound_is_below_the_log_evidence(scale):
    """Its mean over logits is below the tight bound of the same edges, by what it charges them."""
    log_evidence = np.logaddexp.reduce(log_joints())
    guide = MeanFieldGuide(3, location=LOGITS, scale=scale)
    each, _ = estimate(guide, "published")
    assert below(each, log_evidence)
    assert each.mean() < log_evidence - 1


def expected_slope(logits):
    """d/dl of Σ_B q(B) [log p(D, B) − log q(B)], summed over the eight graphs."""
    on = jnp.asarray(np.array([[graph[pair] for pair in PAIRS] for graph in GRAPHS]), jnp.float32)
    values = jnp.asarray(log_joints() - log_joints().max(), jnp.float32)

    def bound(at):
        log_q = (on * at[None] + jax.nn.log_sigmoid(-at)[None]).sum(axis=1)
        return (jnp.exp(log_q) * (values - log_q)).sum()

    return np.asarray(jax.grad(bound)(jnp.asarray([logits[pair] for pair in PAIRS])))


def test_differences_have_the_exact_slope_and_straight_through_does_not():
    """Its bias with an integrated mechanism: 3 per cent of the largest slope at T = 0.3."""
    exact = expected_slope(LOGITS)
    slopes = {}
    for gradient in ("difference", "straight-through"):
        _, slope = estimate(BernoulliGuide(jnp.asarray(LOGITS)), "tight", gradient)
        slopes[gradient] = np.array([slope.logits[pair] for pair in PAIRS])
    bias = np.abs(slopes["straight-through"] - exact).max() / np.abs(exact).max()
    assert np.abs(slopes["difference"] - exact).max() < 0.01 * np.abs(exact).max()
    assert 0.02 < bias < 0.1


def test_differences_of_the_published_bound_have_the_exact_slope_for_the_logits_drawn():
    guide = MeanFieldGuide(3, location=LOGITS, scale=0.7)
    _, slope = estimate(guide, "published")
    estimation = BoundEstimation(0.3, 1, 1, "difference", "published")
    drawn = draw_edges(Networks(guide, None), PRIOR.to_jax(), R, jr.key(0), estimation)
    on = jnp.asarray(np.array([[graph[pair] for pair in PAIRS] for graph in GRAPHS]), jnp.float32)
    scores = np.array([SCORES.family_scores(np.arange(3), graph.T).sum() for graph in GRAPHS])
    scores = jnp.asarray(scores - scores.max(), jnp.float32)

    @jax.jit
    def exact(shift):
        gamma = drawn.gamma + shift[None]
        at = jnp.stack([gamma[:, i, j] for i, j in PAIRS], axis=1)
        log_q = (on[None] * at[:, None] + jax.nn.log_sigmoid(-at)[:, None]).sum(axis=2)
        evidence = (jnp.exp(log_q) * scores[None]).sum(axis=1)
        return (evidence + jax.vmap(PRIOR.to_jax().log_density)(gamma)).mean()

    expected = np.asarray(jax.grad(exact)(jnp.zeros((3, 3))))
    found = np.zeros((3, 3))
    found[~np.eye(3, dtype=bool)] = slope.location
    for pair in PAIRS:
        assert found[pair] == pytest.approx(
            expected[pair], abs=0.03 * float(np.abs(expected).max())
        )


def test_the_bound_of_a_linear_layer_is_below_its_evidence_and_close_to_it():
    """x1 = b + w x0 + σ ε with w, b ~ N(0, 1) and log σ ~ N(log 0.1, 2²), integrated by quadrature.

    The guide has the posterior's mean and its own best scales; weights of absent parents follow
    their prior and cost nothing.
    """
    x, y = table()[:, 0], table()[:, 1]
    design = np.stack([x, np.ones_like(x)], axis=1)

    def density(log_scale):
        covariance = np.exp(2 * log_scale) * np.eye(len(x)) + design @ design.T
        evidence = scipy.stats.multivariate_normal(np.zeros(len(x)), covariance).logpdf(y)
        return np.exp(evidence + scipy.stats.norm(np.log(0.1), 2).logpdf(log_scale) + 40)

    log_evidence = np.log(scipy.integrate.quad(density, -3, 3)[0]) - 40
    scale = np.sqrt(((y - design @ np.linalg.lstsq(design, y)[0]) ** 2).sum() / (len(x) - 2))
    precision = design.T @ design / scale**2 + np.eye(2)
    w, b = np.linalg.solve(precision, design.T @ y / scale**2)
    mean = np.array([w, 0.0, b, np.log(scale)])
    spread = np.array([precision[0, 0] ** -0.5, 0.1, precision[1, 1] ** -0.5, (2 * len(x)) ** -0.5])

    mechanism = MLPMechanism(2, hidden=(), hyper=(1,), absent_weights="prior", key=jr.key(0))
    heads = np.zeros((2, 2, 2, 4), np.float32)  # of means and scales, by node; the last row: bias
    heads[0, :, -1], heads[1, :, -1] = mean, np.log(np.expm1(spread))
    mechanism = eqx.tree_at(
        lambda m: (m.mean_head, m.scale_head),
        mechanism,
        tuple(map(jnp.asarray, heads)),
    )
    rows = Rows(jnp.asarray(np.stack([x, y], axis=1), jnp.float32), jnp.ones((len(x), 2), bool))
    A = jnp.tile(jnp.array([[[0.0, 1.0], [0.0, 0.0]]]), (DRAWS, 1, 1))
    guide = mechanism.guide(A)
    theta = guide.sample(jr.key(1))
    each = mechanism.log_likelihood(
        theta, A, jnp.tile(rows.values[None], (DRAWS, 1, 1)), jnp.ones((DRAWS, len(x), 2), bool)
    )[1]
    bound = np.asarray(each - sum(mechanism.kl(guide, A))[1], float)
    assert below(bound, log_evidence)
    assert bound.mean() > log_evidence - 0.5


def linear_layer_evidence(x, y):
    """log p(y) of y = b + X w + σ ε with w, b ~ N(0, 1), log σ ~ N(log 0.1, 2²), by quadrature."""
    design = np.column_stack([x, np.ones(len(y))])
    values, vectors = np.linalg.eigh(design @ design.T)
    turned = vectors.T @ y
    grid = np.linspace(-3, 3, 4001)
    variance = np.exp(2 * grid)[:, None] + np.maximum(values, 0)[None]
    log_density = -0.5 * (turned**2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)
    log_density += scipy.stats.norm(np.log(0.1), 2).logpdf(grid)
    top = log_density.max()
    return np.log(scipy.integrate.trapezoid(np.exp(log_density - top), grid)) + top


@pytest.mark.parametrize("bound", ["tight", "published"])
@pytest.mark.parametrize("absent", ["prior", "learned"])
def test_the_bounds_with_linear_layers_are_below_the_evidence_of_all_graphs(bound, absent):
    """The sum over the eight graphs of their evidence, weights and noise integrated out."""
    x, odds = table(), np.log(PRIOR.alpha / PRIOR.beta)
    log_joint = []
    for graph in GRAPHS:
        score = sum(linear_layer_evidence(x[:, graph[:, j]], x[:, j]) for j in range(3))
        edges = [odds[pair] * graph[pair] - np.log1p(np.exp(odds[pair])) for pair in PAIRS]
        log_joint.append(score + sum(edges))
    log_evidence = np.logaddexp.reduce(log_joint)

    mechanism = MLPMechanism(3, hidden=(), hyper=(1,), absent_weights=absent, key=jr.key(0))
    heads = np.zeros((2, 3, 2, 5), np.float32)  # of means and scales, by node; the last row: bias
    spread = np.array([0.2, 0.2, 0.2, 0.2, 50**-0.5])
    heads[0, :, -1, 0], heads[1, :, -1] = 0.4, np.log(np.expm1(spread))
    mechanism = eqx.tree_at(
        lambda m: (m.mean_head, m.scale_head), mechanism, tuple(map(jnp.asarray, heads))
    )
    guide = BernoulliGuide(jnp.asarray(LOGITS))
    if bound == "published":
        guide = MeanFieldGuide(3, location=LOGITS, scale=1.0)
    terms, _ = eqx.filter_jit(conditional_bound)(
        Networks(guide, mechanism),
        PRIOR.to_jax(),
        ROWS,
        R,
        hard_mask(R),
        jr.key(2),
        BoundEstimation(0.3, 25, 1, "straight-through", bound),
    )
    each = np.asarray(terms.total, float)
    assert below(each, log_evidence)
    assert each.mean() > log_evidence - 60  # a guide far from the posterior proves little
