"""Missing cells: errors, dropped rows, completed tables, and what a fit says about them."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from typer.testing import CliRunner

import svidag
from interruption import StopAt
from svidag.cli import app
from svidag.data import AuditError, Dataset, Kind
from svidag.data.coding import Coding
from svidag.data.imputation import complete_rows, completed_tables, impute
from svidag.mechanisms.discrete_parameters import ProbabilityTable
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.mixed_parameters import MixedParameters
from svidag.mechanisms.nodewise import NodewiseEquations
from svidag.methods import imputing
from svidag.report.verdict import judge
from svidag.samplers.missing_cells import redraw_cells

pytestmark = pytest.mark.slow  # runs whole fits


def holed(share=0.2, n=300, seed=0, **options):
    example = svidag.datasets.synthetic(m=4, edges=4, n=n, seed=f"cells {seed}", **options)
    lost = np.random.default_rng(seed).random(example.data.shape) < share
    return example, example.data.mask(lost)


@pytest.fixture(scope="module")
def fitted():
    return svidag.fit(holed()[1], method="exact", missing="impute", progress=False)


def test_missing_cells_are_an_error_that_says_what_to_do():
    table = pd.DataFrame({"a": [1.0, None, 3.0, 4.0], "b": [1.0, 5.0, 2.0, None]})
    with pytest.raises(ValueError, match=r"1 missing value in column 'a'.*\n.*column 'b'") as error:
        svidag.fit(table)
    assert 'missing="impute"' in str(error.value)
    assert 'missing="drop"' in str(error.value)
    with pytest.raises(ValueError, match="missing must be one of"):
        svidag.fit(table, missing="mean")


def test_drop_leaves_out_rows_with_their_groups():
    _, table = holed()
    families = np.arange(len(table)) // 2
    posterior = svidag.fit(
        table, method="exact", missing="drop", groups=families, bags=2, progress=False
    )
    whole = table.dropna()
    assert posterior.problem.data.n_rows == len(whole)
    plain = svidag.fit(table, method="exact", missing="drop", progress=False)
    direct = svidag.fit(whole, method="exact", progress=False)
    assert plain.edge_probabilities().equals(direct.edge_probabilities())
    assert any("rows have missing values" in r.text for r in judge(plain).reasons)
    with pytest.raises(AuditError, match='too few remain: missing="impute"'):
        complete_rows(Dataset.from_any(np.diag([np.nan] * 4) + np.ones((4, 4))))


def test_a_table_without_missing_cells_is_fitted_as_ever():
    example, _ = holed()
    fits = [
        svidag.fit(example.data, method="exact", missing=choice, progress=False)
        for choice in ("error", "drop", "impute")
    ]
    assert all(fit.edge_probabilities().equals(fits[0].edge_probabilities()) for fit in fits)
    with pytest.raises(ValueError, match="no cell of 'x1' was imputed"):
        fits[2].imputed("x1")


def test_completed_tables_hold_only_values_that_occur():
    _, table = holed(noise="uniform")
    values = table.to_numpy()
    tables = completed_tables(
        tuple(table), values, np.zeros(values.shape, bool), np.random.default_rng(0)
    )
    first, second = next(tables), next(tables)
    known = ~np.isnan(values)
    assert np.array_equal(first[known], values[known])
    assert (first != second).any()
    for j in range(values.shape[1]):
        assert np.isin(first[:, j], values[known[:, j], j]).all()


def test_the_first_tables_do_not_depend_on_how_many_there_are():
    data = Dataset.from_any(holed()[1])
    few, many = (impute(data, k, np.random.default_rng(3))[1].draws for k in (2, 5))
    assert np.array_equal(few, many[:2])


def test_values_set_from_outside_are_imputed_by_such_values():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100, 2))
    mask = np.zeros(values.shape, bool)
    mask[:40, 0] = True
    values[:40, 0] = 9.0
    values[[0, 1, 60, 61], 0] = np.nan
    drawn, _ = impute(Dataset(("a", "b"), values, mask), 1, rng)
    assert (drawn.values[[0, 1], 0] == 9.0).all()
    assert (drawn.values[[60, 61], 0] < 9.0).all()


def test_a_column_with_too_few_values_is_refused():
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[3:, 1] = np.nan
    with pytest.raises(AuditError, match="'x2' has 17 missing values and only 3 known ones"):
        svidag.fit(values, missing="impute", method="exact", progress=False)
    values[0, 0] = np.inf
    with pytest.raises(AuditError, match="1 infinite value in column 'x1'"):
        svidag.fit(values, missing="impute", method="exact", progress=False)


def test_cells_are_drawn_from_their_distribution_given_the_row():
    """x1 → x2 → x3, x2 missing: Gaussian, with a mean and variance in closed form."""
    graph = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]], dtype=np.uint8)
    weights = np.array([[[0, 2.0, 0], [0, 0, -1.5], [0, 0, 0]]])
    sd = np.array([[1.0, 0.8, 0.5]])
    equations = LinearEquations(graph, weights, np.zeros((1, 3)), sd)
    rng = np.random.default_rng(1)
    x1 = rng.normal(size=2000)
    x2 = 2 * x1 + 0.8 * rng.normal(size=2000)
    table = np.column_stack([x1, x2, -1.5 * x2 + 0.5 * rng.normal(size=2000)])
    missing = np.zeros(table.shape, bool)
    missing[:, 1] = True
    start = table.copy()
    start[:, 1] = rng.permutation(x2)  # the regression that candidates come from is poor at first
    nothing = np.zeros(table.shape, bool)
    drawn = redraw_cells(equations, start, missing, nothing, rng, sweeps=20)[:, 1]
    precision = 1 / 0.64 + 2.25 / 0.25
    mean = (2 * x1 / 0.64 - 1.5 * table[:, 2] / 0.25) / precision
    assert kstest((drawn - mean) * np.sqrt(precision), "norm").pvalue > 0.001
    set_outside = nothing.copy()
    set_outside[:, 2] = True  # then x3 says nothing about its cause
    drawn = redraw_cells(equations, start, missing, set_outside, rng, sweeps=20)[:, 1]
    assert kstest((drawn - 2 * x1) / 0.8, "norm").pvalue > 0.001


def test_the_mixture_says_what_was_missing(fitted, tmp_path):
    _, table = holed()
    assert fitted.diagnostics.details.fits == imputing.TABLES
    assert "missing cells (2" in fitted.diagnostics.reasons[0].text
    drawn = fitted.imputed("x2")
    assert drawn.shape == (table["x2"].isna().sum(), imputing.TABLES)
    assert list(drawn.index) == list(np.flatnonzero(table["x2"].isna()))
    assert (drawn.std(axis=1) > 0).all()
    assert any("missing at random" in line for line in judge(fitted).assumptions)
    page = fitted.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert ">missing</th>" in page
    loaded = svidag.load(fitted.save(tmp_path / "fit.svidag"))
    assert loaded.imputed("x2").equals(drawn)
    assert np.isfinite(fitted.effect("x1", "x2", n=20).mean)


def test_without_time_the_first_tables_count():
    posterior = svidag.fit(
        holed()[1], mechanism="linear", missing="impute", minutes=0.0, progress=False
    )
    assert posterior.diagnostics.status == "time"
    assert posterior.diagnostics.details.fits < imputing.TABLES


@pytest.mark.parametrize("done", [1, 10])
def test_an_interrupted_fit_goes_on_to_the_same_result(done, fitted, tmp_path):
    file = tmp_path / "checkpoint"
    asked = {"method": "exact", "missing": "impute", "checkpoint": file}
    with contextlib.suppress(KeyboardInterrupt):
        svidag.fit(holed()[1], **asked, progress=StopAt(imputing.STAGE, done))
    assert file.exists()
    resumed = svidag.fit(holed()[1], **asked, progress=False)
    assert resumed.edge_probabilities().equals(fitted.edge_probabilities())
    assert resumed.imputed("x3").equals(fitted.imputed("x3"))


def test_bags_resample_completed_tables(tmp_path):
    _, table = holed()
    posterior = svidag.fit(
        table, method="exact", missing="impute", bags=3, bag_rows=100, progress=False
    )
    assert posterior.diagnostics.details.fits == 3
    assert posterior.diagnostics.details.bag_rows == 100
    assert posterior.imputed("x1").shape[1] == 3


def test_the_default_call_checks_the_first_table_and_imputes(monkeypatch):
    monkeypatch.setattr(imputing, "CHAINS", 2)
    posterior = svidag.fit(holed()[1], missing="impute", progress=False)
    assert posterior.diagnostics.details.fits == 2
    assert posterior.sensitivity().check is None or posterior.sensitivity().check.passed


def test_levels_are_drawn_from_their_distribution_given_the_row():
    """a → b → c, all discrete, b missing: Bayes' rule gives its probabilities."""
    rng = np.random.default_rng(2)
    graph = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]], dtype=np.uint8)
    b_given_a = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    c_given_b = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    nodes = {
        (0, 0): ProbabilityTable(0, np.array([], int), np.array([], int), np.log([[0.5, 0.5]])),
        (0, 1): ProbabilityTable(1, np.array([0]), np.array([2]), np.log(b_given_a)),
        (0, 2): ProbabilityTable(2, np.array([1]), np.array([3]), np.log(c_given_b)),
    }
    coding = Coding((Kind.BINARY, Kind.CATEGORICAL, Kind.BINARY), (2, 3, 2))
    table = np.column_stack([rng.integers(0, k, 40_000) for k in (2, 3, 2)]).astype(float)
    missing = np.zeros(table.shape, bool)
    missing[:, 1] = True
    nothing = np.zeros(table.shape, bool)
    equations = NodewiseEquations(graph, nodes)
    drawn = redraw_cells(equations, table, missing, nothing, rng, sweeps=1, coding=coding)
    for a in range(2):
        for c in range(2):
            exact = b_given_a[a] * c_given_b[:, c]
            rows = (table[:, 0] == a) & (table[:, 2] == c)
            share = np.bincount(drawn[rows, 1].astype(int), minlength=3) / rows.sum()
            assert np.abs(share - exact / exact.sum()).max() < 4 * 0.5 / np.sqrt(rows.sum())


