"""Tables in, checked datasets out: reading, interventions, transforms, scaling."""

import copy
import hashlib
import json
import pickle
from dataclasses import FrozenInstanceError
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from svidag.data import AuditError, Dataset, Finding, Scaling, row_groups

FRAME = pd.DataFrame({"PKA": [1.0, 2.0, 4.0, 8.0], "Akt": [3, 1, 2, 5], "on": [True, False] * 2})


def same(data: Dataset, frame: pd.DataFrame) -> bool:
    return data.names == tuple(frame.columns) and np.array_equal(data.values, frame.to_numpy(float))


class Foreign:
    """A table of another library, known only by its ``to_pandas``."""

    def to_pandas(self):
        return FRAME


# ---- from_any -------------------------------------------------------------------------------


def test_a_frame_keeps_names_and_values_and_counts_booleans_as_0_and_1():
    data = Dataset.from_any(FRAME)
    assert same(data, FRAME)
    assert data.values[:, 2].tolist() == [1, 0, 1, 0]
    assert not data.intervened.any()
    assert data.transforms == (None, None, None)
    assert (data.n_rows, data.m) == (4, 3)


def test_an_array_has_default_or_given_names():
    x = np.arange(6).reshape(3, 2)
    assert Dataset.from_any(x).names == ("x1", "x2")
    assert Dataset.from_any(x, names=["b", "a"]).names == ("b", "a")
    assert Dataset.from_any(x.tolist()).values.tolist() == x.tolist()


def test_a_foreign_table_keeps_its_names():
    assert same(Dataset.from_any(Foreign()), FRAME)


def test_a_dataset_is_returned_as_it_is():
    data = Dataset.from_any(FRAME)
    assert Dataset.from_any(data) is data


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 3], dtype="Int64"),
        pd.array([1.0, None, 3.0], dtype="Float64"),
        pd.array([1.0, None, 3.0], dtype="double[pyarrow]"),
        pd.arrays.SparseArray([1.0, np.nan, 3.0]),
        np.array([1, None, Decimal("3")], dtype=object),
        np.array([True, pd.NA, 3], dtype=object),
        np.array([1, np.nan, 3], dtype=np.float16),
    ],
)
def test_every_kind_of_number_becomes_float64(column):
    data = Dataset.from_any(pd.DataFrame({"a": column}))
    np.testing.assert_array_equal(data.values, [[1], [np.nan], [3]])


def test_a_masked_entry_is_missing_not_its_hidden_value():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(Dataset.from_any(masked).values, [[1, np.nan], [3, 4]])


@pytest.mark.parametrize(
    ("column", "example"),
    [
        (["1", "2", "high"], "'high' in row 2"),
        (["1", "2", "3"], "'1' in row 0"),
        ([1, 2, "3"], "'3' in row 2"),
        ([1, 2, [3]], r"\[3\] in row 2"),
        (pd.Series(["p1", "p2", "p3"]), "'p1' in row 0.*identifiers.*drop"),
        (pd.to_datetime(["2020-01-01"] * 3), "2020.*in row 0"),
        ([1j, 2, 3], "complex.*in row 0"),
    ],
)
def test_what_is_no_number_is_named_with_column_example_and_row(column, example):
    with pytest.raises(ValueError, match=f"non-numeric values in column 'dose'.*{example}"):
        Dataset.from_any(pd.DataFrame({"a": [1, 2, 3], "dose": column}))


def test_a_number_beyond_float64_is_named():
    with pytest.raises(ValueError, match=r"float64 cannot hold in column 'a', row 1 "):
        Dataset.from_any(pd.DataFrame({"a": [1, 10**400]}, dtype=object))


