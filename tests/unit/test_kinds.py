"""Kinds of columns: how they are detected, asked for, refused, saved and shown."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.data import Dataset, Kind
from svidag.methods.column_kinds import order_of_levels_counts

N = 60
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "dose": RNG.standard_normal(N),
        "sex": RNG.integers(1, 3, N),
        "stage": RNG.integers(1, 5, N),
        "site": RNG.choice(["lung", "skin", "liver"], N),
        "relapse": RNG.random(N) < 0.4,
        "visits": np.append(np.arange(12), RNG.geometric(0.4, N - 12) - 1),
        "age": RNG.integers(20, 80, N),
    }
)


def kinds(data: Dataset) -> dict[str, str]:
    return dict(zip(data.names, map(str, data.kinds), strict=True))


def test_dtype_and_values_say_the_kind():
    assert kinds(Dataset.from_any(TABLE)) == {
        "dose": "continuous",
        "sex": "binary",
        "stage": "ordinal",
        "site": "categorical",
        "relapse": "binary",
        "visits": "count",
        "age": "continuous",
    }


def test_discrete_columns_are_coded_and_keep_their_labels():
    data = Dataset.from_any(TABLE)
    assert data.levels[1:5] == ((1, 2), (1, 2, 3, 4), ("liver", "lung", "skin"), (False, True))
    assert data.values[:, 3].tolist() == [("liver", "lung", "skin").index(s) for s in TABLE["site"]]
    back = data.to_frame()
    assert back["site"].tolist() == TABLE["site"].tolist()
    assert back["stage"].tolist() == TABLE["stage"].tolist()


def test_few_rows_are_no_codes():
    data = Dataset.from_any(pd.DataFrame({"a": [0, 1, 0, 1], "b": [1.0, 2.0, 3.0, 1.0]}))
    assert data.continuous.all()


@pytest.mark.parametrize(
    ("column", "kind", "levels"),
    [
        (pd.Categorical(list("bab" * 20)), "binary", ("a", "b")),
        (pd.Categorical(list("cab" * 20)), "categorical", ("a", "b", "c")),
        (pd.Categorical(list("cab" * 20), categories=list("cba"), ordered=True), "ordinal",
         ("c", "b", "a")),
        (pd.Categorical([3, 1, 2] * 20), "categorical", (1, 2, 3)),
        (pd.Series([True, None, False] * 20, dtype="boolean"), "binary", (False, True)),
        (np.array(["x", None, "y"] * 20, dtype=object), "binary", ("x", "y")),
        ([0.5, 2.5, 6.0] * 20, "ordinal", (0.5, 2.5, 6)),
    ],
)  # fmt: skip
def test_frames_with_categories_truth_values_and_objects(column, kind, levels):
    data = Dataset.from_any(pd.DataFrame({"a": RNG.standard_normal(60), "b": column}))
    assert (str(data.kinds[1]), data.levels[1]) == (kind, levels)
    assert np.array_equal(np.isnan(data.values[:, 1]), pd.isna(pd.Series(column)).to_numpy())


def test_kinds_can_be_said_otherwise():
    asked = {"stage": "continuous", "sex": "categorical", "age": "count", "site": list(SITES)}
    data = Dataset.from_any(TABLE, kinds=asked)
    found = kinds(data)
    assert [found[name] for name in asked] == ["continuous", "categorical", "count", "ordinal"]
    assert data.values[:, 2].tolist() == TABLE["stage"].tolist()
    assert data.levels[3] == SITES
    again = Dataset.from_any(Dataset.from_any(TABLE), kinds=asked)
    assert again.checksum == data.checksum != Dataset.from_any(TABLE).checksum
    numbers = TABLE.drop(columns=["site"])
    assert Dataset.from_any(numbers, kinds="continuous").continuous.all()


SITES = ("skin", "lung", "liver")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stag": "ordinal"}, "kinds names 'stag', .* nearest column is 'stage'"),
        ({"stage": "ordnal"}, "kinds has 'ordnal' for column 'stage'; expected 'continuous', "),
        ({"stage": "binary"}, "'binary' for column 'stage', which has 4 different values"),
        ({"site": "continuous"}, "'continuous' for column 'site', which holds text such as"),
        ({"site": "ordinal"}, "'site', whose values have no order.*kinds="),
        ({"site": ["skin", "lung"]}, "'site' has 'liver' in row .* values are 'skin' and 'lung'"),
        ({"dose": "count"}, "'count' for column 'dose', which holds .*whole numbers from 0 on"),
        ({"dose": "categorical"}, "'dose', which has 60 different values; expected at most 50"),
        ({"site": ["skin", "skin"]}, "two or more different levels"),
        (3, "kinds must map columns to kinds"),
    ],
)
def test_a_kind_that_does_not_fit_is_refused(asked, message, as_users_call):
    with pytest.raises(ValueError, match=message):
        Dataset.from_any(TABLE, kinds=asked)


def test_text_that_identifies_rows_is_refused_with_its_column():
    table = TABLE.assign(patient=[f"p{k}" for k in range(N)])
    with pytest.raises(ValueError, match=r"column .patient..*60 different texts.*drop the column"):
        Dataset.from_any(table)


def test_standardising_and_transforms_leave_discrete_columns_alone():
    data = Dataset.from_any(TABLE, transforms="rank-gaussian")
    assert data.transforms == ("rank-gaussian", None, None, None, None, *["rank-gaussian"] * 2)
    standard, scaling = Dataset.from_any(TABLE).standardise()
    assert scaling.scale[1:6].tolist() == [1.0] * 5
    np.testing.assert_array_equal(standard.values[:, 1:6], Dataset.from_any(TABLE).values[:, 1:6])
    assert abs(standard.values[:, 0].std() - 1) < 1e-12
    named = Dataset.from_any(TABLE, transforms={"stage": "log"})
    assert named.kinds[2] is Kind.CONTINUOUS
    np.testing.assert_allclose(named.values[:, 2], np.log(TABLE["stage"]))


def test_further_rows_have_the_codes_of_the_table():
    data = Dataset.from_any(TABLE)
    rows = pd.DataFrame({"site": ["skin", "liver"], "dose": [0.5, 1.0], "stage": [4, 1]})
    assert data.encode(rows).tolist() == [[2.0, 0.5, 3.0], [0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match=r"'stage' has 9 in row 0 .*values are 1, 2, 3 and 4"):
        data.encode(pd.DataFrame({"stage": [9]}))


def test_numbers_are_for_mechanisms_that_know_nothing_else():
    numbers = Dataset.from_any(TABLE.drop(columns=["site"])).numeric("mechanism 'linear'")
    assert numbers.continuous.all()
    assert numbers.values[:, 2].tolist() == TABLE["stage"].tolist()
    with pytest.raises(ValueError, match="'linear' is for numbers, and column 'site' holds text"):
        svidag.fit(TABLE, mechanism="linear", progress=False)
    with pytest.raises(ValueError, match=r"'discrete' is for discrete columns.*'dose' is cont"):
        svidag.fit(TABLE, mechanism="discrete", progress=False)


@pytest.mark.slow
def test_codes_with_many_levels_are_ordered_not_a_table_of_each_pair_of_levels():
    measured = svidag.datasets.synthetic(m=3, edges=2, n=150, seed=3)
    codes = (1.3 * measured.data / measured.data.std()).round().astype(int)
    tabulated = svidag.exact.posterior(codes, mechanism="discrete").adjacency_probabilities()
    posterior = svidag.fit(codes, bags=None, progress=False)
    assert posterior.diagnostics.mechanism == "mixed"
    found = posterior.adjacency_probabilities().to_numpy()
    connected = (measured.truth + measured.truth.T).astype(bool)
    assert tabulated.to_numpy()[connected].max() < 0.1 < 0.9 < found[connected].min()
    assert order_of_levels_counts(Dataset.from_any(codes))


def test_numbers_that_only_name_groups_have_tables():
    rng = np.random.default_rng(0)
    a, noise = rng.integers(5, size=400), rng.integers(5, size=400)
    b = np.where(rng.random(400) < 0.8, np.array([3, 0, 4, 1, 2])[a], noise)
    assert not order_of_levels_counts(Dataset.from_any(pd.DataFrame({"a": a, "b": b})))


def test_too_few_complete_rows_to_compare_leave_the_tables():
    codes = pd.DataFrame(np.arange(60).reshape(20, 3) % 5, columns=list("abc")).astype(float)
    codes.iloc[1:, 0] = np.where(np.arange(19) % 2, np.nan, codes.iloc[1:, 0])
    table = Dataset.from_any(codes, kinds=dict.fromkeys("abc", "ordinal"))
    assert not order_of_levels_counts(table)


@pytest.mark.parametrize("method", ["svi-dag", "svi-dag-published"])
def test_methods_for_continuous_columns_name_one_that_can(method):
    with pytest.raises(ValueError, match=f"{method}.*'sex'.*is binary.*method='order-mcmc'.*can"):
        svidag.fit(TABLE, method=method, progress=False)


def test_every_kind_from_a_file_by_the_command_line(tmp_path):
    path = tmp_path / "table.csv"
    TABLE.to_csv(path, index=False)
    run = CliRunner().invoke(app, ["check", str(path), "--kind", "age=count"])
    assert run.exit_code == 0, run.output
    assert "'site' is categorical: 'liver', 'lung' and 'skin'" in run.output
    assert "'stage' is ordinal: 1, 2, 3 and 4" in run.output
    assert "'age' is a count" in run.output
    bad = CliRunner().invoke(app, ["check", str(path), "--kind", "age"])
    assert bad.exit_code != 0
    assert "--kind takes COLUMN=KIND" in bad.output
