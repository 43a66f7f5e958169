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


def test_a_fit_that_probes_contradict_is_averaged_with_them(monkeypatch):
    """All of the probe's arrows are turned round, so that it contradicts every sure one."""
    example = table(noise="uniform", n=500)
    plain = fit(example.data, bags=None)
    whole = probing.run_probes
    sure = plain.graphs.edge_probabilities() > 0.95

    def turned(batch, first, found, asked, done, keep):
        found = whole(batch, first, found, asked[:1], done, keep)
        opposite = first.graphs.edge_probabilities().T[None]
        return dataclasses.replace(found, probed=opposite, credible=(True,))

    monkeypatch.setattr(probing, "run_probes", turned)
    chosen = fit(example.data)
    assert sure.any()
    assert chosen.sensitivity().flipped.sum() == sure.sum()
    assert chosen.diagnostics.details.fits == 2
    assert "sure arrow" in chosen.diagnostics.reasons[0].text
    assert "changed with the margins" in chosen.diagnostics.reasons[0].text
    first, second = chosen.graphs.components
    assert np.array_equal(first.edge_probabilities(), plain.graphs.edge_probabilities())
    mean = (first.edge_probabilities() + second.edge_probabilities()) / 2
    assert np.allclose(chosen.edge_probabilities(), mean)


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
    assert len(found.probes) == 3
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