@pytest.mark.parametrize(
    ("data", "names", "message"),
    [
        (np.zeros(3), None, "1 dimensions"),
        (np.zeros((2, 2, 2)), None, "3 dimensions"),
        ({"a": [1]}, None, "data is a dict"),
        (None, None, "data is a NoneType"),
        ([[1, 2], [3]], None, "not a 2-d array"),
        (np.zeros((2, 2)), ["a"], "expected 2 names"),
        (np.zeros((2, 2)), "ab", "expected 2 names"),
        (np.zeros((2, 2)), ["a", "a"], "more than one column named 'a'"),
        (np.zeros((2, 2)), ["a", " "], "blank column name at position 1"),
        (FRAME, ["a", "b", "c"], "names is for arrays"),
        (Dataset.from_any(FRAME), ["a", "b", "c"], "names is for arrays"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "more than one column named 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), None, "more than one column named '1'"),
        (pd.DataFrame([[1, 2]], columns=["a", None]), None, "blank column name at position 1"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([[1], [2, 3]])), None, "levels"),
        (np.array([["a", "b"]]), None, "non-numeric values in column 'x1'"),
    ],
)
def test_what_is_no_table_is_refused(data, names, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_any(data, names=names)


# ---- immutability and identity ----------------------------------------------------------------


def test_the_arrays_are_float64_contiguous_and_cannot_change():
    x = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    data = Dataset.from_any(x)
    for each in (data, pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):
        assert each.values.dtype == np.float64
        assert each.values.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            each.values[0, 0] = 7
        with pytest.raises(ValueError, match="read-only"):
            each.intervened[0, 0] = True
        assert each.checksum == data.checksum
    with pytest.raises(FrozenInstanceError):
        data.names = ("a", "b")  # type: ignore[misc]


def test_changing_the_source_or_the_frame_given_back_changes_nothing():
    x = np.arange(6.0).reshape(3, 2)
    frame = pd.DataFrame(x, columns=["a", "b"])
    mask = np.zeros((3, 2), dtype=bool)
    direct = Dataset(("a", "b"), x, mask)
    data = Dataset.from_any(frame, interventions=mask)
    x[0, 0], mask[0, 0] = 99, True
    frame.iloc[0, 0] = 99
    back = data.to_frame()
    back.iloc[0, 0] = 99
    assert data.values[0, 0] == direct.values[0, 0] == 0
    assert not data.intervened.any()
    assert not direct.intervened.any()


def test_the_frame_passed_in_is_not_modified():
    frame = pd.DataFrame({0: [1, 2], 1: ["0", ""]})
    Dataset.from_any(frame, interventions="1")
    assert list(frame.columns) == [0, 1]


def test_the_checksum_is_the_documented_digest_and_sees_every_part():
    data = Dataset.from_any(FRAME, kinds="continuous")
    digest = hashlib.sha256(json.dumps([data.names, [4, 3]]).encode())
    digest.update(FRAME.to_numpy(float).tobytes() + np.packbits(np.zeros(12, bool)).tobytes())
    assert data.checksum == digest.hexdigest()
    changed = [
        Dataset.from_any(FRAME.rename(columns={"PKA": "pka"})),
        Dataset.from_any(FRAME + 1e-15),
        Dataset.from_any(FRAME, interventions=pd.DataFrame({"Akt": [False, False, False, True]})),
        Dataset.from_any(FRAME.iloc[:, ::-1]),
        Dataset.from_any(FRAME),
    ]
    assert len({data.checksum, *(other.checksum for other in changed)}) == 6


def test_direct_construction_checks_that_the_parts_fit():
    x, mask = np.zeros((3, 2)), np.zeros((3, 2), dtype=bool)
    with pytest.raises(ValueError, match="3 names"):
        Dataset(("a", "b", "c"), x, mask)
    with pytest.raises(ValueError, match="1 transforms"):
        Dataset(("a", "b"), x, mask, ("log",))


def test_to_frame_goes_round():
    data = Dataset.from_any(FRAME)
    assert Dataset.from_any(data.to_frame()).checksum == data.checksum


# ---- interventions --------------------------------------------------------------------------

EXPECTED = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)


@pytest.mark.parametrize(
    "cells",
    [
        ["", "a", "b", "a;b"],
        [None, "a", "b", "b, a"],
        [np.nan, " a ", "b;", "a,b"],
        ["NA", "a", "b;NA", "a;b;a"],
        pd.Categorical(["", "a", "b", "a;b"]),
    ],
)
def test_a_column_names_the_targets_of_each_row(cells):
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "target": cells, "b": [5, 6, 7, 8]})
    data = Dataset.from_any(frame, interventions="target")
    assert data.names == ("a", "b")
    assert data.values.tolist() == [[1, 5], [2, 6], [3, 7], [4, 8]]
    np.testing.assert_array_equal(data.intervened, EXPECTED)


def test_targets_may_be_numbers_or_hold_a_separator():
    frame = pd.DataFrame({1: [1, 2, 3], 2: [3, 4, 5], "target": [np.nan, 1, 2]})
    mask = Dataset.from_any(frame, interventions="target").intervened
    assert mask.tolist() == [[False, False], [True, False], [False, True]]
    frame = pd.DataFrame({"IL-2, serum": [1, 2], "NA": [3, 4], "t": ["IL-2, serum", "NA"]})
    assert Dataset.from_any(frame, interventions="t").intervened.tolist() == [
        [True, False],
        [False, True],
    ]


