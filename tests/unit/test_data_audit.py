"""The audit: one clear message for each thing that is wrong, and none for what is fine."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from svidag.data import AuditError, Dataset


def noise(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, m))


def errors(data, **kwargs) -> dict[tuple[str, tuple[str, ...]], str]:
    with pytest.raises(AuditError) as caught:
        Dataset.from_any(data, **kwargs).audit()
    assert isinstance(caught.value, ValueError)
    return {(finding.kind, finding.columns): finding.message for finding in caught.value.findings}


def warned(data, **kwargs) -> dict[tuple[str, tuple[str, ...]], str]:
    found = Dataset.from_any(data, **kwargs).audit()
    return {(finding.kind, finding.columns): finding.message for finding in found}


@pytest.mark.parametrize(("n", "m"), [(3, 2), (3, 10), (11, 10), (200, 5), (10, 10)])
def test_plain_noise_passes_also_with_fewer_rows_than_columns(n, m):
    kinds = {finding.kind for finding in Dataset.from_any(noise(n, m)).audit()}
    assert kinds <= {"varsortability"}


def test_missing_values_are_counted_and_located():
    x = noise(20, 2)
    x[3:10, 1] = np.nan
    assert errors(x)[("missing", ("x2",))] == (
        "data has 7 missing values in column 'x2', rows 3, 4, 5, 6, 7, … (counting from 0); "
        'missing="impute" draws them, missing="drop" leaves these rows out'
    )


def test_infinite_and_huge_values_are_located():
    x = noise(20, 3)
    x[4, 0], x[5, 2] = -np.inf, 1e151
    found = errors(x)
    assert "1 infinite value in column 'x1', row 4 (counting" in found[("infinite", ("x1",))]
    assert "1 value beyond ±1e+150 in column 'x3', row 5 " in found[("magnitude", ("x3",))]


def test_every_problem_is_reported_at_once():
    x = noise(20, 6)
    x[0, 0] = np.nan
    x[:, 1] = 7
    x[:, 3] = x[:, 2]
    x[:, 5] = x[:, 2] - 3 * x[:, 4]
    assert list(errors(x)) == [
        ("missing", ("x1",)),
        ("constant", ("x2",)),
        ("duplicate", ("x3", "x4")),
        ("collinear", ("x6", "x3", "x5")),
    ]


def test_constant_columns_are_named():
    x = noise(20, 3)
    x[:, 1] = -2.5
    assert errors(x) == {
        ("constant", ("x2",)): "column 'x2' is constant (-2.5) in every row; drop it"
    }
    x[:, 1] = 1e8 + 1e-8 * noise(20, 1)[:, 0]
    assert "constant up to rounding" in errors(x)[("constant", ("x2",))]
    x[:, 1] = 1e-160 * noise(20, 1)[:, 0]
    assert "varies by less than 1e-150" in errors(x)[("magnitude", ("x2",))]


def test_a_column_that_varies_only_where_intervened_on_is_named():
    x, mask = noise(20, 2), np.zeros((20, 2), dtype=bool)
    x[:15, 0], mask[15:, 0] = 4, True
    message = errors(x, interventions=mask)[("constant", ("x1",))]
    assert "is constant (4) in the 15 rows where it was not intervened on" in message
    mask[:, 0] = True
    assert ("constant", ("x1",)) not in warned(x, interventions=mask)


def test_identical_columns_are_both_named():
    x = noise(20, 4)
    x[:, 3] = x[:, 2] = x[:, 0]
    assert errors(x) == {
        ("duplicate", ("x1", "x3", "x4")): "columns 'x1', 'x3' and 'x4' are identical; keep one "
        "of them"
    }


@pytest.mark.parametrize("n", [3, 5, 6, 7, 100])
@pytest.mark.parametrize("slope", [2.0, -1e-3])
def test_an_affine_copy_is_found_at_any_number_of_rows(n, slope):
    x = noise(n, 6)
    x[:, 4] = 5 + slope * x[:, 1]
    assert errors(x) == {
        ("collinear", ("x5", "x2")): "column 'x5' is an exact linear function of 'x2'; drop one "
        "of them"
    }


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_exact_collinearity_names_the_columns_involved(offset):
    x = noise(100, 5) + offset
    frame = pd.DataFrame(x, columns=list("abcde")).assign(total=lambda f: f["b"] + f["d"])
    assert errors(frame) == {
        ("collinear", ("total", "b", "d")): "column 'total' is an exact linear combination of "
        "'b' and 'd'; drop one of them"
    }


def test_levels_may_add_up_but_not_copy_each_other():
    """Either of two diseases that nobody has together: a table of probabilities has no trouble."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 90)
    frame = pd.DataFrame({"a": which == 1, "b": which == 2, "c": rng.random(90) < 0.5}, dtype=int)
    assert warned(frame.assign(either=frame["a"] + frame["b"])) == {}
    assert set(errors(frame.assign(not_a=1 - frame["a"]))) == {("collinear", ("not_a", "a"))}
    measured = frame.assign(x=rng.normal(size=90)).assign(y=lambda f: f["a"] + 2 * f["x"])
    assert set(errors(measured)) == {("collinear", ("y", "a", "x"))}
    assert ("collinear", ("either", "a", "b")) in errors(
        frame.assign(either=frame["a"] + frame["b"]), kinds="continuous"
    )


