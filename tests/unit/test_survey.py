"""What a table asks for before a fit, and that the suggestions work when pasted."""

import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from svidag.cli import app
from svidag.data.survey import survey


def numbers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))


def options(table):
    return [advice.option for advice in survey(table)]


def test_a_plain_table_asks_for_nothing():
    assert survey(numbers()) == []
    assert survey(numbers() * [1.0, 1000.0, 1e-6]) == []  # scales are taken care of


@pytest.mark.parametrize(
    ("name", "values", "option"),
    [
        ("sample_id", [f"s{k}" for k in range(60)], "--drop sample_id"),
        ("row", np.arange(60), "--drop row"),
        ("day", pd.date_range("2020-01-01", periods=60).astype(str), "--drop day"),
        ("comment", [f"see file {2 * k // 3}" for k in range(60)], "--drop comment"),
        ("flat", [1.0] * 60, "--drop flat"),
        ("patient", np.arange(60) // 3, "--groups patient"),
        ("batch", ["x", "y", "z"] * 20, "--environments batch"),
        ("my plate", [1, 2] * 30, "--environments 'my plate'"),
    ],
)
def test_columns_that_are_no_variables(name, values, option):
    assert options(numbers().assign(**{name: values})) == [option]


def test_text_with_few_values_is_a_category():
    table = numbers().assign(stage=["low", "high", "high"] * 20, batch=["x", "y"] * 30)
    assert options(table) == ["--environments batch"]
    table.loc[:5, "b"] = None
    assert options(table) == ["--environments batch", "--missing impute"]
    codes = numbers().assign(stage=[0, 1, 1] * 20)
    codes.loc[:5, "b"] = None
    assert [advice.option for advice in survey(codes, {"stage": "continuous"})] == [
        "--missing impute"
    ]


def test_missing_cells_and_few_rows():
    table = numbers().mask(np.random.default_rng(1).random((60, 3)) < 0.1)
    (advice,) = survey(table)
    assert advice.option == "--missing impute"
    assert advice.columns == ("a", "b", "c")
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(15, 20))).add_prefix("v")
    assert [advice.found for advice in survey(wide)] == ["15 rows and 20 columns"]


def test_parts_of_a_whole():
    share = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], size=80).round(4) * 100
    table = pd.DataFrame(share, columns=["sand", "silt", "clay"]).assign(rain=numbers(80)["a"])
    (advice,) = survey(table)
    assert set(advice.columns) == {"sand", "silt", "clay"}
    assert advice.option == "--drop clay"


def test_rows_in_time_order_but_not_sorted_rows():
    steps = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    walk = steps.ewm(alpha=0.3).mean()
    (advice,) = survey(walk)
    assert advice.option.startswith("--coarsen ")
    assert 10 <= int(advice.option.split()[1]) < 100
    assert survey(steps.sort_values("a")) == []


def test_rows_sorted_by_a_class_that_moves_every_column_are_not_in_time_order():
    grown = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    grown["class"] = np.repeat([0, 1, 2, 3], 50)
    grown[list("abc")] += grown[["class"]].to_numpy()
    assert survey(grown) == []
    assert survey(grown.assign(**{"class": np.repeat(list("wxyz"), 50)})) == []
    (advice,) = survey(grown[list("abc")])
    assert advice.option.startswith("--coarsen ")


def test_what_nothing_is_likely_to_cause():
    (advice,) = survey(numbers().rename(columns={"a": "Age"}))
    assert "tiers: [[Age], [b, c]]" in advice.advice


def test_what_the_terminal_suggests_can_be_pasted(tmp_path):
    table = numbers(300).assign(**{"it's skewed": np.exp(2 * numbers(300, seed=9)["a"])})
    file = tmp_path / "table.csv"
    table.to_csv(file, index=False)
    told = CliRunner().invoke(app, ["check", str(file)], env={"COLUMNS": "200"}).output
    (line,) = [line for line in told.splitlines() if "heavily skewed" in line]
    words = shlex.split(line.partition("consider ")[2])
    assert words == ["--transform", "it's skewed=log"]
    again = CliRunner().invoke(app, ["check", str(file), *words], env={"COLUMNS": "200"})
    assert again.exit_code == 0, again.output
    assert "skewed (" not in again.output
    table.loc[3, "b"] = None
    table.to_csv(file, index=False)
    told = CliRunner().invoke(app, ["check", str(file), *words], env={"COLUMNS": "200"})
    assert "--missing impute draws them" in told.output


def test_the_suggested_command_works(tmp_path):
    table = numbers().assign(id=[f"s{k}" for k in range(60)], batch=["x", "y"] * 30)
    table.loc[:5, "b"] = None
    file = tmp_path / "my table.csv"
    table.to_csv(file, index=False)
    told = CliRunner().invoke(app, ["check", str(file)], env={"COLUMNS": "200"})
    assert told.exit_code == 2  # as it is, it cannot be fitted
    line = next(line for line in told.output.splitlines() if line.startswith("To do all of this"))
    words = shlex.split(line.partition(": ")[2])
    assert words[:2] == ["svidag", "fit"]
    assert {"--drop", "--missing", "--environments"} <= set(words)
    again = CliRunner().invoke(app, ["check", *words[2:]])
    assert again.exit_code == 0, again.output
    assert "can be fitted" in again.output


def test_the_suggested_knowledge_can_be_pasted(tmp_path):
    table = numbers().rename(columns={"a": "age"})
    table.to_csv(tmp_path / "table.csv", index=False)
    told = CliRunner().invoke(app, ["check", str(tmp_path / "table.csv")], env={"COLUMNS": "80"})
    assert "To do all of this" not in told.output  # there is nothing else to do
    lines = told.output.splitlines()
    (echo,) = [line for line in lines if line.startswith("  echo ")]
    _, content, _, file = shlex.split(echo)
    (tmp_path / file).write_text(content)
    (fit,) = [line for line in lines if line.startswith("  svidag fit ")]
    words = shlex.split(fit)
    assert words[-2:] == ["--knowledge", file]
    checked = ["check", words[2], "--knowledge", str(tmp_path / file)]
    again = CliRunner().invoke(app, checked)
    assert again.exit_code == 0, again.output


def test_a_column_of_lists_is_advised_against_in_words(tmp_path):
    table = numbers(20).assign(parts=[[1], [2, 3]] * 10)
    (advice,) = [found for found in survey(table) if found.columns == ("parts",)]
    assert advice.option == "--drop parts"
    table.to_parquet(tmp_path / "table.parquet")
    told = CliRunner().invoke(app, ["check", str(tmp_path / "table.parquet")])
    assert told.exit_code == 2
    assert "column 'parts'" in told.output


def test_whole_numbers_beyond_all_floats_are_surveyed():
    table = numbers(15).assign(big=pd.Series([10**400, 2, 3] * 5, dtype=object))
    assert all(found.columns != ("big",) for found in survey(table))


def test_complex_numbers_are_surveyed_without_a_warning():
    survey(numbers().assign(wave=np.exp(1j * np.arange(60))))


def test_names_may_be_anything_that_pandas_can_hold():
    values = {"letters": list("xyz") * 10, "numbers": np.linspace(0, 1, 30) ** 2}
    frame = pd.DataFrame(values)
    frame.columns = pd.Index([["a"], {"b": 1}], dtype=object)
    same = pd.DataFrame(values).set_axis(["['a']", "{'b': 1}"], axis=1)
    assert [str(advice) for advice in survey(frame)] == [str(advice) for advice in survey(same)]
