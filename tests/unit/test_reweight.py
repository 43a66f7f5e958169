"""Draws that count each graph once, where numbers of orders are exact and where they are not."""

import numpy as np
import pytest
from svidag.run.cautions import WeightWarning

from svidag.graph import random_dag
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior import structure_weights as reweight


def drawn(m, edges, count):
    """A posterior with these graphs, equally probable."""
    graphs = np.array([random_dag(m, edges, seed=seed) for seed in range(count)], dtype=np.uint8)
    distribution = DrawnGraphs(graphs, np.full(count, 1 / count))
    names = tuple(f"x{i}" for i in range(m))
    return Posterior(names, distribution)


def test_estimated_weights_are_the_exact_ones_within_their_error(monkeypatch):
    posterior = drawn(11, 16, 200)
    exact = reweight.structure_weighted(posterior, seed=0)
    assert exact.diagnostics["structure_count_error"] == 0
    monkeypatch.setattr(reweight, "EXACT", 10)
    estimated = reweight.structure_weighted(posterior, seed=0)
    assert 0.005 < estimated.diagnostics["structure_count_error"] < 0.1
    ratio = estimated.diagnostics["structure_ess"] / exact.diagnostics["structure_ess"]
    assert ratio == pytest.approx(1, abs=0.1)
    assert estimated.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.02
    )


def test_fifty_variables_are_no_error_and_few_effective_draws_are_told_of():
    with pytest.warns(WeightWarning, match=r"the 300 draws are worth \d+"):
        weighted = reweight.structure_weighted(drawn(50, 80, 300), seed=0, pool=300)
    assert 1 <= weighted.diagnostics["structure_ess"] < 100
    assert 0 < weighted.diagnostics["structure_count_error"] < 0.5
    assert weighted.sample(5).shape == (5, 50, 50)
