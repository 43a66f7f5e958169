"""`svi-dag-published` in all its configurations, on tiny fits."""

import sys
from pathlib import Path

import numpy as np
import optax
import pytest
import scipy.stats

import svidag
from svidag.graph import are_dags
from svidag.methods import METHODS
from svidag.run import loop
from svidag.run.status import Status
from svidag.variational.particle_algorithm import ParticleAlgorithm

sys.path.insert(0, str(Path(__file__).parent))

from choices import fit

from interruption import kill_and_run_again

pytestmark = pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps

TINY = {
    "iterations": 30,
    "particles": 4,
    "batch": 16,
    "blocks": 2,
    "width": 8,
    "hidden": (8,),
    "hyper": (4,),
    "method": "svi-dag-published",
}
CONFIGURATIONS = {
    "published": {},
    "autoregressive, whole graph": {"guide": "masked-autoregressive", "condition": "graph"},
    "ELBO-br": {"guide": "mean-field", "bound": "tight"},
    "author's training, other networks": {
        "kl_weight": 0.01,
        "noise_sd": 0.5,
        "warm_up": 1.0,
        "hidden": (),
        "skip": True,
        "absent_weights": "prior",
        "blocks": 1,
    },
    "linear, all switches": {
        "mechanism": "linear",
        "bound": "tight",
        "edge_gradient": "difference",
        "start": 0.0,
        "draws": 2,
        "blocks": 1,
    },
    "linear, affine, Gaussian orders, 100 sweeps": {
        "mechanism": "linear",
        "guide": "affine-coupling",
        "orders": "gaussian",
        "sinkhorn_iterations": 100,
        "scale_invariant": True,
        "draws": 2,
        "blocks": 1,
    },
}
"""Each value of each setting; every one is a program to compile. Differences of edges with the
published bound are in the contract of all methods."""
QUICK = {**TINY, **CONFIGURATIONS["ELBO-br"]}
"""Compiled in the shortest time, where it does not matter which."""
KNOWLEDGE = svidag.Prior(
    p=0.4,
    required=[("c", "a")],
    forbidden=[("a", "b")],
    tiers=[["c"], ["a", "d"]],
    shrink_to=0.5,  # the paper's rule
)


def rows(n=60):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 4))
    x[:, 1] += x[:, 0]
    x[:, 2] -= x[:, 1]
    return svidag.Dataset.from_any(x, names=("a", "b", "c", "d"))


@pytest.fixture(scope="module")
def published():
    return fit(rows(), prior=KNOWLEDGE, **TINY)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_draw_is_a_dag_that_keeps_the_knowledge(name):
    posterior = fit(rows(), prior=KNOWLEDGE, **{**TINY, **CONFIGURATIONS[name]})
    draws = posterior.sample(300)
    assert are_dags(draws).all()
    assert draws[:, 2, 0].all()
    bound = KNOWLEDGE.bind(posterior.names)
    assert not draws[:, ~bound.allowed].any()
    trace = posterior.diagnostics.details.trace
    terms = ("log_likelihood", "parameters", "noise", "log_prior", "entropy", "potentials")
    total = sum(trace[term] for term in terms if term in trace)
    np.testing.assert_allclose(total, trace["bound"], rtol=1e-4)
    assert posterior.diagnostics.details.rejected_steps == 0
    probability = posterior.edge_probabilities().to_numpy()
    # 300 draws against 4000 averaged ones: 5 standard errors of the former.
    assert np.abs(draws.mean(axis=0) - probability).max() < 5 * np.sqrt(0.25 / 300)
    assert probability[2, 0] == pytest.approx(1.0)


def test_same_seed_same_draws_whatever_the_chunk(published):
    again = fit(rows(), prior=KNOWLEDGE, chunk=7, **TINY)
    assert (again.sample(100, seed=3) == published.sample(100, seed=3)).all()
    assert again.edge_probabilities().equals(published.edge_probabilities())
    other = fit(rows(), prior=KNOWLEDGE, seed=1, **TINY)
    assert (other.sample(100, seed=3) != published.sample(100, seed=3)).any()


