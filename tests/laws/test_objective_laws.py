"""The published bound, term by term, against NumPy and SciPy on the very draws it was made of."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from svidag.kernels import noise
from svidag.mechanisms.mlp import MLPMechanism
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.variational.guide import BernoulliGuide, FlowGuide
from svidag.variational.order_guide import GaussianOrders
from svidag.variational.particle_bound import BoundEstimation, Networks, Rows, conditional_bound

pytestmark = pytest.mark.slow  # compiles bounds of networks

M, N, BATCH, DRAWS = 3, 12, 5, 2
OFF = ~np.eye(M, dtype=bool)
R = np.array([[0.3, -1.0, 0.8], [-0.2, 0.5, 0.1]], np.float32)
ALPHA = np.array([[1.0, 0.7, 2.0], [1.5, 1.0, 0.4], [3.0, 1.2, 1.0]], np.float32)
BETA = np.array([[1.0, 2.0, 0.9], [4.0, 1.0, 1.1], [0.6, 2.5, 1.0]], np.float32)
LOGITS = np.array([[0.0, 0.8, -0.3], [1.2, 0.0, 0.4], [-0.7, 0.5, 0.0]], np.float32)
KEY = jr.key(5)


def perturbed(module, spread):
    """The module away from its start, where much is zero."""
    rng = np.random.default_rng(7)
    leaves, rest = eqx.partition(module, eqx.is_inexact_array)

    def move(x):
        drawn = rng.standard_normal(x.shape, np.float32)
        return jax.device_put(np.asarray(x) + np.float32(spread) * drawn)

    return eqx.combine(jax.tree.map(move, leaves), rest)


def edge_guide(kind):
    if kind == "bernoulli":
        return BernoulliGuide(jnp.asarray(LOGITS))
    flow = FlowGuide(M, blocks=2, width=4, depth=1, location=LOGITS, scale=1.4, key=jr.key(0))
    return perturbed(flow, 0.3)


def problem():
    """Rows of which some do not count, one pair that is required and one that is forbidden."""
    rng = np.random.default_rng(1)
    required, allowed = np.zeros((M, M), bool), OFF.copy()
    required[2, 1], allowed[2, 0] = True, False
    observed = rng.random((N, M)) < 0.8
    rows = Rows(jnp.asarray(rng.standard_normal((N, M)), jnp.float32), jnp.asarray(observed))
    return JaxEdgePrior(*map(jnp.asarray, (ALPHA, BETA, allowed, required))), rows


class Found(NamedTuple):
    """The terms of the bound and the number of edges, with everything that was drawn for them."""

    terms: Any
    edges: np.ndarray
    z: np.ndarray
    gamma: np.ndarray
    jacobian: np.ndarray | None
    A: np.ndarray
    guide: Any
    theta: Any
    x: np.ndarray
    observed: np.ndarray


@pytest.fixture(scope="module", params=["flow", "bernoulli"])
def found(request):
    mechanism = MLPMechanism(
        M,
        hidden=(4,),
        hyper=(3,),
        prior_scale=0.7,
        noise_location=-0.5,
        noise_spread=0.6,
        variance_floor=0.05,
        key=jr.key(1),
    )
    networks = Networks(edge_guide(request.param), perturbed(mechanism, 0.2))
    beliefs, rows = problem()
    # The relaxed masks are for derivatives: the value must not depend on them.
    masks = jnp.full((len(R), M, M), 0.123)
    bound = "published" if request.param == "flow" else "tight"
    estimation = BoundEstimation(0.3, BATCH, DRAWS, bound=bound)
    terms, edges = eqx.filter_jit(conditional_bound)(
        networks, beliefs, rows, jnp.asarray(R), masks, KEY, estimation
    )
    _, key_noise, key_theta, key_rows = noise.split(KEY, 4)
    z, gamma, jacobian = logits(networks.edges)
    A = graphs(gamma, np.asarray(noise.logistic(key_noise, gamma.shape)))
    guide, theta = parameters(networks.mechanism, jnp.asarray(A, jnp.float32), key_theta)
    batch = rows.batches(key_rows, (len(A), BATCH))
    parts = (z, gamma, jacobian, A, guide, theta, *batch)
    return Found(terms, *jax.tree.map(np.asarray, (edges, *parts)))


@eqx.filter_jit
def logits(edges):
    """Base noise z of every draw, its logits γ and ∂γ/∂z."""
    r = jnp.repeat(jnp.asarray(R), DRAWS, axis=0)
    keys = noise.split(noise.split(KEY, 4)[0], len(r))
    z = jax.vmap(lambda key: noise.normal(key, (M * (M - 1),)))(keys)
    gamma = jax.vmap(edges.sample)(keys, r)
    if isinstance(edges, BernoulliGuide):
        return z, gamma, None
    centred = r - r.mean(axis=1, keepdims=True)
    return z, gamma, jax.vmap(jax.jacrev(edges.bijection.transform))(z, centred)


@eqx.filter_jit
def parameters(mechanism, A, key):
    guide = mechanism.guide(A)
    return guide, guide.sample(key)


def graphs(gamma, logistic):
    """A = [γ + R > 0] with the order and hard knowledge kept, edge by edge."""
    r = np.repeat(R, DRAWS, axis=0)
    A = np.zeros(gamma.shape)
    for k, i, j in np.ndindex(*A.shape):
        if i == j or (i, j) == (2, 0) or r[k, i] <= r[k, j]:
            continue
        A[k, i, j] = (i, j) == (2, 1) or gamma[k, i, j] + logistic[k, i, j] > 0
    return A


def averaged(values):
    """Over the draws of each order."""
    return np.reshape(values, (len(R), DRAWS)).mean(axis=1)


def test_the_graph_is_hard_and_keeps_order_and_knowledge(found):
    present = found.A.sum(axis=(1, 2))
    assert 0 < present.sum() < len(present) * M * (M - 1) / 2
    np.testing.assert_allclose(found.edges, averaged(present))


def test_each_row_of_the_batch_counts_for_n_over_batch(found):
    theta, A = found.theta, found.A
    expected = np.zeros(len(A))
    for k, j in np.ndindex(len(A), M):
        h = (found.x[k] * A[k, :, j]) @ theta.weights[0][j, k] + theta.biases[0][j, k]
        mean = np.tanh(h) @ theta.weights[1][j, k] + theta.biases[1][j, k]
        scale = np.sqrt(np.exp(2 * float(theta.log_noise[j, k])) + 0.05)
        each = scipy.stats.norm.logpdf(found.x[k, :, j], mean[:, 0], scale)
        expected[k] += N / BATCH * each[found.observed[k, :, j]].sum()
    np.testing.assert_allclose(found.terms.log_likelihood, averaged(expected), rtol=1e-4)


def normal_divergence(mean, scale, location, spread):
    """KL of two Gaussians: cross entropy less entropy."""
    square = (mean - location) ** 2 + scale**2
    cross = 0.5 * np.log(2 * np.pi * spread**2) + square / (2 * spread**2)
    return cross - scipy.stats.norm.entropy(scale=scale)


def test_divergences_of_weights_and_noise_are_subtracted(found):
    mean, scale = found.guide.mean.astype(float), found.guide.scale.astype(float)
    weights = normal_divergence(mean[..., :-1], scale[..., :-1], 0.0, 0.7).sum(axis=(0, 2))
    scales = normal_divergence(mean[..., -1], scale[..., -1], -0.5, 0.6).sum(axis=0)
    np.testing.assert_allclose(found.terms.parameters, averaged(-weights), rtol=1e-4)
    np.testing.assert_allclose(found.terms.noise, averaged(-scales), rtol=1e-4)


def test_the_guide_over_edges_is_held_against_its_prior(found):
    if found.jacobian is None:  # the tight bound: edges themselves, where the order allows them
        r = np.repeat(R, DRAWS, axis=0)
        free = OFF.copy()
        free[2, 1] = free[2, 0] = False
        pairs = (r[:, :, None] > r[:, None, :]) & free
        q, p = scipy.special.expit(LOGITS.astype(float)), ALPHA / (ALPHA + BETA)
        entropy, log_prior = (
            averaged(np.where(pairs, scipy.stats.bernoulli.logpmf(found.A, x), 0).sum(axis=(1, 2)))
            for x in (q, p)
        )
        entropy = -entropy
    else:
        share = scipy.special.expit(found.gamma[:, OFF].astype(float))
        # If p ~ Beta(α, β), then γ = logit p has density Beta(p) p (1 − p).
        density = scipy.stats.beta.logpdf(share, ALPHA[OFF], BETA[OFF])
        log_prior = averaged((density + np.log(share * (1 - share))).sum(axis=1))
        volume = np.linalg.slogdet(found.jacobian.astype(float))[1]
        entropy = averaged(volume - scipy.stats.norm.logpdf(found.z).sum(axis=1))
    np.testing.assert_allclose(found.terms.log_prior, np.broadcast_to(log_prior, 2), rtol=1e-4)
    np.testing.assert_allclose(found.terms.entropy, np.broadcast_to(entropy, 2), rtol=1e-4)


def test_the_bound_is_the_sum_of_its_terms(found):
    total = np.sum([np.asarray(term) for term in found.terms], axis=0)
    np.testing.assert_allclose(found.terms.total, total, rtol=1e-5)


def test_divergence_of_gaussian_orders_is_the_integral():
    q = GaussianOrders(jnp.array([0.4, -1.3, 0.0]), jnp.array([-0.5, 0.9, 0.3]))
    mean, scale = np.asarray(q.mean, float), np.log1p(np.exp(np.asarray(q.rho, float)))
    prior = scipy.stats.norm(0.0, 1.7)
    expected = 0.0
    for centre, width in zip(mean, scale, strict=True):
        own = scipy.stats.norm(centre, width)
        expected += scipy.integrate.quad(
            lambda r, own=own: own.pdf(r) * (own.logpdf(r) - prior.logpdf(r)),
            centre - 10 * width,
            centre + 10 * width,
        )[0]
    np.testing.assert_allclose(q.kl(1.7), expected, rtol=1e-5)
