"""Wrong questions about predictions and experiments get an answer that helps."""

import numpy as np
import pandas as pd
import pytest

import svidag


@pytest.fixture(scope="module")
def table():
    return svidag.datasets.synthetic(m=4, edges=4, n=120, seed=3).data


@pytest.fixture(scope="module")
def linear(table):
    return svidag.exact.posterior(table)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("rows must be a whole number", {"rows": 0}),
        ("n must be a whole number from 2", {"n": 1}),
        ("nearest column is 'x1'", {"values": {"x11": 1.0}}),
        ("values must map", {"values": [1]}),
        ("values of 'x1' is empty", {"values": {"x1": []}}),
        ("about must be a pair", {"about": "x1"}),
        ("cause and effect are the same", {"about": ("x1", "x1")}),
    ],
)
def test_wrong_questions_are_explained(linear, message, arguments):
    with pytest.raises(ValueError, match=message):
        linear.next_experiments(**{"rows": 5, "n": 2, **arguments})


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("message", "rows", "arguments"),
    [
        ("must be a DataFrame", [[1.0]], {}),
        ("rows is empty", pd.DataFrame({"x1": []}), {}),
        ("every column; name in columns", "table", {}),
        ("nearest column is 'x1'", "table", {"columns": "x11"}),
        ("rows lack the column 'x1'", pd.DataFrame({"x3": [1.0]}), {"columns": "x2"}),
        ("missing or infinite", pd.DataFrame({"x1": [np.nan]}), {}),
        ("level must be between", "table", {"columns": "x1", "level": 2.0}),
    ],
)
def test_wrong_rows_are_explained(table, linear, message, rows, arguments):
    with pytest.raises(ValueError, match=message):
        linear.predict(table if isinstance(rows, str) else rows, **arguments)
