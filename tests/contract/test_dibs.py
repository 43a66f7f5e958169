"""`dibs` beyond the contract: networks, cyclic particles, the prior of few variables."""

import sys
from pathlib import Path

import numpy as np
import pytest

import svidag
from svidag.graph import are_dags
from svidag.methods import DiBS
from svidag.posterior.diagnostics import Level
from svidag.run.status import Status

sys.path.insert(0, str(Path(__file__).parent))

from checks import CAUSE, EFFECT, NAMES, OTHER, fit, table

pytestmark = pytest.mark.slow  # whole fits

QUICK = DiBS(iterations=150, graph_draws=4, edge_slope=0.2, hidden=(4,), weights="evidence")


def test_networks_find_a_strong_effect():
    posterior = fit(QUICK, table("effect"), mechanism="mlp")
    adjacent = posterior.adjacency_probabilities()
    assert adjacent.loc[CAUSE, EFFECT] > adjacent.loc[CAUSE, OTHER] + 0.3
    assert posterior.diagnostics.mechanism == "mlp"
    assert posterior.diagnostics.details.rejected_steps == 0


def test_where_every_particle_has_a_cycle_it_is_broken_and_said():
    method = DiBS(iterations=1, particles=2, graph_draws=4, latent=6)
    x = svidag.datasets.synthetic(m=12, edges=12, n=100, seed=2).data
    posterior = fit(method, x)
    details = posterior.diagnostics.details
    assert details.repaired
    assert details.cyclic_share == 1.0
    assert are_dags(posterior.sample(20)).all()
    reasons = [r.text for r in posterior.diagnostics.reasons if r.level is Level.NOT]
    assert any("had cycles" in text for text in reasons)
    assert posterior.diagnostics.status is Status.COMPLETED


def test_the_prior_of_few_variables_is_cut_and_stated_beliefs_are_not():
    method = DiBS(iterations=2, particles=3, graph_draws=4)
    assert fit(method, table("effect")).diagnostics.details.prior_clipped
    stated = fit(method, table("effect"), prior=svidag.Prior(p=0.2))
    assert not stated.diagnostics.details.prior_clipped


def test_a_belief_changes_the_particles():
    x = table("nothing")
    method = DiBS(iterations=150, graph_draws=16, edge_slope=0.1)
    pair = (NAMES[0], NAMES[2])
    sure = {other: 0.001 for other in _pairs() if other != pair}
    beliefs = svidag.Prior(beliefs={pair: 0.999, **sure}, confidence=1e6)
    found = fit(method, x, prior=beliefs).edge_probabilities()
    assert found.loc[pair] == found.to_numpy().max() > 0.5


def _pairs():
    return [(a, b) for a in NAMES for b in NAMES if a != b]


def test_equal_and_evidence_weights_agree_on_the_graphs():
    methods = [DiBS(iterations=60, graph_draws=8, weights=w) for w in ("equal", "evidence")]
    graphs = [fit(method, table("effect")).graphs for method in methods]
    assert np.array_equal(graphs[0].graphs, graphs[1].graphs)
    assert np.ptp(graphs[0].probability) == 0.0
    assert np.ptp(graphs[1].probability) > 0.0