def test_two_separate_relations_are_told_apart():
    x = noise(100, 6)
    x[:, 2] = x[:, 0] + x[:, 1]
    x[:, 5] = x[:, 3] - x[:, 4]
    assert set(errors(x)) == {
        ("collinear", ("x3", "x1", "x2")),
        ("collinear", ("x6", "x4", "x5")),
    }


def test_the_quick_factor_of_the_correlations_is_that_of_the_rows(monkeypatch):
    from svidag.data import collinearity

    x = noise(300, 4)
    x[:, 3] = x[:, 0] - x[:, 1] + 0.01 * x[:, 3]
    [(columns, share)] = collinearity.near(x)
    monkeypatch.setattr(collinearity, "WELL_CONDITIONED", np.inf)
    [(same, by_rows)] = collinearity.near(x)
    assert columns == same == [3, 0, 1]
    assert share == pytest.approx(by_rows, rel=1e-9)


def test_collinearity_in_several_blocks_of_rows_is_the_same(monkeypatch):
    from svidag.data import collinearity

    x = noise(100, 3)
    x[:, 2] = x[:, 0] - x[:, 1]
    monkeypatch.setattr(collinearity, "BLOCK", 7)
    assert set(errors(x)) == {("collinear", ("x3", "x1", "x2"))}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((0, 2)), "data has 0 rows; expected at least 3"),
        (np.eye(2), "data has 2 rows; expected at least 3"),
        (noise(10, 1), "data has 1 column; expected at least 2"),
        (np.zeros((5, 0)), "data has 0 columns; expected at least 2"),
    ],
)
def test_too_small_a_table_is_refused(data, message):
    with pytest.raises(AuditError, match=re.escape(message)):
        Dataset.from_any(data).audit()


def test_near_collinearity_names_columns_and_the_adjusted_r_squared():
    x = noise(500, 4)
    x[:, 3] = x[:, 0] - x[:, 2] + 0.1 * x[:, 3]
    [((kind, columns), message)] = warned(x).items()
    assert kind == "near-collinear"
    assert set(columns) == {"x1", "x3", "x4"}
    # R² by ordinary regression of the first column named on all the others.
    j = int(columns[0][1]) - 1
    design = np.column_stack([np.ones(500), np.delete(x, j, axis=1)])
    residual = np.linalg.lstsq(design, x[:, j])[1][0]
    total = np.sum((x[:, j] - x[:, j].mean()) ** 2)
    adjusted = 1 - (residual / 496) / (total / 499)
    assert f"(adjusted R² = {adjusted:.4f})" in message


def test_a_relation_close_to_exact_still_shows_how_close():
    x = noise(200, 3)
    x[:, 2] = x[:, 0] + 1e-5 * x[:, 2]
    [message] = warned(x).values()
    assert "R² = 1 − 9e-11" in message


def test_a_skewed_column_is_told_what_may_help():
    frame = pd.DataFrame(noise(500, 3), columns=["a", "b", "c"])
    frame["a"] = np.exp(1.5 * frame["a"])
    frame["b"] = -np.exp(1.5 * frame["b"])
    found = warned(frame)
    assert "transforms={'a': 'log'}" in found[("skew", ("a",))]
    assert "transforms={'b': 'rank-gaussian'}" in found[("skew", ("b",))]
    helped = warned(frame, transforms={"a": "log", "b": "rank-gaussian"})
    assert not any(kind == "skew" for kind, _ in helped)


def test_skew_is_judged_where_the_column_was_not_intervened_on():
    x, mask = noise(200, 2), np.zeros((200, 2), dtype=bool)
    x[:5, 0] = 100
    assert ("skew", ("x1",)) in warned(x)
    mask[:5, 0] = True
    assert warned(x, interventions=mask) == {}


def test_a_rare_binary_column_is_not_called_skewed():
    x = noise(200, 2)
    x[:, 0] = np.arange(200) < 3
    assert not any(kind in ("skew", "outlier") for kind, _ in warned(x))


def test_an_outlier_is_located():
    x = noise(2000, 2)
    x[17, 1], x[18, 1] = 15, -15
    message = warned(x)[("outlier", ("x2",))]
    assert "row 17 (counting from 0), 14 standard deviations" in message


def test_spread_of_variances_is_reported_until_standardised():
    data = Dataset.from_any(noise(500, 3) * [1, 2, 9])
    [finding] = data.audit()
    assert (finding.kind, finding.columns) == ("varsortability", ("x1", "x3"))
    ratio = data.values[:, 2].std() / data.values[:, 0].std()
    assert f"a factor of {ratio:.3g}," in finding.message
    assert data.standardise()[0].audit() == ()


def test_warnings_are_returned_and_not_emitted():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Dataset.from_any(noise(500, 3) * [1, 2, 9]).audit()
    assert caught == []


def test_a_hundred_thousand_rows_need_little_more_memory_than_the_table():
    import tracemalloc

    data = Dataset.from_any(np.random.default_rng(0).normal(size=(100_000, 20)))
    tracemalloc.start()
    data.audit()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * data.values.nbytes
