"""Environments of tables with discrete columns: evidences, what changes, and what follows a fit."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import svidag
from svidag.data import Dataset
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.posterior.residuals import residuals

N = 600


def batched(discrete: bool):
    """a → b → c; the mechanism of b alone changes with the batch, of which there are two."""
    rng = np.random.default_rng(6)
    batch = np.repeat(["x", "y"], N // 2)
    shift = np.where(batch == "x", -1.5, 1.5)
    a = rng.random(N) < 0.5 if discrete else rng.normal(size=N)
    b = 1.5 * np.asarray(a, float) + shift + rng.logistic(size=N) > 0
    c = np.digitize(2.0 * b + rng.logistic(size=N), [0, 2])
    return pd.DataFrame({"a": a, "b": b, "c": np.array(["low", "mid", "top"])[c], "batch": batch})


@pytest.fixture(scope="module", params=[True, False], ids=["discrete", "mixed"])
def fitted(request):
    table = batched(request.param)
    return svidag.fit(table, method="exact", environments="batch", progress=False)


def test_the_mechanism_that_changes_is_found(fitted):
    assert fitted.mechanism in ("discrete", "mixed")
    changes = fitted.changes()["changes"]
    assert changes["b"] > 0.95
    assert (changes[["a", "c"]] < 0.5).all()
    assert fitted.names == ("a", "b", "c")
    assert "That of b changes with batch." in fitted.summary().mechanism


def test_pooled_as_they_are_the_rows_say_otherwise_than_with_their_batch():
    """The batch moves b and d, which have nothing to do with each other."""
    table = batched(True)
    rng = np.random.default_rng(7)
    table["d"] = rng.random(N) < np.where(table["batch"] == "x", 0.2, 0.8)
    asked = {"method": "exact", "progress": False}
    alone = svidag.fit(table.drop(columns="batch"), **asked).adjacency_probabilities()
    known = svidag.fit(table, environments="batch", **asked).adjacency_probabilities()
    assert alone.loc["b", "d"] > 0.9
    assert known.loc["b", "d"] < 0.1


def test_evidences_are_averages_over_changed_and_unchanged():
    posterior = svidag.fit(batched(True), method="exact", environments="batch", progress=False)
    scores = posterior.mechanisms.model
    wide = Dataset.from_any(batched(True))  # the batch is its last column
    tables = DiscreteTables.of(wide)
    node, parents = np.array([1]), np.array([[True, False, False]])
    each = [
        tables.family_scores(node, np.hstack([parents, [[changed]]]))[0]
        for changed in (False, True)
    ]
    expected = logsumexp(each) - np.log(2)
    assert scores.family_scores(node, parents)[0] == pytest.approx(expected)
    assert scores.score_tables()[1, 0b001] == pytest.approx(expected)


def test_sizes_of_a_shift_change_nothing_but_the_prior_of_the_shift():
    posterior = svidag.fit(batched(False), method="exact", environments="batch", progress=False)
    scores, data = posterior.mechanisms.model, posterior.problem.data
    plain = OrderAveraged(MixedMechanism(data))
    node, parents = np.array([2]), np.array([[False, True, False]])
    unchanged, shifted = scores.structure_scores(node, parents)[:, 0]
    # With the environment as a column, features of other columns are what they were.
    assert unchanged == pytest.approx(plain.family_scores(node, parents)[0], abs=0.5)
    assert shifted < unchanged


def test_everything_that_follows_a_fit_knows_the_environment(fitted, tmp_path):
    left = residuals(fitted)
    labels = fitted.problem.environments.labels
    means = [left[labels == e, 1].mean() for e in range(2)]
    assert abs(means[0] - means[1]) < 0.5  # two batches of b are explained by their own mechanism
    drawn = fitted.do({"a": fitted.problem.data.to_frame()["a"].iloc[0]}, n=200)
    assert set(drawn["c"]) <= {"low", "mid", "top"}
    assert "P(c = top)" in fitted.effect("b", "c", at=False, to=True, value="top", n=20).sentence
    rows = fitted.problem.data.to_frame().head(3)
    assert np.isfinite(fitted.predictive_log_likelihood(rows, n=20)).all()
    page = fitted.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "That of b changes with batch." in page
    loaded = svidag.load(fitted.save(tmp_path / "fit.svidag"))
    assert loaded.changes().equals(fitted.changes())
    assert loaded.effect("b", "c", at=False, to=True, value="top", n=20).mean == pytest.approx(
        fitted.effect("b", "c", at=False, to=True, value="top", n=20).mean
    )
    with pytest.raises(ValueError, match="no common form"):
        fitted.mechanisms.parameters(np.zeros((3, 3), np.uint8), 2, 0)


@pytest.mark.slow
def test_missing_cells_and_the_default_method_know_it_too():
    table = batched(False)
    lost = np.random.default_rng(3).random((N, 3)) < 0.1
    table[["a", "b", "c"]] = table[["a", "b", "c"]].mask(lost)
    posterior = svidag.fit(table, environments="batch", missing="impute", bags=None, progress=False)
    assert posterior.changes()["changes"]["b"] > 0.95
    method = svidag.methods.OrderMCMC(exact=False, chains=2, orders=50)
    sampled = svidag.fit(
        table.dropna(), environments="batch", method=method, mechanism="mixed", progress=False
    )
    assert sampled.changes()["changes"]["b"] > 0.95
