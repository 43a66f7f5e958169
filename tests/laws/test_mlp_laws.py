"""The mechanism sees parents only, its divergence is exact, and interventions do not count."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from svidag.mechanisms.mlp import MLPMechanism, ParameterGuide

pytestmark = pytest.mark.slow  # compiles networks

M, ROWS = 4, 12
A = jnp.array([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4])
X = jr.normal(jr.key(10), (ROWS, M))
EVERYWHERE = jnp.ones((ROWS, M), bool)


@pytest.fixture(scope="module", params=["column", "graph"])
def mechanism(request):
    return perturbed(build(request.param))


def build(condition="column", **settings):
    settings = {"hidden": (5, 6), "hyper": (7, 8)} | settings
    return MLPMechanism(M, condition=condition, key=jr.key(0), **settings)


def perturbed(module):
    """The module away from its start, where scales do not depend on the graph."""
    generator = np.random.default_rng(7)

    def move(leaf):
        return jnp.asarray(np.asarray(leaf) + 0.3 * generator.normal(size=leaf.shape), leaf.dtype)

    return jax.tree.map(move, module)


def test_prediction_is_the_network_on_masked_inputs(mechanism):
    theta = mechanism.guide(A).sample(jr.key(1))
    expected = np.empty((ROWS, M))
    for j in range(M):
        h = np.asarray(X) * np.asarray(A)[:, j]
        for layer, (weight, bias) in enumerate(zip(theta.weights, theta.biases, strict=True)):
            h = (np.tanh(h) if layer else h) @ np.asarray(weight[j]) + np.asarray(bias[j])
        expected[:, j] = h[:, 0]
    np.testing.assert_allclose(mechanism.predict(theta, A, X), expected, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, -3.7, 1e30])
def test_a_variable_that_is_no_parent_has_no_effect_to_the_bit(mechanism, value):
    theta = mechanism.guide(A).sample(jr.key(1))
    predict = eqx.filter_jit(mechanism.predict)
    here = predict(theta, A, X)
    for i in range(M):
        there = predict(theta, A, X.at[:, i].set(value))
        others = np.asarray(A[i] == 0)
        np.testing.assert_array_equal(here[:, others], there[:, others])
        assert (here[:, ~others] != there[:, ~others]).all()


def test_a_weight_of_no_parent_has_no_effect_to_the_bit(mechanism):
    theta = mechanism.guide(A).sample(jr.key(1))
    first = jnp.where(A.T[:, :, None] == 1, theta.weights[0], 1e30)
    changed = eqx.tree_at(lambda t: t.weights[0], theta, first)
    np.testing.assert_array_equal(mechanism.predict(theta, A, X), mechanism.predict(changed, A, X))


def test_the_guide_of_a_node_depends_on_its_own_column_only():
    mechanism = perturbed(build("column"))
    here, there = mechanism.guide(A), mechanism.guide(A.at[0, 3].set(1.0))
    for before, after in ((here.mean, there.mean), (here.scale, there.scale)):
        np.testing.assert_array_equal(before[:3], after[:3])
        assert (before[3] != after[3]).any()


def test_the_guide_of_every_node_may_depend_on_the_whole_graph():
    mechanism = perturbed(build("graph"))
    here, there = mechanism.guide(A), mechanism.guide(A.at[0, 3].set(1.0))
    assert (here.mean != there.mean).any(axis=1).all()


def test_scales_start_at_the_softplus_of_minus_two():
    guide = build().guide(A)
    np.testing.assert_allclose(guide.scale, np.log1p(np.exp(-2.0)) + 1e-6, rtol=1e-5)
    assert jnp.abs(guide.mean[1:]).max() > 0.01


def test_the_kernels_of_a_new_mechanism_have_variance_one_over_fan_in():
    mechanism = MLPMechanism(M, hyper=(200,), key=jr.key(0))
    np.testing.assert_allclose(mechanism.mean_head[:, :-1].var(), 1 / 200, rtol=0.02)
    np.testing.assert_allclose(mechanism.trunk_weights[0].var(), 1 / M, rtol=0.1)
    assert not mechanism.mean_head[:, -1].any()
    other = MLPMechanism(M, hyper=(200,), key=jr.key(1))
    assert (mechanism.mean_head[:, :-1] != other.mean_head[:, :-1]).mean() > 0.99


def test_divergence_in_closed_form_equals_monte_carlo():
    mechanism = perturbed(
        build(hidden=(2,), prior_scale=0.7, noise_location=-1.0, noise_spread=0.5)
    )
    guide = mechanism.guide(A)
    draws = 20_000
    mean, scale = np.asarray(guide.mean, float), np.asarray(guide.scale, float)
    theta = mean + scale * np.random.default_rng(3).normal(size=(draws, *mean.shape))
    normal = scipy.stats.norm.logpdf
    log_q = normal(theta, mean, scale)
    gap_weights = (log_q - normal(theta, 0.0, 0.7))[..., :-1].sum(-1)
    gap_noise = (log_q - normal(theta, -1.0, 0.5))[..., -1]
    kl = mechanism.kl(guide)
    for exact, gap in ((kl.weights, gap_weights), (kl.noise, gap_noise)):
        # Five standard errors on four nodes: fails by chance once in 10⁵.
        assert (np.abs(gap.mean(0) - np.asarray(exact)) < 5 * gap.std(0) / draws**0.5).all()


def test_divergence_from_itself_is_zero():
    mechanism = build(prior_scale=0.7, noise_location=-1.0, noise_spread=0.5)
    d = mechanism.mean_head.shape[-1]
    prior = ParameterGuide(
        jnp.zeros((M, d)).at[:, -1].set(-1.0),
        jnp.full((M, d), 0.7).at[:, -1].set(0.5),
        mechanism.widths,
    )
    kl = mechanism.kl(prior)
    np.testing.assert_allclose(kl.weights, 0.0, atol=1e-5)
    np.testing.assert_allclose(kl.noise, 0.0, atol=1e-6)


def test_draws_have_the_guides_moments():
    guide = perturbed(build(hidden=(2,))).guide(A)
    draws = 4000
    theta = jax.jit(jax.vmap(guide.sample))(jr.split(jr.key(4), draws))
    means, scales = np.asarray(guide.mean), np.asarray(guide.scale)
    start = 0
    for weight, (inner, outer) in zip(theta.weights, pairwise(guide.widths), strict=True):
        stop = start + inner * outer
        flat = np.asarray(weight).reshape(draws, M, -1)
        error = np.abs(flat.mean(0) - means[:, start:stop]) / scales[:, start:stop]
        assert error.max() < 6 / draws**0.5
        np.testing.assert_allclose(flat.std(0), scales[:, start:stop], rtol=0.08)
        start = stop + outer
    np.testing.assert_allclose(np.std(theta.log_noise, axis=0), scales[:, -1], rtol=0.08)


def test_many_graphs_at_once_are_as_one_at_a_time(mechanism):
    graphs = jnp.stack([A, A.T, 0 * A])
    guide = mechanism.guide(graphs)
    theta = guide.sample(jr.key(1))
    x = jnp.stack([X, 2 * X, -X])
    together = mechanism.predict(theta, graphs, x)
    for k in range(3):
        alone = mechanism.guide(graphs[k])
        np.testing.assert_allclose(guide.mean[:, k], alone.mean, atol=1e-5)
        np.testing.assert_allclose(guide.scale[:, k], alone.scale, atol=1e-5)
        single = jax.tree.map(lambda leaf, k=k: leaf[:, k], theta)
        np.testing.assert_allclose(
            together[k], mechanism.predict(single, graphs[k], x[k]), atol=1e-4
        )


def test_noise_of_many_graphs_is_normal_and_uncorrelated():
    graphs, d, draws = 6, 5, 4000
    guide = ParameterGuide(jnp.zeros((1, graphs, d)), jnp.ones((1, graphs, d)), widths=(3, 1))
    theta = jax.jit(jax.vmap(guide.sample))(jr.split(jr.key(4), draws))
    parts = (theta.weights[0], theta.biases[0], theta.log_noise[..., None])
    noise = np.concatenate([np.asarray(p).reshape(draws, graphs, -1) for p in parts], axis=2)
    correlation = np.corrcoef(noise.reshape(draws, -1).T)
    # 435 pairs at five standard errors: fails by chance once in 4000.
    assert np.abs(correlation - np.eye(graphs * d)).max() < 5 / draws**0.5
    assert scipy.stats.kstest(noise[:, :, 0].ravel()[::4], "norm").pvalue > 1e-4
    within = np.corrcoef(np.abs(noise[:, 0]).T)
    assert np.abs(within - np.eye(d)).max() < 5 / draws**0.5


def test_likelihood_is_gaussian_with_the_variance_floor():
    mechanism = perturbed(build(variance_floor=0.3))
    theta = mechanism.guide(A).sample(jr.key(1))
    scale = jnp.sqrt(jnp.exp(2 * theta.log_noise) + 0.3)
    rows = jax.scipy.stats.norm.logpdf(X, mechanism.predict(theta, A, X), scale[None])
    np.testing.assert_allclose(mechanism.row_log_likelihood(theta, A, X), rows, rtol=1e-4)
    np.testing.assert_allclose(
        mechanism.log_likelihood(theta, A, X, EVERYWHERE), rows.sum(0), rtol=1e-4
    )


def test_rows_in_which_a_node_was_set_do_not_count_for_it(mechanism):
    theta = mechanism.guide(A).sample(jr.key(1))
    observed = EVERYWHERE.at[2:5, 1].set(False)
    rows = mechanism.row_log_likelihood(theta, A, X)
    counted = mechanism.log_likelihood(theta, A, X, observed)
    np.testing.assert_allclose(counted[1], rows[:2, 1].sum() + rows[5:, 1].sum(), rtol=1e-5)
    np.testing.assert_allclose(counted[2], rows[:, 2].sum(), rtol=1e-5)


def test_gradients_reach_the_soft_graph_through_the_hard_one(mechanism):
    theta_key = jr.key(1)

    def bound(graph):
        guide = mechanism.guide(graph)
        theta = guide.sample(theta_key)
        likelihood = mechanism.log_likelihood(theta, graph, X, EVERYWHERE).sum()
        return likelihood / ROWS - 0.01 * mechanism.kl(guide).weights.sum()

    def straight_through(soft):
        return bound(jax.lax.stop_gradient(A) + (soft - jax.lax.stop_gradient(soft)))

    gradient = np.asarray(jax.jit(jax.grad(straight_through))(jnp.full((M, M), 0.3)))
    step, cells = 1e-2, ((0, 1), (2, 3), (3, 0))
    moved = np.repeat(np.asarray(A)[None], 2 * len(cells), axis=0)
    for n, (i, j) in enumerate(cells):
        moved[2 * n : 2 * n + 2, i, j] += (step, -step)
    up, down = np.asarray(jax.jit(jax.vmap(bound))(moved)).reshape(-1, 2).T
    slopes = np.array([gradient[cell] for cell in cells])
    np.testing.assert_allclose(slopes, (up - down) / (2 * step), rtol=0.03, atol=0.02)
    assert (np.abs(slopes) > 0.05).all()
