"""The check of a fit looks at a graph that the posterior holds, not at the consensus of all."""

import numpy as np
import pytest

import svidag
from svidag.posterior.fit_check import check_fit
from svidag.posterior.residuals import residuals, typical_graph


@pytest.fixture(scope="module")
def divided():
    """Linear data whose classes differ in which of several arrows there are."""
    example = svidag.datasets.synthetic(m=10, edges=15, n=2000, seed="env linear 8")
    return svidag.exact.posterior(example.data)


def test_a_right_fit_passes_where_the_consensus_explains_nothing(divided):
    consensus = divided.consensus().graph.to_numpy()
    draws = divided.sample(1000)
    assert not (draws == consensus).all(axis=(1, 2)).any()  # no probable graph
    assert (draws == typical_graph(divided)).all(axis=(1, 2)).any()
    check = check_fit(divided)
    assert check is not None
    assert check.passed
    assert check.p_value > 0.05


def test_residuals_of_a_typical_graph_are_uncorrelated(divided):
    apart = np.corrcoef(residuals(divided).T) - np.eye(10)
    assert np.abs(apart).max() < 5 / np.sqrt(2000)
