"""A mixture of fits keeps the contract of every method, and `bags="auto"` its own promises."""

import contextlib
import dataclasses
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.methods import bagging, probing
from svidag.posterior.diagnostics import Level
from svidag.posterior.mixture import MixtureGraphs
from svidag.report.verdict import judge

sys.path.insert(0, str(Path(__file__).parent))

import checks

from interruption import StopAt

BAGGED = svidag.methods.OrderMCMC().with_values(
    {**svidag.methods.OrderMCMC.trial, "chains": 3}  # so that cached fits are its own
)


@pytest.mark.parametrize("clause", [c for c in checks.CLAUSES if "command_line" not in c])
def test_two_bags_keep_the_contract(clause, tmp_path, monkeypatch):
    monkeypatch.setitem(checks.USUAL, "bags", 2)
    checks.CLAUSES[clause](BAGGED, tmp_path)


FITS = 4
"""Fits of an automatic mixture here, a quarter of the usual number."""


@pytest.fixture(scope="module", autouse=True)
def fewer_fits():
    with pytest.MonkeyPatch.context() as patch:
        for module in (bagging, probing):
            patch.setattr(module, "FITS", FITS)
        yield


def table(n=1000, seed=1, **options):
    return svidag.datasets.synthetic(m=6, edges=7, n=n, seed=f"mixtures {seed}", **options)


