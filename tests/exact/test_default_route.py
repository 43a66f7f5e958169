"""`svidag.fit` with chains over orders against the exact posterior, with all kinds of knowledge."""

import numpy as np
import pytest

import svidag
from svidag import Prior
from svidag.graph import are_dags
from svidag.report import Level, judge
from svidag.run.status import Status

EIGHT = tuple(f"x{i}" for i in range(1, 9))


def sampled(data, *, mechanism, prior=None, interventions=None, seed=0, **settings):
    """A fit that is made to search and to run chains, though it could sum exactly."""
    method = svidag.methods.OrderMCMC(exact=False, **settings)
    return svidag.fit(
        data, method=method, mechanism=mechanism, prior=prior, interventions=interventions,
        seed=seed, progress=False,
    )  # fmt: skip


def worst_error(found, exact):
    gap = found.edge_probabilities() - exact.edge_probabilities()
    return np.abs(gap.to_numpy()).max()


@pytest.mark.parametrize(("m", "n"), [(8, 500), (10, 50)])
def test_edges_are_those_of_the_exact_posterior(m, n):
    data = svidag.datasets.synthetic(m, m, n, seed=f"default|{m}|{n}").data
    exact = svidag.exact.posterior(data).edge_probabilities().to_numpy()
    assert ((exact > 0.05) & (exact < 0.95)).sum() > 10
    found = sampled(data, mechanism="linear")
    assert found.diagnostics.status is not Status.EXACT
    error = np.abs(found.edge_probabilities().to_numpy() - exact)[~np.eye(m, dtype=bool)]
    assert error.mean() <= 0.01
    assert error.max() <= 0.05


def targets(frame, rows):
    """Each of three variables set from outside in some rows."""
    mask = np.zeros(frame.shape, dtype=bool)
    for k, j in enumerate((1, 4, 6)):
        mask[k * rows : (k + 1) * rows, j] = True
    return mask


KNOWLEDGE = {
    "interventions": {},
    "beliefs": {"beliefs": {("x1", "x3"): 0.9, ("x5", "x2"): 0.95, ("x7", "x8"): 0.02}},
    "required": {"required": [("x8", "x1"), ("x2", "x3"), ("x6", "x3")]},
    "forbidden": {"forbidden": [(a, b) for a in EIGHT[:3] for b in EIGHT[3:6]]},
    "tiers": {"tiers": [EIGHT[4:], EIGHT[:4]]},
    "all": {
        "p": 0.2,
        "beliefs": {("x1", "x3"): 0.9, ("x5", "x2"): 0.95},
        "required": [("x8", "x1"), ("x6", "x3")],
        "forbidden": [("x7", "x4"), ("x4", "x7")],
        "tiers": [EIGHT[4:], EIGHT[:4]],
    },
}


@pytest.mark.parametrize(
    ("knowledge", "mechanism"),
    [
        *((each, "linear") for each in KNOWLEDGE),
        ("interventions", "nonlinear"),
        ("all", "nonlinear"),
    ],
)
def test_grown_tables_give_the_exact_posterior_under_knowledge(knowledge, mechanism):
    m, n = 8, 400 if mechanism == "linear" else 200
    example = svidag.datasets.synthetic(m, 12, n, kind=mechanism, seed="knowledge")
    prior = Prior(**KNOWLEDGE[knowledge])
    choices = {"mechanism": mechanism, "prior": prior, "seed": 2}
    if mechanism == "nonlinear":
        choices["units"] = 12
    if knowledge in ("interventions", "all"):
        choices["interventions"] = targets(example.data, n // 10)
    exact = svidag.exact.posterior(example.data, **choices)
    found = sampled(example.data, **choices)
    assert found.diagnostics.status is Status.CONVERGED
    assert worst_error(found, exact) <= 0.05
    draws, bound = found.sample(500), prior.bind(found.names)
    assert are_dags(draws).all()
    assert draws[:, bound.required].all()
    assert not draws[:, ~bound.allowed].any()
    values = found.edge_probabilities().to_numpy()
    assert (values[bound.required] == 1).all()
    assert (values[~bound.allowed] == 0).all()


def test_a_network_with_a_stand_in_gives_the_exact_posterior_of_the_network():
    example = svidag.datasets.synthetic(7, 9, 320, kind="nonlinear", seed="sketched")
    choices = {"mechanism": "nonlinear", "units": 24, "seed": 1}
    exact = svidag.exact.posterior(example.data, **choices)
    stand_in = svidag.exact.posterior(example.data, **{**choices, "units": 6})
    found = sampled(example.data, sketch_units=6, **choices)
    assert worst_error(stand_in, exact) > 0.1
    assert worst_error(found, exact) <= 0.05
    assert found.diagnostics.status is Status.CONVERGED
    assert found.diagnostics.details.sketched_share < 0.01


def test_a_dense_graph_with_many_parents_gives_the_exact_posterior():
    """Three edges for each variable: lists of candidates made beforehand left true parents out."""
    data = svidag.datasets.synthetic(m=16, edges=48, n=1000, seed=7100).data
    found = sampled(data, mechanism="linear")
    assert found.diagnostics.status is Status.CONVERGED
    assert worst_error(found, svidag.exact.posterior(data)) <= 0.05
    assert not any(reason.level is Level.NOT for reason in judge(found).reasons)
