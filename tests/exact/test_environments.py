"""Environments: evidences against brute force, what changes, and what is found despite batches."""

import numpy as np
import pytest
from scipy.special import logsumexp
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.data.environments import Environments, split_environments
from svidag.data.resampling import resample
from svidag.mechanisms.environments import SIZES, UNCHANGED
from svidag.mechanisms.linear import STANDARDISED_SCALE, LinearGaussian
from svidag.posterior.residuals import residuals


def batched(n=400, m=4, edges=4, seed=1, **options):
    return svidag.datasets.synthetic(
        m=m, edges=edges, n=n, seed=f"environments {seed}", batches=3, **options
    )


@pytest.fixture(scope="module")
def fitted():
    example = batched()
    return svidag.fit(example.data, method="exact", environments=example.batches, progress=False)


def test_contrasts_are_uncorrelated_and_standard():
    labels = np.repeat([0, 1, 2], [20, 30, 50])
    levels, rows = Environments(("b",), ("x", "y", "z"), labels).contrasts()
    assert levels.shape == (3, 2)
    assert np.allclose(rows.mean(axis=0), 0)
    assert np.allclose(rows.T @ rows / 100, np.eye(2))


def test_evidences_are_those_of_the_three_changes(fitted):
    """The table of all sets, by elimination, against BGe of every change by itself."""
    scores, x = fitted.mechanisms.model, fitted.problem.data.values
    contexts = fitted.problem.environments
    contrasts = contexts.contrasts()[1]
    parents = np.array([[False, True, False, True]])
    node = np.array([2])

    def bge(values, parents):
        model = LinearGaussian.from_values(values, prior_scale=STANDARDISED_SCALE)
        return model.family_scores(node, parents)[0]

    plain = bge(x, parents)
    wide = np.hstack([parents, np.ones((1, 2), dtype=bool)])
    shifted = [bge(np.hstack([x, size * contrasts]), wide) for size in SIZES]
    apart = sum(bge(x[contexts.labels == e], parents) for e in range(3))
    rest = (1 - UNCHANGED) / 2
    expected = logsumexp(
        [plain, *shifted, apart], b=[UNCHANGED, *[rest / len(SIZES)] * len(SIZES), rest]
    )
    assert scores.family_scores(node, parents)[0] == pytest.approx(expected)
    assert scores.score_tables()[2, 0b1010] == pytest.approx(expected)


def test_the_column_that_changes_is_found():
    rng = np.random.default_rng(0)
    batch = np.arange(600) % 3
    a = rng.normal(size=600) + np.array([0.0, 1.0, 2.5])[batch]
    b = a + rng.normal(size=600)
    c = b + rng.normal(size=600) * np.array([1.0, 2.0, 0.5])[batch]
    posterior = svidag.fit(
        np.column_stack([a, b, c]), method="exact", environments=batch, progress=False
    )
    found = posterior.changes()
    assert found.loc["x1", "changes"] > 0.95
    assert found.loc["x1", "shifted"] > 0.7
    assert found.loc["x2", "changes"] < 0.5
    assert found.loc["x3", "separate"] > 0.95
    # What changes and what does not decides directions that one batch leaves open.
    edges = posterior.edge_probabilities()
    assert edges.loc["x1", "x2"] > 0.9
    assert edges.loc["x2", "x3"] > 0.9
    assert "x1" in posterior.summary().mechanism
    assert "Open" in posterior.summary().mechanism or "changes with" in str(posterior.summary())


def test_residuals_know_their_environment(fitted):
    left, labels = residuals(fitted), fitted.problem.environments.labels
    means = np.array([left[labels == e].mean(axis=0) for e in range(3)])
    assert np.abs(means).max() < 0.2
    assert np.isfinite(fitted.effect("x1", "x2", n=20).mean)
    assert np.isfinite(fitted.predictive_log_likelihood(batched().data[:5], n=20)).all()
    drawn = fitted.parameters(fitted.consensus().graph, n=10)
    assert set(drawn) == {"environment", "weights", "intercept", "noise_sd"}


def test_saved_and_loaded_is_the_same(fitted, tmp_path):
    loaded = svidag.load(fitted.save(tmp_path / "fit.svidag"))
    assert loaded.changes().equals(fitted.changes())
    assert loaded.effect("x1", "x2", n=20).mean == fitted.effect("x1", "x2", n=20).mean


