"""Draws that count each graph once, where numbers of orders are exact and where they are not."""

import numpy as np
import pytest

from svidag.graph import random_dag
from svidag.posterior import DrawnGraphs, Posterior
from svidag.posterior import structure_weights as reweight
from svidag.posterior.diagnostics import Diagnostics, Level
from svidag.run.status import Status


def drawn(m, edges, count):
    """A posterior with these graphs, equally probable."""
    graphs = np.array([random_dag(m, edges, seed=seed) for seed in range(count)], dtype=np.uint8)
    distribution = DrawnGraphs(graphs, np.full(count, 1 / count))
    names = tuple(f"x{i}" for i in range(m))
    facts = Diagnostics("order-mcmc", "linear", Status.CONVERGED, 1.0)
    return Posterior(names, distribution, log_evidence=-1.0, diagnostics=facts)


def test_estimated_weights_are_the_exact_ones_within_their_error(monkeypatch):
    posterior = drawn(11, 16, 200)
    exact = reweight.structure_weighted(posterior, seed=0)
    assert exact.diagnostics.structure_weights.count_error == 0
    assert exact.diagnostics.structure_weights.draws == reweight.POOL
    assert exact.diagnostics.graph_weights == "structure"
    assert exact.log_evidence is None  # that of the other model
    monkeypatch.setattr(reweight, "EXACT", 10)
    estimated = reweight.structure_weighted(posterior, seed=0)
    weights = estimated.diagnostics.structure_weights
    assert 0.005 < weights.count_error < 0.1
    ratio = weights.effective_draws / exact.diagnostics.structure_weights.effective_draws
    assert ratio == pytest.approx(1, abs=0.1)
    assert estimated.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.02
    )


def test_fifty_variables_are_no_error_and_few_effective_draws_are_not_trusted():
    weighted = reweight.structure_weighted(drawn(50, 80, 300), seed=0, pool=300)
    found = weighted.diagnostics.structure_weights
    assert found.draws == 300
    assert 1 <= found.effective_draws < 100
    assert 0 < found.count_error < 0.5
    (reason,) = weighted.diagnostics.reasons
    assert reason.level is Level.NOT
    assert f"leaves {found.effective_draws:.0f} effective draws, too few" in reason.text
    assert weighted.sample(5).shape == (5, 50, 50)
