"""A step of Algorithm 1 against autodiff of the bound itself, and what it does when it fails."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from svidag.kernels import noise
from svidag.methods import PublishedSVIDAG
from svidag.orders.relaxation import Sinkhorn, relax
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run.loop import FitError, Keys, Schedule, run
from svidag.run.status import Status
from svidag.variational.particle_algorithm import (
    ParticleAlgorithm,
    ParticleState,
    StepInfo,
)
from svidag.variational.particle_bound import Rows

pytestmark = pytest.mark.slow  # compiles training steps

K, M, N = 3, 3, 40
RATE, PARTICLE_RATE, SIGMA, TAU, TEMPERATURE = 0.003, 0.2, 1.3, 0.8, 0.4
SMALL = {
    "particles": K,
    "batch": 8,
    "blocks": 1,
    "width": 4,
    "hidden": (3,),
    "hyper": (3,),
    "potential_scale": SIGMA,
    "temperature": TEMPERATURE,
}
UNROLLED = Sinkhorn(sweeps=300, newton=0, start="flat", gradient="unrolled")
QUICK = {"xla_backend_optimization_level": 0}


def chain():
    """x0 → x1 → x2."""
    x = np.random.default_rng(0).standard_normal((N, M)).astype(np.float32)
    x[:, 1] += 2 * x[:, 0]
    x[:, 2] -= x[:, 1]
    return x / x.std(axis=0)


def wild(count):
    """The same with some rows whose squares overflow."""
    x = chain()
    x[:count] = 1e30
    return x


def algorithm(x, **settings):
    alpha, beta = np.full((2, M, M), [[[2.0]], [[3.0]]], np.float32)
    allowed, required = ~np.eye(M, dtype=bool), np.zeros((M, M), bool)
    prior = JaxEdgePrior(*jax.device_put((alpha, beta, allowed, required)))
    rows = Rows(*jax.device_put((x, np.ones((N, M), bool))))
    return ParticleAlgorithm.build(rows, prior, PublishedSVIDAG(**{**SMALL, **settings}), seed=0)


def bent(state):
    """The state away from the start, where the flow ignores the order."""
    rng = np.random.default_rng(3)

    def move(x):
        return jax.device_put(np.asarray(x) + 0.2 * rng.standard_normal(x.shape, np.float32))

    moved = jax.tree.map(move, state.networks)
    return eqx.tree_at(lambda s: s.networks, state, moved)


class Step(NamedTuple):
    published: ParticleAlgorithm
    before: ParticleState
    after: ParticleState
    info: StepInfo
    key: jax.Array


@pytest.fixture(scope="module")
def step():
    """One step by plain gradient descent, the scores of the particles not clipped."""
    published = algorithm(
        chain(),
        tau_initial=TAU,
        particle_clip=1e9,
        optimiser=optax.sgd(RATE, momentum=0.9),
        particle_optimiser=optax.sgd(PARTICLE_RATE),
    )
    before, key = bent(published.init(jr.key(0))), jr.key(1)
    after, info = advance(published, before, key)
    return Step(published, before, after, info, key)


@eqx.filter_jit
def advance(published, state, key):
    return published.step(state, key)


def bounds(published, networks, r, key):
    """L̂ of each particle, written out from the guides' own parts, with A_ST = A + Ã − sg(Ã)."""
    networks, rows = published.complete(networks), published.rows
    key_edges, key_noise, key_theta, key_rows = noise.split(key, 4)
    gamma, log_q = jax.vmap(networks.edges.sample_and_log_prob)(noise.split(key_edges, K), r)
    open_pairs = 1.0 - jnp.eye(M)[None]
    noisy = gamma + noise.logistic(key_noise, gamma.shape)
    hard = (noisy > 0) * open_pairs * (r[:, :, None] > r[:, None, :])
    masks = jax.vmap(lambda r: relax(r, TAU, UNROLLED).mask)(r)
    soft = jax.nn.sigmoid(noisy / TEMPERATURE) * open_pairs * masks
    A = jax.lax.stop_gradient(hard - soft) + soft
    guide = networks.mechanism.guide(A)
    x, observed = rows.batches(key_rows, (K, SMALL["batch"]))
    likelihood = networks.mechanism.log_likelihood(guide.sample(key_theta), A, x, observed)
    divergence = sum(networks.mechanism.kl(guide))
    a, b = published.prior.alpha[None], published.prior.beta[None]
    share = jax.nn.sigmoid(gamma)
    log_p = jax.scipy.stats.beta.logpdf(share, a, b) + jnp.log(share * (1 - share))
    prior = (log_p * open_pairs).sum(axis=(1, 2))
    return (N / SMALL["batch"] * likelihood - divergence).sum(axis=0) + prior - log_q