@pytest.mark.slow
def test_flexible_mechanisms_change_too():
    example = batched(m=3, edges=2, n=200, noise="laplace")
    posterior = svidag.fit(
        example.data,
        method="exact",
        mechanism="flexible",
        environments=example.batches,
        progress=False,
    )
    assert list(posterior.changes()) == ["changes", "shifted"]
    assert np.isfinite(posterior.effect("x1", "x2", n=10).mean)
    assert np.isfinite(posterior.predictive_log_likelihood(example.data[:5], n=10)).all()
    left, labels = residuals(posterior), posterior.problem.environments.labels
    assert np.abs([left[labels == e].mean(axis=0) for e in range(3)]).max() < 0.5


@pytest.mark.slow
def test_chains_over_orders_agree_with_the_sum(fitted):
    example = batched()
    method = svidag.methods.OrderMCMC(exact=False)
    sampled = svidag.fit(
        example.data,
        method=method,
        mechanism="linear",
        environments=example.batches,
        progress=False,
    )
    difference = sampled.edge_probabilities() - fitted.edge_probabilities()
    assert np.abs(difference.to_numpy()).max() < 0.05


@pytest.mark.slow
def test_batches_mislead_unless_they_are_named():
    """Sure arrows that are wrong, and distance to the graph, over five tables."""
    wrong, away = {"named": 0, "ignored": 0}, {"named": [], "ignored": [], "absent": []}
    for seed in range(5):
        example = batched(n=2000, m=8, edges=10, seed=seed)
        plain = svidag.datasets.synthetic(m=8, edges=10, n=2000, seed=f"environments {seed}")
        truth = example.truth.to_numpy()
        for name, data, labels in (
            ("named", example.data, example.batches),
            ("ignored", example.data, None),
            ("absent", plain.data, None),
        ):
            posterior = svidag.fit(data, method="exact", environments=labels, progress=False)
            edges = posterior.edge_probabilities().to_numpy()
            away[name].append(np.abs(edges - truth).sum())
            if name in wrong:
                wrong[name] += ((edges > 0.95) & (truth == 0)).sum()
    assert wrong["named"] <= 1
    assert wrong["ignored"] > 5
    assert np.mean(away["named"]) < np.mean(away["absent"]) + 2.0


def test_columns_labels_and_errors():
    table = batched().data.assign(site=["p", "q"] * 200, day=[k % 4 // 2 for k in range(400)])
    kept, found = split_environments(table, ["site", "day"], None)
    assert list(kept) == ["x1", "x2", "x3", "x4"]
    assert found.levels == ("p, 0", "p, 1", "q, 0", "q, 1")
    with pytest.raises(ValueError, match="environments is 'sit', which is not a column"):
        svidag.fit(table, environments="sit")
    with pytest.raises(ValueError, match="one value only"):
        svidag.fit(table[["x1", "x2"]], environments=np.zeros(400))
    with pytest.raises(ValueError, match="at least 10 rows"):
        svidag.fit(table[["x1", "x2"]], environments=np.arange(400) // 5)
    with pytest.raises(ValueError, match=r"does not support environments; method='order-mcmc' or"):
        svidag.fit(table[["x1", "x2"]], environments=table["day"], method="svi-dag", progress=False)
    with pytest.raises(ValueError, match="knows of no environments"):
        svidag.exact.posterior(table[["x1", "x2"]]).changes()


def test_resamples_keep_the_share_of_every_environment():
    labels = np.repeat([0, 1], [60, 30])
    drawn = resample(np.zeros((90, 1), bool), None, 30, np.random.default_rng(0), labels)
    assert np.bincount(labels[drawn]).tolist() == [20, 10]


def test_interventions_and_environments_together(fitted, tmp_path):
    """A column that was set in one batch has no evidence there, and bags keep their batches."""
    example = batched()
    mask = np.zeros(example.data.shape, bool)
    mask[(example.batches == 0).to_numpy(), 1] = True
    posterior = svidag.fit(
        example.data,
        method="exact",
        interventions=mask,
        environments=example.batches,
        bags=2,
        bag_rows=150,
        progress=False,
    )
    assert posterior.changes().shape == (4, 3)
    assert np.isfinite(posterior.effect("x1", "x2", n=20).mean)


def test_the_command_line_takes_environments(fitted, tmp_path):
    example = batched()
    file, run = tmp_path / "table.csv", tmp_path / "run"
    names = example.batches.map({0: "mon", 1: "tue", 2: "wed"})
    example.data.assign(day=names).to_csv(file, index=False)
    asked = ["fit", str(file), "-o", str(run), "--method", "exact", "--environments", "day"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "with day" in done.output
    found = svidag.load(run)
    assert np.allclose(found.edge_probabilities(), fitted.edge_probabilities())
