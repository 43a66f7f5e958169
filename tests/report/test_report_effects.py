"""All effects at once against each pair alone."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.posterior import DrawnGraphs, Posterior
from svidag.report import effects as module
from svidag.report.effects import LEVEL, effects


def curved(n=200):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(n)
    b = np.tanh(a) + 0.5 * rng.standard_normal(n)
    c = b**2 / 2 + 0.5 * rng.standard_normal(n)
    return pd.DataFrame({"a": a, "b": b, "c": c})


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_all_pairs_agree_with_each_alone(mechanism):
    prior = svidag.Prior(required=[("a", "b")])
    posterior = svidag.exact.posterior(curved(), mechanism=mechanism, prior=prior)
    found = effects(posterior)
    assert found is not None
    for i, cause in enumerate("abc"):
        for j, effect in enumerate("abc"):
            if i == j:
                assert found.mean[i, j] == 0
                continue
            alone = posterior.effect(
                cause, effect, change=float(found.change[i]), n=1000, level=LEVEL
            )
            share = 2 / np.sqrt(found.draws)  # four standard errors
            assert found.zero[i, j] == pytest.approx(alone.probability_zero, abs=share)
            error = 4 * alone.sd / np.sqrt(found.draws) + 0.02
            assert found.mean[i, j] == pytest.approx(alone.mean, abs=error)
            assert found.low[i, j] == pytest.approx(alone.interval[0], abs=10 * error)
            assert found.high[i, j] == pytest.approx(alone.interval[1], abs=10 * error)


def test_an_unstandardised_fit_has_its_own_units():
    frame = 3 * curved() + 5
    mask = np.zeros(frame.shape, dtype=bool)
    mask[:20, 0] = True
    plain = svidag.exact.posterior(frame, interventions=mask, standardise=False)
    scaled = svidag.exact.posterior(frame, interventions=mask)
    for one, other in zip(module._usual(plain), module._usual(scaled), strict=True):
        np.testing.assert_allclose(one, other)


def test_graphs_alone_have_no_effects():
    graphs = np.zeros((1, 2, 2), dtype=np.uint8)
    assert effects(Posterior(("a", "b"), DrawnGraphs(graphs, np.ones(1)))) is None


def test_a_change_beyond_all_observed_values_is_marked():
    frame = curved()
    frame["a"] = (frame["a"] > -1.5).astype(float)  # nearly always 1: one deviation above is more
    found = effects(svidag.exact.posterior(frame))
    assert found.beyond.tolist() == [True, False, False]