def test_a_target_that_is_no_column_is_named_with_row_and_nearest_name():
    frame = pd.DataFrame({"PKA": [1, 2, 3], "Akt": [1, 2, 3], "t": ["", "PKA", "PKA;akt1"]})
    message = r"column 't' of data: row 2 \(counting from 0\) .*'akt1'.* nearest column is 'Akt'"
    with pytest.raises(ValueError, match=message):
        Dataset.from_any(frame, interventions="t")


def test_a_target_column_that_does_not_exist_or_holds_lists_is_refused():
    with pytest.raises(ValueError, match=r"interventions is 'pka'.*nearest column is 'PKA'"):
        Dataset.from_any(FRAME, interventions="pka")
    with pytest.raises(ValueError, match=r"column 't'.*expected each cell to be text"):
        Dataset.from_any(pd.DataFrame({"a": [1], "t": [["a"]]}), interventions="t")


@pytest.mark.parametrize("kind", [bool, int, float, "boolean", object])
def test_a_mask_may_be_an_array_or_a_frame_matched_by_name(kind):
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "c": [0, 1, 0, 2]})
    table = pd.DataFrame({"b": EXPECTED[:, 1], "a": EXPECTED[:, 0]}).astype(kind)
    full = np.column_stack([EXPECTED, np.zeros(4, dtype=bool)])
    np.testing.assert_array_equal(Dataset.from_any(frame, interventions=table).intervened, full)
    if kind != "boolean":
        data = Dataset.from_any(frame, interventions=full.astype(kind))
        np.testing.assert_array_equal(data.intervened, full)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((3, 3)), r"shape \(3, 3\); expected \(4, 3\)"),
        (np.zeros(4), r"shape \(4,\)"),
        ([[1], [0, 1]], "interventions has the shape"),
        (np.full((4, 3), 0.5), r"0\.5.* in column 'PKA', row 0 .*expected True or False"),
        (pd.DataFrame({"pka": [True] * 4}), "'pka', which is not a column .* nearest .*'PKA'"),
        (pd.DataFrame({"PKA": [True] * 3}), "3 rows; expected 4"),
        (pd.DataFrame({"PKA": [True, False, None, True]}), "None in column 'PKA', row 2"),
        (pd.DataFrame({"PKA": ["no"] * 4}), "'no' in column 'PKA', row 0"),
        (pd.DataFrame([[1, 0]] * 4, columns=["PKA", "PKA"]), "more than one column named 'PKA'"),
        (pd.DataFrame({"PKA": [True] * 4}, index=[3, 2, 1, 0]), "in another order"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_any(FRAME, interventions=mask)


def test_a_dataset_takes_new_interventions_and_keeps_its_transforms():
    frame = pd.DataFrame({"a": [1, 2, 4], "b": [5, 6, 7], "t": [0, 0, 0]})
    data = Dataset.from_any(frame, transforms={"a": "log"})
    revised = Dataset.from_any(data, interventions=pd.DataFrame({"t": [True, False, True]}))
    assert revised.intervened[:, 2].tolist() == [True, False, True]
    assert revised.transforms == ("log", None, None)
    np.testing.assert_array_equal(revised.values, data.values)


# ---- transforms -------------------------------------------------------------------------------


def test_log_for_all_columns_or_by_name():
    frame = FRAME[["PKA", "Akt"]]
    every = Dataset.from_any(frame, transforms="log")
    np.testing.assert_allclose(every.values, np.log(frame.to_numpy(float)), rtol=1e-15)
    one = Dataset.from_any(frame, transforms={"Akt": "log", "PKA": None})
    assert one.transforms == (None, "log")
    np.testing.assert_array_equal(one.values[:, 0], frame["PKA"])


def test_rank_gaussian_is_the_normal_quantile_of_the_averaged_rank():
    column = np.array([10.0, -3.0, 10.0, 1e6, np.nan, np.inf])
    data = Dataset.from_any(pd.DataFrame({"a": column}), transforms="rank-gaussian")
    # Ranks of the four finite values: -3 is 1, the two tens share 2.5, 1e6 is 4.
    expected = [*norm.ppf((np.array([2.5, 1, 2.5, 4]) - 0.5) / 4), np.nan, np.inf]
    np.testing.assert_allclose(data.values[:, 0], expected, atol=1e-15)


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ("ln", "'ln' for column 'PKA'; expected 'log' and 'rank-gaussian'"),
        ({"pka": "log"}, "'pka', which is not a column; the nearest column is 'PKA'"),
        ({"on": "log"}, "column 'on' has 0 in row 1 "),
    ],
)
def test_a_transform_that_does_not_fit_is_refused(transforms, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_any(FRAME, transforms=transforms)


def test_a_column_is_not_transformed_twice():
    data = Dataset.from_any(FRAME, transforms={"PKA": "log"})
    more = Dataset.from_any(data, transforms={"Akt": "rank-gaussian"})
    assert more.transforms == ("log", "rank-gaussian", None)
    with pytest.raises(ValueError, match="column 'PKA' already went through 'log'"):
        Dataset.from_any(data, transforms="rank-gaussian")


# ---- standardise ------------------------------------------------------------------------------


def test_standardise_uses_only_entries_that_were_not_intervened_on():
    x = np.array([[1.0, 5.0], [3.0, 7.0], [1000.0, 9.0]])
    mask = np.array([[0, 0], [0, 0], [1, 0]], dtype=bool)
    data = Dataset.from_any(x, interventions=mask)
    standard, scaling = data.standardise()
    np.testing.assert_allclose(scaling.centre, [2, 7])
    np.testing.assert_allclose(scaling.scale, [1, np.sqrt(8 / 3)])
    np.testing.assert_allclose(standard.values[:, 0], [-1, 1, 998])
    np.testing.assert_allclose(scaling.invert(standard.values), x)
    np.testing.assert_allclose(scaling.apply(x[None]), standard.values[None])
    assert standard.names == data.names
    np.testing.assert_array_equal(standard.intervened, mask)


def test_a_column_intervened_on_everywhere_is_scaled_over_all_rows():
    x = np.array([[1.0, 5.0], [3.0, 7.0]])
    mask = np.array([[1, 0], [1, 0]], dtype=bool)
    standard, _ = Dataset.from_any(x, interventions=mask).standardise()
    np.testing.assert_allclose(standard.values, [[-1, -1], [1, 1]])


def test_a_constant_column_is_centred_and_keeps_its_units():
    _, scaling = Dataset.from_any(np.array([[2.0, 1.0], [2.0, 3.0]])).standardise()
    assert (scaling.centre[0], scaling.scale[0]) == (2, 1)
    _, scaling = Dataset.from_any(np.array([[5e-324, 1.0], [0.0, 3.0]])).standardise()
    assert scaling.scale[0] == 1


@pytest.mark.parametrize(("offset", "unit"), [(1e9, 1e-3), (0.0, 1e-140), (0.0, 1e140)])
def test_standardise_is_precise_in_any_units(offset, unit):
    z = np.random.default_rng(0).normal(size=(1000, 1)) * [1.0, 1.0]
    z[:, 1] = offset + unit * z[:, 1]
    standard, _ = Dataset.from_any(z).standardise()
    assert abs(standard.values.mean(axis=0)).max() < 1e-3
    np.testing.assert_allclose(standard.values.std(axis=0), 1, rtol=1e-9)


def test_standardise_refuses_what_has_no_mean():
    for bad in (np.nan, np.inf, 1e200):
        with pytest.raises(AuditError, match="column 'x2', row 0 "):
            Dataset.from_any(np.array([[1.0, bad], [2.0, 3.0]])).standardise()
    with pytest.raises(AuditError, match="no rows"):
        Dataset.from_any(np.zeros((0, 2))).standardise()


def test_scaling_cannot_change():
    scaling = Scaling(np.zeros(2), np.ones(2))
    for each in (scaling, pickle.loads(pickle.dumps(scaling))):
        with pytest.raises(ValueError, match="read-only"):
            each.scale[0] = 2


# ---- findings ---------------------------------------------------------------------------------


def test_an_audit_error_survives_pickling_with_its_findings():
    error = AuditError((Finding("missing", ("a",), "first"), Finding("constant", (), "second")))
    again = pickle.loads(pickle.dumps(error))
    assert again.findings == error.findings
    assert str(again) == "data has 2 problems:\n- first\n- second"


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 7, 9, 200])
def test_groups_of_rows_are_the_distinct_columns(share, n):
    rng = np.random.default_rng(n)
    mask = (rng.random((n, 4)) < share)[:, [0, 1, 0, 2, 1, 3]]
    masks, group = row_groups(mask)
    expected, inverse = np.unique(~mask, axis=1, return_inverse=True)
    np.testing.assert_array_equal(masks, expected)
    np.testing.assert_array_equal(group, inverse.reshape(-1))
