"""`svidag.fit` as it comes, on linear problems of usual sizes, against the exact posterior."""

import numpy as np
import pytest

import svidag


@pytest.mark.parametrize("n", [50, 500])
@pytest.mark.parametrize("m", [8, 10])
def test_edges_are_those_of_the_exact_posterior(m, n):
    data = svidag.datasets.synthetic(m, m, n, seed=f"default|{m}|{n}").data
    exact = svidag.exact.posterior(data).edge_probabilities().to_numpy()
    assert ((exact > 0.05) & (exact < 0.95)).sum() > 10
    found = svidag.fit(data, mechanism="linear", progress=False)
    assert found.diagnostics["edges"] == "table"
    error = np.abs(found.edge_probabilities().to_numpy() - exact)[~np.eye(m, dtype=bool)]
    assert error.mean() <= 0.01
    assert error.max() <= 0.05