@pytest.fixture(scope="module")
def slopes(step):
    """The bounds, ∇_φ of their mean, and each particle's ∇_r of its own."""

    @eqx.filter_jit(compiler_options=QUICK)
    def differentiate(networks, r):
        values, pull = jax.vjp(lambda *at: bounds(step.published, *at, step.key), networks, r)
        ones = jnp.ones(K)
        return values, pull(ones / K)[0], pull(ones)[1]

    with jax.numpy_dtype_promotion("standard"):
        return differentiate(step.before.networks, step.before.orders)


def test_the_reported_bound_is_the_mean_over_particles(step, slopes):
    np.testing.assert_allclose(step.info.estimate.bound, slopes[0].mean(), rtol=1e-4)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_networks_climb_the_mean_bound_at_the_given_rate(step, slopes):
    before, after = step.before.networks, step.after.networks
    moved = (flat(after) - flat(before)) / RATE
    slope = flat(slopes[1])
    assert (np.abs(slope) > 1e-3 * np.abs(slope).max()).mean() > 0.3
    # A parameter of size one is known to 1e-7, and what it moved by to that over the rate.
    np.testing.assert_allclose(moved, slope, rtol=1e-3, atol=1e-4 * np.abs(slope).max())


def stein(r, scores, features):
    """Eq. svgd_update pair by pair: features and their Jacobians are those of `features`."""
    psi, jacobian = (np.asarray(part, float) for part in features)
    squares = ((psi[:, None] - psi[None]) ** 2).sum(axis=(2, 3))
    h = np.median(squares[np.triu_indices(K, 1)]) / np.log(K + 1)
    out = np.zeros_like(r)
    for j, k in np.ndindex(K, K):
        kernel = np.exp(-squares[j, k] / h)
        repulsion = -2 / h * kernel * np.einsum("ab,abl->l", psi[j] - psi[k], jacobian[j])
        out[k] += (kernel * scores[j] + repulsion) / K
    return out


def test_particles_climb_their_own_bound_and_prior_at_the_given_rate(step, slopes):
    r = np.asarray(step.before.orders, float)
    scores = np.asarray(slopes[2], float) - r / SIGMA**2

    @jax.jit
    def features(r):
        def mask(r):
            return relax(r, TAU, UNROLLED).mask

        return jax.vmap(mask)(r), jax.vmap(jax.jacrev(mask))(r)

    expected = stein(r, scores, features(step.before.orders))
    moved = (np.asarray(step.after.orders, float) - r) / PARTICLE_RATE
    np.testing.assert_allclose(moved, expected, rtol=5e-3, atol=2e-3 * np.abs(expected).max())
    assert step.info.estimate.orders.clipped == 0


def test_the_momentum_of_the_given_optimiser_is_kept(step, slopes):
    kept, slope = flat(step.after.optimiser), flat(slopes[1])
    np.testing.assert_allclose(kept, -slope, rtol=1e-3, atol=1e-5 * np.abs(slope).max())


def test_a_step_that_is_not_finite_leaves_the_state_and_is_counted(step):
    broken = eqx.tree_at(lambda p: p.rows.values, step.published, jax.device_put(wild(N)))
    state = step.after
    for rejected in (1, 2):
        state, info = advance(broken, state, jr.key(rejected))
        assert info.rejected == state.rejected == rejected
    assert state.count == step.after.count + 2
    for name in ("orders", "networks", "optimiser", "order_optimiser"):
        kept, old = (jax.tree.leaves(getattr(s, name)) for s in (state, step.after))
        assert all(np.array_equal(a, b) for a, b in zip(kept, old, strict=True))
    state, info = advance(step.published, state, jr.key(3))
    assert info.rejected == 0
    assert not np.array_equal(state.orders, step.after.orders)


STEPS = 400
ADAM = {"iterations": STEPS, "learning_rate": 0.02}
LOOP = {"chunk": 50}


def test_the_bound_rises():
    outcome = run(algorithm(chain(), **ADAM), Keys.of_seed(0), Schedule(STEPS, **LOOP))
    bound = outcome.trace["bound"].astype(float)
    first, last = bound[:50], bound[-50:]
    error = np.hypot(first.std(), last.std()) / np.sqrt(50)
    assert last.mean() - first.mean() > 6 * error
    assert (outcome.trace["rejected"] == 0).all()


def test_steps_with_a_wild_row_are_rejected_by_adam_and_the_others_are_not():
    outcome = run(algorithm(wild(1), **ADAM), Keys.of_seed(0), Schedule(50, **LOOP))
    finite = np.isfinite(outcome.trace["bound"])
    assert 5 < finite.sum() < 45
    expected = [0]
    for fine in finite:
        expected.append(0 if fine else expected[-1] + 1)
    assert outcome.trace["rejected"].tolist() == expected[1:]
    assert outcome.state.optimiser.steps == finite.sum()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(outcome.state))


def test_too_many_rejected_steps_in_a_row_end_the_fit():
    broken = algorithm(wild(N), **ADAM)
    with pytest.raises(FitError, match="20 steps in a row were not finite") as raised:
        run(broken, Keys.of_seed(0), Schedule(100, max_rejected=20, **LOOP))
    assert raised.value.status is Status.DIVERGED
