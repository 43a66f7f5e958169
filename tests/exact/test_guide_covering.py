"""What the guide learns from kept parent sets, against exact probabilities."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from svidag import Prior
from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.linear import LinearGaussian
from svidag.variational.guide_covering import log_density
from svidag.variational.kept_sets import KeptParentSets
from svidag.variational.node_inference import NodeInference
from svidag.variational.settings import VariationalSettings

SETS = np.array(list(itertools.product([False, True], repeat=3)))


def test_the_density_of_parent_sets_is_the_average_of_products_and_sums_to_one():
    logits = np.array([[0.4, -0.8, 0.1], [1.4, -1.5, -0.5]])
    p = 1 / (1 + np.exp(-logits))
    each = np.where(SETS[:, None], p, 1 - p).prod(axis=2)
    found = log_density(jnp.asarray(logits, jnp.float32), jnp.asarray(SETS), jnp.ones(3, bool))
    np.testing.assert_allclose(np.exp(found), each.mean(axis=1), rtol=1e-5)
    assert np.exp(found).sum() == pytest.approx(1)


def test_kept_sets_are_drawn_by_their_weight_among_those_within_the_column():
    sets = np.zeros((6, 3), dtype=bool)
    sets[3:, 0], sets[4:, 1] = [True, False, True], [True, True]
    nodes, share = np.array([0, 1, 2, 2, 2, 2]), np.array([1, 1, 0.1, 0.2, 0.3, 0.4])
    kept = KeptParentSets.of(nodes, sets, np.log(share), Prior().bind("abc"))
    columns = np.array([[True, True, False], [True, False, False]])
    drawn = kept.draw(np.array([2, 2]), columns, 1000, np.random.default_rng(0))
    frequency = [
        [(row == one).all(axis=1).mean() for one in sets[2:]] for row in drawn
    ]  # from equal shares, so that they are right up to one or two of a thousand
    np.testing.assert_allclose(frequency[0], [0.1, 0.2, 0.3, 0.4], atol=0.0021)
    np.testing.assert_allclose(frequency[1], [1 / 3, 2 / 3, 0, 0], atol=0.0021)


@pytest.mark.slow
def test_a_guide_that_settled_for_one_of_two_explanations_learns_both():
    """c has one of two nearly equal parents; the bound lets independent edges choose one."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((80, 3))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    x[:, 2] += x[:, 0] + x[:, 1]
    prior = Prior(p=0.2, required=[("a", "b")], forbidden=[("c", "a"), ("c", "b")]).bind("abc")
    model = LinearGaussian.from_values((x - x.mean(axis=0)) / x.std(axis=0))
    exact = ExactOrders.build(
        parent_weights(model.score_tables(), prior), prior.required
    ).edge_probabilities()
    assert (abs(exact[:2, 2] - 0.5) < 0.3).all()
    error = {}
    for covering in (0, 80):
        settings = VariationalSettings(
            correction="none", iterations=80, covering=covering, chains=2, levels=1, flattest=1.0,
            rounds=60, agreement=0.0, learning_rate=0.1,
        )  # fmt: skip
        found = NodeInference(model, prior, settings).run(seed=0)
        error[covering] = np.abs(found.edge_probabilities - exact).max()
    # 480 orders with 8 draws each: five standard errors are 0.04.
    assert error[80] < 0.06
    assert error[0] > 0.15