def test_the_published_corner_is_the_algorithm_that_stood_alone(published):
    """The first bounds of the version that had settings and code of its own."""
    before = [-686.57007, -705.2416, -706.9067, -677.4209, -686.702, -687.0383]
    np.testing.assert_allclose(published.diagnostics.details.trace["bound"][:6], before, rtol=1e-4)


def test_layers_may_be_lists(published):
    listed = fit(rows(), prior=KNOWLEDGE, **{**TINY, "hidden": [8], "hyper": [4]})
    assert listed.edge_probabilities().equals(published.edge_probabilities())


def test_a_fit_with_an_optimiser_of_ones_own_can_be_resumed(tmp_path):
    def again():
        own = {"optimiser": optax.sgd(1e-3), "particle_optimiser": optax.sgd(1e-2)}
        return fit(rows(), checkpoint=tmp_path / "run.npz", **own, **QUICK)

    assert again().edge_probabilities().equals(again().edge_probabilities())
    with pytest.raises(ValueError, match=r"another fit .*optimiser: 'given' there, None now"):
        fit(rows(), checkpoint=tmp_path / "run.npz", **QUICK)


def test_patience_ends_a_fit_at_the_first_look_that_shows_no_rise():
    settings = {**QUICK, "iterations": 2000, "patience": 50, "learning_rate": 1e-6}
    end = fit(rows(), chunk=30, **settings, particle_rate=1e-6)
    assert end.diagnostics.status is Status.CONVERGED
    bound = end.diagnostics.details.trace["bound"]
    steps = end.diagnostics.details.steps
    assert len(bound) == steps < 2000
    # Looks are on a grid of their own, so that the chunk does not decide where it ends.
    looks = range(loop.GRID, steps + 1, loop.GRID)
    assert [look for look in looks if _level(bound[:look], 50)] == [steps]


def _level(bound, n):
    before, last = bound[-2 * n : -n], bound[-n:]
    pair = scipy.stats.ttest_ind(last, before, equal_var=False)  # its t is the rise over its error
    return pair.statistic <= 2


def test_a_second_fit_of_the_same_shape_does_not_trace_again(published, monkeypatch):
    traced = []
    step = ParticleAlgorithm.step

    def counting(self, state, key):
        traced.append(None)
        return step(self, state, key)

    monkeypatch.setattr(ParticleAlgorithm, "step", counting)
    fit(rows(), prior=KNOWLEDGE, seed=5, **TINY)
    assert traced == []


def test_names_diagnostics_and_status(published):
    assert published.names == ("a", "b", "c", "d")
    details = published.diagnostics.details
    assert published.diagnostics.status is Status.COMPLETED
    assert len(details.trace["bound"]) == TINY["iterations"]
    assert {"bandwidth", "spread", "row_error", "rejected", "clipped"} <= details.trace.keys()
    assert details.compile_seconds >= 0


def test_effects_and_interventions(published):
    effect = published.effect("c", "a", change=0.5, n=20)
    assert effect.draws.shape == (20, 2)
    assert effect.probability_zero == 0  # c → a is required
    assert (effect.draws != 0).all()
    rows = published.do({"c": 2.0}, n=20)
    assert (rows["c"] == 2.0).all()
    assert np.isfinite(rows.to_numpy()).all()


def test_parameters_and_predictions(published):
    graph = published.sample(1)[0]
    drawn = published.parameters(graph, n=5)
    assert {len(values) for values in drawn.values()} == {5}
    held_out = published.predictive_log_likelihood(rows().values[:7], n=20)
    assert held_out.shape == (7,)
    assert np.isfinite(held_out).all()
    # Shrinking the units by 10 raises every density by log 10 a column.
    fine = svidag.Dataset.from_any(rows().values / 10, names=published.names)
    scaled = fit(fine, prior=KNOWLEDGE, **TINY)
    finer = scaled.predictive_log_likelihood(rows().values[:7] / 10, n=20)
    np.testing.assert_allclose(finer - held_out, 4 * np.log(10), atol=0.05)