def fit(data, **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svidag.fit(data, **{"progress": False, "bags": "auto", **choices})


def wrong(posterior, example):
    sure = posterior.edge_probabilities().to_numpy() > 0.95
    return int((sure & (example.truth.to_numpy() == 0)).sum())


@pytest.fixture(scope="module")
def heavy():
    return table(noise="t")


@pytest.fixture(scope="module")
def distorted():
    return table(distortion="mixed")


@pytest.fixture(scope="module")
def mixed(distorted):
    return fit(distorted.data, workers=1)


def test_gaussian_tables_keep_their_plain_posterior():
    for seed in (1, 2):
        example = table(seed=seed)
        chosen, plain = fit(example.data), fit(example.data, bags=None)
        assert chosen.edge_probabilities().equals(plain.edge_probabilities())
        assert np.array_equal(chosen.sample(50), plain.sample(50))
        assert not chosen.sensitivity().flipped.any()
        assert judge(chosen).level is not Level.NOT


def test_heavy_tails_are_explained_and_their_arrows_stay_sure(heavy):
    assert wrong(fit(heavy.data, mechanism="nonlinear"), heavy) >= 3
    chosen = fit(heavy.data)
    assert not isinstance(chosen.graphs, MixtureGraphs)
    assert chosen.sensitivity().check.passed
    assert wrong(chosen, heavy) == 0
    assert (chosen.edge_probabilities().to_numpy() > 0.95).sum() >= 5


def test_a_fit_that_does_not_explain_its_table_becomes_a_mixture(distorted, mixed):
    assert wrong(fit(distorted.data, bags=None), distorted) >= 1
    assert isinstance(mixed.graphs, MixtureGraphs)
    assert not mixed.sensitivity().check.explained
    assert wrong(mixed, distorted) == 0
    assert judge(mixed).level is Level.CAREFUL


def test_the_mixture_says_why(mixed, tmp_path):
    found = mixed.sensitivity()
    assert found.mixed
    details = mixed.diagnostics.details
    text = mixed.diagnostics.reasons[0].text
    assert text.startswith(f"A mixture of {FITS} fits of {details.bag_rows} rows, because ")
    assert "the fit does not explain the table: the noise of " in text
    page = mixed.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Does the answer change with the model?" in page
    loaded = svidag.load(mixed.save(tmp_path / "mixed.svidag"))
    assert str(loaded.sensitivity()) == str(found)
    assert loaded.spread().equals(mixed.spread())


def turning(count, monkeypatch):
    """The margins' probe turns so many of the sure arrows round."""
    whole = probing.run_probes

    def turned(batch, first, found, asked, done, keep):
        found = whole(batch, first, found, asked[:1], done, keep)
        edges = first.graphs.edge_probabilities()
        probed = edges.copy()
        for i, j in np.argwhere(edges > 0.95)[:count]:
            probed[i, j], probed[j, i] = edges[j, i], edges[i, j]
        return dataclasses.replace(found, probed=probed[None], credible=(True,))

    monkeypatch.setattr(probing, "run_probes", turned)


def test_a_fit_is_averaged_with_a_probe_that_contradicts_a_few_arrows(monkeypatch):
    example = table(noise="uniform", n=500)
    plain = fit(example.data, bags=None)
    turning(2, monkeypatch)
    chosen = fit(example.data)
    assert chosen.sensitivity().flipped.sum() == 2
    assert chosen.diagnostics.details.fits == 2
    assert "2 of " in chosen.diagnostics.reasons[0].text
    assert "changed with the margins" in chosen.diagnostics.reasons[0].text
    first, second = chosen.graphs.components
    assert np.array_equal(first.edge_probabilities(), plain.graphs.edge_probabilities())
    mean = (first.edge_probabilities() + second.edge_probabilities()) / 2
    assert np.allclose(chosen.edge_probabilities(), mean)


def test_where_most_arrows_flip_resampled_rows_follow(monkeypatch):
    example = table(noise="uniform", n=500)
    turning(99, monkeypatch)
    chosen = fit(example.data)
    assert chosen.sensitivity().mostly_flipped
    assert chosen.sensitivity().check.passed
    assert chosen.diagnostics.details.fits == FITS
    assert chosen.diagnostics.details.bag_rows == 250
    assert "changed with the margins" in chosen.diagnostics.reasons[0].text


def test_networks_that_read_batches_as_curves_are_found_out():
    """Their residuals are Gaussian and independent; noise of any shape finds other arrows."""
    example = table(batches=4, seed=2)
    found = fit(example.data, mechanism="nonlinear", bags=None).sensitivity()
    assert found.changes[-2:] == ("noise", "resample")
    assert found.contradicted[found.changes.index("noise")].any()
    assert found.mostly_flipped


@pytest.mark.filterwarnings("ignore::svidag.DataWarning")
def test_without_time_for_a_mixture_it_is_not_to_be_trusted(distorted, monkeypatch):
    """The time is over once the fit is checked."""
    checked = []
    check = bagging.check_and_probe
    monkeypatch.setattr(
        bagging, "check_and_probe", lambda *a: checked.append(check(*a)) or checked[0]
    )
    monkeypatch.setattr(
        "svidag.run.deadline.Deadline.passed", lambda self, share=1.0: bool(checked)
    )
    with pytest.warns(svidag.FitWarning, match="does not explain the table"):
        posterior = svidag.fit(distorted.data, bags="auto", progress=False)
    assert not posterior.sensitivity().mixed
    assert judge(posterior).level is Level.NOT


def test_sensitivity_of_any_fit_can_be_asked_for(heavy):
    posterior = fit(heavy.data, mechanism="nonlinear")
    found = posterior.sensitivity()
    assert found.doubtful
    assert not found.mixed
    assert len(found.probes) == 4
    assert "does not explain the table" in str(found)


@pytest.mark.parametrize("stop", [("checking the fit", 0), ("fit of the mixture", 2)])
def test_an_interrupted_mixture_goes_on_to_the_same_result(stop, distorted, mixed, tmp_path):
    file = tmp_path / "checkpoint"
    with contextlib.suppress(KeyboardInterrupt):
        fit(distorted.data, progress=StopAt(*stop), checkpoint=file)
    assert file.exists()
    resumed = fit(distorted.data, checkpoint=file)
    assert resumed.edge_probabilities().equals(mixed.edge_probabilities())
    assert np.array_equal(resumed.sample(50), mixed.sample(50))


def test_workers_change_nothing(distorted, mixed):
    """Two processes give what one thread gave."""
    again = fit(distorted.data, workers=2)
    assert again.edge_probabilities().equals(mixed.edge_probabilities())


def test_the_command_line_takes_bags(tmp_path):
    example = table(n=200)
    file, run = tmp_path / "table.csv", tmp_path / "run"
    example.data.assign(family=[f"f{k // 2}" for k in range(200)]).to_csv(file, index=False)
    asked = ["fit", str(file), "-o", str(run), "--bags", "3", "--bag-rows", "80"]
    done = CliRunner().invoke(app, [*asked, "--groups", "family", "--mechanism", "linear"])
    assert done.exit_code == 0, done.output
    posterior = svidag.load(run)
    assert posterior.names == tuple(example.data)
    assert posterior.diagnostics.details.fits == 3
    assert posterior.diagnostics.details.bag_rows == 80
    direct = fit(example.data, mechanism="linear", bags=3, bag_rows=80, groups=np.arange(200) // 2)
    assert np.allclose(posterior.edge_probabilities(), direct.edge_probabilities())
    refused = CliRunner().invoke(app, ["fit", str(file), "--bags", "many"])
    assert refused.exit_code == 2
