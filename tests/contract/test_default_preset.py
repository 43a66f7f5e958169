"""The default preset, from a problem to a posterior."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.exact import posterior as exact_posterior
from svidag.graph import are_dags
from svidag.prior import Prior

QUICK = {"chains": 2, "burn_in": 50, "orders": 300, "thin": 5}


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 5))
    x[:, 1] += 0.6 * x[:, 0]
    x[:, 3] += 0.5 * x[:, 1] - 0.5 * x[:, 2]
    return pd.DataFrame(x, columns=list("abcde"))


def fit(frame, *, mechanism="linear", **settings):
    return svidag.fit(frame, mechanism=mechanism, progress=False, **{**QUICK, **settings})


def test_linear_fit_agrees_with_the_exact_posterior():
    found = fit(table())
    exact = exact_posterior(table(), mechanism="linear")
    assert found.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.04
    )
    assert found.names == tuple("abcde")
    assert found.diagnostics["settled"]


def test_nonlinear_fit_agrees_with_the_exact_posterior():
    frame = table()
    frame["d"] += np.abs(frame["a"])
    found = fit(frame, mechanism="nonlinear", units=16, seed=2)
    exact = exact_posterior(frame, mechanism="nonlinear", units=16, seed=2)
    assert found.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.04
    )


def test_hard_knowledge_and_interventions_agree_with_the_exact_posterior():
    frame = table()
    set_from_outside = np.zeros(frame.shape, dtype=bool)
    set_from_outside[:40, 1] = True
    prior = Prior(p=0.3, required=[("b", "a")], forbidden=[("c", "d")], beliefs={("e", "a"): 0.7})
    found = fit(frame, prior=prior, interventions=set_from_outside)
    exact = exact_posterior(frame, mechanism="linear", prior=prior, interventions=set_from_outside)
    assert found.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.04
    )


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_draws_are_dags_repeat_with_the_seed_and_match_the_edges(mechanism):
    found = fit(table(), mechanism=mechanism, units=16)
    draws = found.sample(2000, seed=1)
    assert are_dags(draws).all()
    assert (draws == found.sample(2000, seed=1)).all()
    assert draws.mean(axis=0) == pytest.approx(found.edge_probabilities().to_numpy(), abs=0.06)
    again = fit(table(), mechanism=mechanism, units=16)
    assert (again.edge_probabilities() == found.edge_probabilities()).all(axis=None)


def test_column_order_does_not_matter_to_the_nonlinear_posterior():
    frame = table(60)
    one = fit(frame, mechanism="nonlinear", units=16).edge_probabilities()
    turned = fit(frame[list("dbeac")], mechanism="nonlinear", units=16).edge_probabilities()
    assert turned.loc[list("abcde"), list("abcde")].to_numpy() == pytest.approx(
        one.to_numpy(), abs=0.05
    )


def test_sketched_and_full_nonlinear_fits_agree():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((320, 4))
    x[:, 2] += np.maximum(x[:, 0] - x[:, 1], 0)
    frame = pd.DataFrame(x, columns=list("abcd"))
    sketched = fit(frame, mechanism="nonlinear", units=40, sketch_units=8)
    full = fit(frame, mechanism="nonlinear", units=40, sketch_units=40)
    assert sketched.diagnostics["sketched_share"] < 0.01
    assert sketched.edge_probabilities().to_numpy() == pytest.approx(
        full.edge_probabilities().to_numpy(), abs=0.04
    )


def test_unknown_settings_and_mechanisms_are_errors():
    with pytest.raises(ValueError, match=r"unknown settings \['particles'\]"):
        fit(table(), particles=3)
    with pytest.raises(ValueError, match="mechanism must be one of"):
        fit(table(), mechanism="quadratic")


@pytest.mark.parametrize(("kind", "expected"), [("linear", "linear"), ("nonlinear", "nonlinear")])
def test_auto_chooses_by_evidence_and_says_by_how_much(kind, expected):
    example = svidag.datasets.synthetic(m=5, edges=6, n=300, kind=kind, seed=3)
    found = fit(example.data, mechanism="auto", units=40)
    assert found.diagnostics["mechanism"] == expected
    assert found.diagnostics["mechanism_margin"] > 0