def test_intervened_entries_are_no_evidence_about_their_own_causes():
    """Node d has no effects here, so what it was set to must not matter at all."""
    prior = svidag.Prior(p=0.4, forbidden=[("d", "a"), ("d", "b"), ("d", "c")])
    base = rows().values
    mask = np.zeros(base.shape, dtype=bool)
    mask[:30, 3] = True
    probability = []
    for value in (0.0, 100.0):
        x = base.copy()
        x[mask] = value
        data = svidag.Dataset.from_any(x, names=rows().names, interventions=mask)
        posterior = fit(data, prior=prior, standardise=False, **TINY)
        probability.append(posterior.edge_probabilities())
    assert probability[0].equals(probability[1])


def test_structure_weights_report_their_effective_size():
    posterior = fit(rows(), graph_weights="structure", **TINY)
    assert 1 <= posterior.diagnostics.structure_weights.effective_draws <= 10_000
    assert are_dags(posterior.sample(50)).all()


KILLED = """
import sys, numpy as np
sys.path[:0] = {tests}
import interruption, test_published as t
kept = {{"checkpoint": sys.argv[1], "progress": interruption.KillOnce(sys.argv[1])}}
p = t.fit(t.rows(), prior=t.KNOWLEDGE, chunk=10, **kept, **t.QUICK)
np.save(sys.argv[2], p.edge_probabilities().to_numpy())
"""


def test_a_killed_run_resumes_to_identical_probabilities(tmp_path):
    checkpoint, result = tmp_path / "run.npz", tmp_path / "edges.npy"
    code = KILLED.format(tests=[str(folder) for folder in Path(__file__).parents[:2]])
    kill_and_run_again(code, checkpoint, result)
    straight = fit(rows(), prior=KNOWLEDGE, **QUICK)
    assert (np.load(result) == straight.edge_probabilities().to_numpy()).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iterationss": 3}, "unknown setting 'iterationss'; did you mean 'iterations'"),
        ({"iterations": 0}, "iterations must be at least 1; got 0"),
        ({"guide": "planar"}, "guide must be one of"),
        ({"orders": "laplace"}, "orders must be one of"),
        ({"tau": 0.0}, "tau must be above 0"),
        ({"gradient_clip": 0.0}, "gradient_clip must be above 0"),
        ({"particle_clip": -1.0}, "particle_clip must be above 0"),
        ({"sinkhorn_iterations": 0}, "sinkhorn_iterations must be at least 1; got 0"),
        ({"hidden": [16, 0]}, "hidden must be at least 1; got 0"),
        ({"hyper": (4, True)}, "hyper must be a list of whole numbers"),
        ({"patience": 1}, "patience must be at least 2; got 1"),
        ({"seed": -1}, "seed must be a whole number from 0 on; got -1"),
        ({"mechanism": "flexible"}, "has the mechanisms 'mlp', .*; got 'flexible'"),
        ({"correction": "pseudo-marginal"}, "needs orders='moves': particles are not corrected"),
        ({"warm_up": 0.5, "edge_gradient": "difference"}, "warm_up needs edge_gradient="),
        ({"method": "svi-dag-publisht"}, "unknown method .* did you mean 'svi-dag-published'"),
        ({"graph_weights": "both"}, "graph_weights must be"),
    ],
)
def test_bad_choices_are_named(arguments, message):
    known = METHODS["svi-dag-published"].values()
    settings = {k: v for k, v in TINY.items() if k != "method"}
    settings |= {k: v for k, v in arguments.items() if k in known or k == "iterationss"}
    others = {k: v for k, v in arguments.items() if k not in settings}

    def attempt():
        method = METHODS["svi-dag-published"].with_values(settings)
        svidag.fit(rows(), **{"method": method, "progress": False, **others})

    with pytest.raises(ValueError, match=message):
        attempt()
