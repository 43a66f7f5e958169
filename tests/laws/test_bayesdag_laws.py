"""Laws of BayesDAG: shared networks, the target of a chain, orders with hard knowledge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import svidag
from svidag.methods.bayesdag import BayesDAG, _algorithm, _rows
from svidag.networks.embedded_mlp import EmbeddedMLP
from svidag.orders.relaxation import hard_mask, permuted_mask, relax, sorting_permutation
from svidag.problem import Problem

pytestmark = pytest.mark.slow  # compiles

NAMES = ["a", "b", "c"]


def problem(prior=None, interventions=None):
    x = np.random.default_rng(0).normal(size=(40, 3))
    data = svidag.Dataset.from_any(x, names=NAMES, interventions=interventions)
    return Problem.build(data, prior=prior, standardise=True)


def algorithm(whole=None, sparsity=2.0, mechanism="linear", **settings):
    whole = problem() if whole is None else whole
    return _algorithm(whole, BayesDAG(**settings), mechanism, np.ones(40, dtype=bool), sparsity)


def fitted(built, state, rows, seed=1):
    chains = state.chains
    return built.fit(
        chains.potentials, chains.equations, state.guide, state.sparsity, rows, jax.random.key(seed)
    )


def test_shared_networks_are_those_of_the_formula():
    """x̂_j = f_j(Σ_i A_ij ω_ij g(x_i 1_i, e_i), e_j) with whole inputs and all outputs."""
    rng = np.random.default_rng(0)
    every = EmbeddedMLP.start(3, (6, 6), rng, copies=1)
    networks = jax.tree.map(lambda leaf: leaf[0] + 0.1 * rng.standard_normal(leaf[0].shape), every)
    networks = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), networks)
    A = jnp.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    for x in rng.standard_normal((4, 3)).astype(np.float32):
        inputs = jnp.concatenate([jnp.diag(x), networks.embeddings], axis=1)
        summed = (A * networks.weights).T @ networks.inner(inputs)
        outputs = networks.outer(jnp.concatenate([summed, networks.embeddings], axis=1))
        found = networks(A, jnp.asarray(x)[None])[0]
        assert np.allclose(found, jnp.diag(outputs), atol=1e-5)


def test_a_missing_arrow_has_no_influence():
    networks = jax.tree.map(
        lambda leaf: leaf[0], EmbeddedMLP.start(3, (8,), np.random.default_rng(1), copies=1)
    )
    A = jnp.zeros((3, 3)).at[0, 1].set(1.0)
    slopes = jax.jacobian(lambda x: networks(A, x[None])[0])(jnp.ones(3))
    assert np.flatnonzero(np.asarray(slopes).T).tolist() == [1]


def test_a_hard_permutation_has_the_derivative_of_the_relaxed_one():
    r = jnp.array([0.02, -0.01, 0.05])
    P = sorting_permutation(r, 0.02)
    assert (permuted_mask(P) == hard_mask(r)).all()
    weight = jnp.arange(9.0).reshape(3, 3)
    found, soft = (
        jax.grad(lambda r, of=of: (weight * of(r)).sum())(r)
        for of in (lambda r: sorting_permutation(r, 0.02), lambda r: relax(r, 0.02).permutation)
    )
    assert np.allclose(found, soft, rtol=1e-5)


def test_an_arrow_costs_what_was_set():
    built = algorithm(sparsity=2.0)
    state = built.init(jax.random.key(0))
    found = fitted(built, state, _rows(problem(), np.ones(40, dtype=bool)))
    ordered_pairs = 3 * np.log(0.5)  # Bernoulli(1/2) on those that the order allows
    assert np.allclose(found.log_prior, ordered_pairs - 2.0 * found.arrows, atol=1e-5)


def test_beliefs_are_those_of_the_pairs_that_the_order_allows():
    whole = problem(svidag.Prior(p=0.2, beliefs={("a", "b"): 0.9}))
    built = algorithm(whole, sparsity=0.0)
    state = built.init(jax.random.key(0))
    key = jax.random.key(1)
    found = fitted(built, state, _rows(whole, np.ones(40, dtype=bool)))
    p = np.asarray(built.probability)
    from svidag.kernels import noise

    for chain, own in enumerate(noise.split(key, built.settings.chains)):
        A, mask = built.draw(own, state.chains.potentials[chain], state.guide.edges)
        each = np.where(np.asarray(A) > 0, np.log(p), np.log1p(-p))
        expected = each[np.asarray(mask) > 0].sum()
        assert float(found.log_prior[chain]) == pytest.approx(expected, abs=1e-5)


def test_entries_set_from_outside_do_not_count():
    mask = np.zeros((40, 3), dtype=bool)
    mask[:10, 1] = True
    whole = problem(interventions=mask)
    built = algorithm(whole)
    state = built.init(jax.random.key(0))
    rows = _rows(whole, np.ones(40, dtype=bool))
    sinks = state.chains.potentials.at[:, 1].set(-9.0)  # the second variable causes nothing
    state = jax.tree.map(lambda leaf: leaf, state)
    changed = rows._replace(values=rows.values.at[:10, 1].set(50.0))
    likelihood = [
        built.fit(
            sinks, state.chains.equations, state.guide, state.sparsity, r, jax.random.key(1)
        ).likelihood
        for r in (rows, changed)
    ]
    assert np.allclose(*likelihood)


def test_a_chain_of_the_mean_has_a_tenth_of_its_gradient():
    """V takes part of the factor back; the first momentum shows it."""
    rows = _rows(problem(), np.ones(40, dtype=bool))
    squares = []
    for drift in ("chain", "mean"):
        built = algorithm(drift=drift)
        chains, finite = built.move_equations(
            built.init(jax.random.key(0)), rows, jax.random.key(2)
        )
        assert bool(finite)
        squares.append(np.asarray(chains.equation_momentum.square.weights))
    assert np.allclose(squares[0], 100 * squares[1], rtol=1e-3)


@pytest.mark.parametrize("edge_input", ["potentials", "permutation"])
def test_hard_knowledge_holds_in_every_draw(edge_input):
    whole = problem(svidag.Prior(required=[("c", "a"), ("a", "b")], forbidden=[("c", "b")]))
    built = algorithm(whole, edge_input=edge_input)
    state = built.init(jax.random.key(0))
    for seed, potentials in enumerate(state.chains.potentials):
        A, _ = built.draw(jax.random.key(seed), potentials, state.guide.edges)
        assert A[2, 0] == 1
        assert A[0, 1] == 1
        assert A[2, 1] == 0
        assert np.asarray(A).sum() == 2
