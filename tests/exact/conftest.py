"""What several comparisons with exact answers share."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from svidag import Prior
from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.linear import LinearGaussian
from svidag.orders.permutation import possible_edges


class FourNodes(NamedTuple):
    """A linear problem with hard knowledge, three orders, and log p(D | order) of each."""

    model: LinearGaussian
    prior: Any
    orders: np.ndarray
    exact: np.ndarray


@pytest.fixture
def four_nodes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 4)) @ (np.eye(4) + np.triu(np.ones((4, 4)), 1))
    prior = Prior(p=0.3, forbidden=[("a", "d")], required=[("b", "c")]).bind("abcd")
    model = LinearGaussian.from_values(x)
    distribution = ExactOrders.build(parent_weights(model.score_tables(), prior), prior.required)
    orders = np.array([[0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0]])
    bits = (1 << np.arange(4)) @ possible_edges(orders, np.ones((4, 4), dtype=bool))
    exact = distribution.follow[np.arange(4), bits].sum(axis=1)
    return FourNodes(model, prior, orders, exact)