def test_counts_are_drawn_from_their_distribution_given_the_row():
    """One count with a cause: the noise behind what is drawn is standard normal."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=1500)
    frame = pd.DataFrame({"x": x, "visits": rng.poisson(np.exp(1 + 0.7 * x))})
    data = Dataset.from_any(frame, kinds={"visits": "count"})
    graph = np.array([[[0, 1], [0, 0]]], dtype=np.uint8)
    equations = MixedParameters(MixedMechanism(data), None).centre(graph)
    missing = np.zeros(data.values.shape, bool)
    missing[:, 1] = True
    start = np.array(data.values)
    start[:, 1] = rng.permutation(start[:, 1])
    nothing = np.zeros(missing.shape, bool)
    drawn = redraw_cells(equations, start, missing, nothing, rng, sweeps=10, coding=data.coding)
    assert ((drawn[:, 1] >= 0) & (drawn[:, 1] == np.round(drawn[:, 1]))).all()
    noise = equations.equations[0, 1].noise(drawn, rng.random(len(drawn)))
    assert kstest(noise, "norm").pvalue > 0.001


def of_all_kinds(n=300, share=0.15):
    rng = np.random.default_rng(4)
    dose = rng.normal(size=n)
    site = np.array(["lung", "skin", "liver"])[np.digitize(dose + rng.logistic(size=n), [-1, 1])]
    stage = np.digitize((site == "skin") * 2 + rng.logistic(size=n), [-1, 1, 3]) + 1
    visits = rng.poisson(np.exp(0.5 + 0.8 * dose))
    whole = pd.DataFrame({"dose": dose, "site": site, "stage": stage, "visits": visits})
    return whole, whole.mask(rng.random(whole.shape) < share)


def test_every_kind_of_column_is_completed_by_values_of_its_own(tmp_path):
    whole, table = of_all_kinds()
    kinds = {"visits": "count"}
    posterior = svidag.fit(table, missing="impute", kinds=kinds, progress=False)
    assert posterior.mechanism == "mixed"
    assert posterior.diagnostics.details.fits == imputing.TABLES
    site, stage = posterior.imputed("site"), posterior.imputed("stage")
    assert set(np.unique(site)) == {"lung", "skin", "liver"}
    assert set(np.unique(stage)) == {1, 2, 3, 4}
    visits = posterior.imputed("visits").to_numpy()
    assert ((visits >= 0) & (visits == np.round(visits))).all()
    truth = whole["site"].loc[site.index]
    chance = (whole["site"].value_counts(normalize=True) ** 2).sum()
    assert site.eq(truth, axis=0).to_numpy().mean() > chance + 0.03
    loaded = svidag.load(posterior.save(tmp_path / "fit.svidag"))
    assert loaded.imputed("site").equals(site)
    assert "missing" in posterior.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "P(stage = 4)" in posterior.effect("dose", "stage", value=4, n=20).sentence


def test_discrete_tables_and_bags_of_them_are_completed():
    table = of_all_kinds()[1][["site", "stage"]].assign(late=lambda t: t["stage"] > 2)
    table.loc[table["stage"].isna(), "late"] = False
    posterior = svidag.fit(table, missing="impute", progress=False)
    assert posterior.mechanism == "discrete"
    assert posterior.diagnostics.details.fits == imputing.TABLES
    bags = svidag.fit(table, missing="impute", bags=2, bag_rows=100, progress=False)
    assert bags.imputed("site").shape == (table["site"].isna().sum(), 2)


def test_rows_of_any_kind_are_dropped():
    _, table = of_all_kinds()
    posterior = svidag.fit(table, method="exact", missing="drop", progress=False)
    assert posterior.mechanism == "mixed"
    assert posterior.problem.data.n_rows == len(table.dropna())


def test_the_command_line_and_the_estimator_take_it(fitted, tmp_path):
    _, table = holed()
    file, run = tmp_path / "table.csv", tmp_path / "run"
    table.to_csv(file, index=False)
    asked = ["fit", str(file), "-o", str(run), "--method", "exact"]
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code == 2
    assert "missing" in refused.output
    done = CliRunner().invoke(app, [*asked, "--missing", "impute"])
    assert done.exit_code == 0, done.output
    assert svidag.load(run).edge_probabilities().equals(fitted.edge_probabilities())
    model = svidag.SVIDAG(method="exact", missing="impute").fit(table)
    assert model.edge_probabilities_.equals(fitted.edge_probabilities())
