"""What ProDAG's guide follows: the bound written out in NumPy, and its gradient."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svidag.kernels.descent import FIRST
from svidag.methods import ProDAG
from svidag.orders.projection import acyclic_support
from svidag.run.streams import Stream, key
from svidag.variational import prodag

M, N, DRAWS = 4, 30, 6
PAIRS = ~np.eye(M, dtype=bool)
NONE = np.zeros((M, M), dtype=bool)
STEP = key(0, Stream.ALGORITHM_STEPS)


def a_guide(mechanism, seed=1):
    """A guide that is not the prior."""
    rng = np.random.default_rng(seed)
    guide = prodag.WeightGuide.start(M, None if mechanism == "linear" else 3)
    return jax.tree.map(
        lambda x: x + jnp.asarray(0.4 * rng.standard_normal(x.shape), jnp.float32), guide
    )


def a_table(seed=2):
    values = np.random.default_rng(seed).standard_normal((N, M))
    values[:, 1] += np.sin(2 * values[:, 0])
    return values


def by_hand(guide, weights, kept, values):
    """(KL − E log p)/N in float64, draw by draw and variable by variable; strengths as well."""
    kl = 0.0
    for mean, rho in zip(jax.tree.leaves(guide.mean), jax.tree.leaves(guide.rho), strict=True):
        mean, scale = np.float64(mean), np.logaddexp(0, np.float64(rho))
        kl += np.sum(-np.log(scale) + (scale**2 + mean**2) / 2 - 0.5)
    first, *others = [np.float64(layer) for layer in weights.weights]
    biases = [np.float64(bias) for bias in weights.biases]
    log_likelihood = 0.0
    for s in range(len(kept)):
        for j in range(M):
            hidden = np.zeros((N, first.shape[-1]))
            for i in range(M):
                if kept[s, i, j]:  # what is kept has the weights that it had
                    hidden += values[:, i, None] * first[s, j, i]
            if others:
                active = np.maximum(hidden + biases[0][s, j], 0)
                predicted = active @ others[0][s, j, :, 0] + biases[1][s, j, 0]
            else:
                predicted = hidden[:, 0]
            error = values[:, j] - predicted
            log_likelihood += np.sum(-0.5 * error**2 - 0.5 * np.log(2 * np.pi)) / len(kept)
    return (kl - log_likelihood) / N


@pytest.mark.parametrize("mechanism", ["linear", "mlp"])
def test_the_bound_and_its_gradient_are_those_of_the_formula(mechanism):
    guide, values = a_guide(mechanism), a_table()
    weights = guide.sample(STEP, DRAWS)
    strengths = np.sqrt(np.sum(np.float64(weights.weights[0]) ** 2, axis=-1)).swapaxes(1, 2)
    kept = acyclic_support(strengths, PAIRS, NONE).kept
    assert 0 < kept.mean() < 1
    found, gradient = one_step(guide, values, kept, mechanism)
    assert found == pytest.approx(by_hand(guide, weights, kept, values), rel=1e-5)
    rng, small = np.random.default_rng(3), 1e-5
    for layer, slope in enumerate(jax.tree.leaves(gradient)):
        at = tuple(rng.integers(slope.shape))  # a change of a mean is one of every draw
        ends = [
            by_hand(shifted(guide, layer, at, d), shifted(weights, layer, at, d), kept, values)
            for d in (-small, small)
        ]
        assert float(slope[at]) == pytest.approx((ends[1] - ends[0]) / (2 * small), rel=1e-3)


def shifted(tree, layer, at, by):
    """The means of a guide, or weights, with one entry of one layer moved."""
    mean, rho = (tree.mean, tree.rho) if hasattr(tree, "mean") else (tree, None)
    leaves, structure = jax.tree.flatten(mean)
    leaves = [np.float64(leaf) for leaf in leaves]
    leaves[layer][(..., *at)] += by
    moved = structure.unflatten(leaves)
    return moved if rho is None else SimpleNamespace(mean=moved, rho=rho)


def one_step(guide, values, kept, mechanism):
    """The loss of a step, and its gradient with respect to the means."""
    settings = ProDAG(hidden=3, radius=None)
    evidence = prodag.Evidence.of(values, np.ones(values.shape, dtype=bool))
    algorithm = prodag.ProDAG(evidence, PAIRS, NONE, mechanism, settings)
    state = eqx.tree_at(lambda s: s.guide, algorithm.init(STEP), guide)
    arrays = jnp.asarray(kept), jnp.asarray(NONE)
    moved, (loss, _) = prodag._advance(state, evidence, STEP, *arrays, np.inf, settings)
    gradient = jax.tree.map(lambda mean: mean / (1 - FIRST), moved.optimiser.mean)
    return float(loss), gradient.mean
