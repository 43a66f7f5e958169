"""How draws compare with the true graph in log posterior, against direct computation."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import svidag
from svidag import exact
from svidag.bench import measures
from svidag.bench.cell import Cell, compute
from svidag.bench.measures import MEASURES, Outcome
from svidag.mechanisms.linear import STANDARDISED_SCALE, LinearGaussian
from svidag.mechanisms.local import pack_families
from svidag.mechanisms.wide import WideNetwork
from svidag.posterior import DrawnGraphs, Posterior

SEED = 3
BELIEFS = svidag.Prior(p=0.2, beliefs={("x1", "x3"): 0.7}, required=[("x1", "x2")])


def outcome(mechanism, prior, draws=12):
    """Draws from the exact posterior of a problem whose true graph has x1 → x2 and x1 → x3."""
    example = svidag.datasets.synthetic(4, 4, 40, seed=0)
    truth = example.truth * 0
    truth.loc["x1", ["x2", "x3"]] = truth.loc["x4", "x3"] = 1
    example = replace(example, truth=truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = exact.posterior(example.data, prior=prior, mechanism=mechanism, seed=SEED)
    graphs = posterior.sample(draws, seed=1)
    return Outcome(example, posterior, graphs, ("dag",), prior, SEED)


def score(found):
    (record,) = MEASURES["truth"].score(found)
    return record["nats_from_truth"]


def log_posterior(graph, problem, mechanism):
    """Σ_j f_j(parents of j) + Σ logit p_ij over the arrows that are open, one term at a time."""
    values, names = problem.data.values, problem.data.names
    model = (
        LinearGaussian.from_values(values, prior_scale=STANDARDISED_SCALE)
        if mechanism == "linear"
        else WideNetwork.from_values(values, names, units=200, seed=SEED)
    )
    free = problem.prior.free
    total = 0.0
    for j in range(len(names)):
        parents = graph[:, j].astype(bool)
        total += float(model.family_scores(np.array([j]), parents[None])[0])
        total += sum(problem.prior.logit[i, j] for i in np.flatnonzero(parents & free[:, j]))
    return total


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_the_log_posterior_of_draws_and_truth_is_that_of_a_direct_computation(mechanism):
    found = outcome(mechanism, BELIEFS)
    problem = found.posterior.problem
    truth = log_posterior(found.example.truth.to_numpy(), problem, mechanism)
    drawn = [log_posterior(graph, problem, mechanism) for graph in found.draws]
    assert len(np.unique(found.draws, axis=0)) > 3
    assert score(found) == pytest.approx(np.mean(drawn) - truth, abs=1e-9)
    assert abs(score(found)) > 0.1


def test_where_every_graph_counts_once_it_is_the_difference_of_exact_log_probabilities():
    found = outcome("linear", svidag.Prior(p=0.3))
    judge = exact.posterior(found.example.data, prior=found.prior, graph_weights="structure")
    truth = found.example.truth.to_numpy().astype(np.uint8)
    logs = judge.graphs.log_probability(np.concatenate([truth[None], found.draws]))
    assert score(found) == pytest.approx(np.mean(logs[1:]) - logs[0], abs=1e-9)


def test_draws_that_are_all_the_truth_are_at_zero():
    found = outcome("linear", BELIEFS)
    truth = found.example.truth.to_numpy().astype(np.uint8)
    assert score(replace(found, draws=np.repeat(truth[None], 300, axis=0))) == 0.0


def test_columns_of_the_truth_are_matched_by_name():
    found = outcome("linear", BELIEFS)
    turned = found.example.truth.iloc[::-1, ::-1]
    assert score(replace(found, example=replace(found.example, truth=turned))) == score(found)


def test_many_draws_are_compared_in_part(monkeypatch):
    found = outcome("linear", BELIEFS, draws=1000)
    monkeypatch.setattr(measures, "COMPARED_DRAWS", 3)
    assert score(found) == score(replace(found, draws=found.draws[[0, 499, 999]]))


def test_every_family_is_scored_once(monkeypatch):
    found = outcome("linear", BELIEFS)
    scored = []
    own = LinearGaussian.family_scores

    def counted(self, nodes, parents):
        scored.extend(pack_families(nodes, parents))
        return own(self, nodes, parents)

    monkeypatch.setattr(LinearGaussian, "family_scores", counted)
    score(found)
    assert 4 < len(scored) == len(set(scored))


def test_a_truth_that_knowledge_rules_out_has_no_number():
    cell = Cell(
        data={"source": "synthetic", "m": 3, "edges": 3, "n": 20},
        method={"method": "exact"},
        prior={"forbidden": [["x1", "x2"], ["x2", "x1"]]},
        measures=("truth",),
        draws=5,
    )
    assert compute(cell)["metrics"]["truth"] == [{"nats_from_truth": None}]


def test_a_cyclic_truth_and_a_posterior_without_its_problem_are_refused():
    found = outcome("linear", BELIEFS)
    cyclic = found.example.truth.copy()
    cyclic.loc["x2", "x1"] = 1
    with pytest.raises(ValueError, match="'truth' needs a true graph without cycles"):
        score(replace(found, example=replace(found.example, truth=cyclic)))
    bare = Posterior(found.posterior.names, DrawnGraphs(found.draws, np.full(12, 1 / 12)))
    with pytest.raises(ValueError, match="'truth' needs a posterior that carries its problem"):
        score(replace(found, posterior=bare))
