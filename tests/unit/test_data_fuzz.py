"""Odd tables, names and files: a correct result or a ValueError, never anything else."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from svidag.data import AuditError, Dataset
from svidag.data.columns import MISSING_WORDS
from svidag.data.scaling import SMALLEST

pytestmark = pytest.mark.slow  # many generated tables

fuzz = settings(
    max_examples=80,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

ODD_NAMES = ["", " ", "a", "a.1", "α", "e\u0301", "é", "<script>alert(1)</script>", "=1+1", "a;b"]
names = st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=8), st.just("long" * 5000))
good_names = st.lists(
    st.one_of(names, st.text(max_size=200)).filter(str.strip), min_size=2, max_size=5, unique=True
)
numbers = st.floats(width=64)
finite = st.floats(-1e140, 1e140)


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read(folder: Path, content: bytes, name: str = "t.csv") -> Dataset | None:
    """Return the dataset in a file, or None if it was refused with the file's name."""
    path = folder / name
    path.write_bytes(content)
    try:
        return Dataset.from_any(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise
        return None


def value_of(cell: str) -> float:
    if cell in MISSING_WORDS:
        return float("nan")
    return float({"true": "1", "false": "0"}.get(cell.lower(), cell))


def by_hand(text: str) -> tuple[list[str], list[list[float]]]:
    """Return what a text table says, read with nothing but the csv module and float."""
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if "".join(row).strip(" \t")]
    return rows[0], [[value_of(cell) for cell in row] for row in rows[1:]]


@fuzz
@given(st.text(alphabet='01.5,,,\n\n\r" -eNA\tTrue;', max_size=60))
@example("0,1\n.,1")
@example("1,2\n1,")
@example('""')
@example('" "')
@example("1,2\r,0\r\r,0")
def test_a_text_file_is_read_as_by_hand_or_refused(folder, tail):
    text = "a,b\n" + tail
    data = read(folder, text.encode())
    if data is None:
        return
    assume(not np.isnan(data.values).all(axis=1).any())  # rows without content, kept or not
    header, values = by_hand(text)
    assert list(data.names) == header
    np.testing.assert_array_equal(data.values, values)


@fuzz
@given(st.lists(st.lists(st.sampled_from(["1", "2.5", "-3e2", "", "NA"]), max_size=4), max_size=5))
def test_a_ragged_file_is_refused_and_a_straight_one_read(folder, rows):
    text = "a,b,c\n" + "".join(",".join(row) + "\n" for row in rows)
    data = read(folder, text.encode())
    kept = [row for row in rows if row not in ([], [""])]  # blank lines are no rows
    assert (data is not None) == (len(kept) > 0 and all(len(row) == 3 for row in kept))
    if data is not None:
        np.testing.assert_array_equal(data.values, [[value_of(c) for c in row] for row in kept])


@fuzz
@given(st.binary(max_size=200), st.sampled_from(["t.csv", "t.tsv", "t.parquet"]))
def test_random_bytes_are_read_or_refused(folder, content, name):
    data = read(folder, content, name)
    assert data is None or (name != "t.parquet" and data.n_rows > 0)


@fuzz
@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_a_damaged_file_is_read_or_refused(folder, where, byte, cut):
    text = "a,b,c\n" + "".join(f"{i},{i * i / 7},{-i}\n" for i in range(20))
    content = bytearray(text.encode())
    where %= len(content)
    content[where] = byte
    data = read(folder, bytes(content[: where + 1] if cut else content))
    assert data is None or data.values.shape[0] <= 21


@fuzz
@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_parquet_file_is_read_or_refused(folder, where, byte):
    path = folder / "good.parquet"
    if not path.exists():
        pd.DataFrame({"a": [1.0, 2, 3], "b": [1, 2, 3]}).to_parquet(path)
    content = bytearray(path.read_bytes())
    content[where % len(content)] = byte
    data = read(folder, bytes(content), "bad.parquet")
    assert data is None or data.m <= 2


@fuzz
@given(st.data(), good_names)
def test_names_and_numbers_go_through_a_csv_file_unchanged(folder, data, header):
    assume(not any("\0" in name or _lone_surrogate(name) for name in header))
    assume(not all(name.strip("+-. 0123456789eE_infatyINFATY") == "" for name in header))
    values = data.draw(arrays(np.float64, (4, len(header)), elements=numbers))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(header)
    writer.writerows(values.tolist())
    back = read(folder, buffer.getvalue().encode())
    assert back is not None
    # A byte order mark at the start of a file is not part of the first name.
    assert back.names == (header[0].removeprefix("\ufeff"), *header[1:])
    np.testing.assert_array_equal(back.values, values)


def _lone_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


cells = st.one_of(
    st.integers(), numbers, st.booleans(), st.none(), st.text(max_size=3), st.just([1]), st.just(1j)
)


@fuzz
@given(st.lists(names, min_size=1, max_size=4), st.data())
def test_an_odd_frame_is_converted_or_refused(labels, data):
    rows = data.draw(st.lists(st.lists(cells, min_size=len(labels), max_size=len(labels))))
    frame = pd.DataFrame(index=range(len(rows)), columns=range(len(labels)), dtype=object)
    for j in range(len(labels)):
        frame[j] = pd.Series([row[j] for row in rows], dtype=object)
    frame.columns = pd.Index(labels, dtype=object)
    real = all(isinstance(cell, int | float | None) for row in rows for cell in row)
    legal = len(set(labels)) == len(labels) and all(label.strip() for label in labels)
    try:
        converted = Dataset.from_any(frame)
    except ValueError:
        assert not (real and legal)
        return
    assert real
    assert legal
    assert converted.names == tuple(labels)
    expected = [[np.nan if cell is None else float(cell) for cell in row] for row in rows]
    np.testing.assert_array_equal(converted.values, np.reshape(expected, (-1, len(labels))))


@fuzz
@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)), st.data())
def test_any_numbers_are_audited_and_standardised_without_surprise(values, data):
    mask = data.draw(arrays(np.bool_, values.shape))
    dataset = Dataset.from_any(values, interventions=mask)
    try:
        dataset.audit()
    except AuditError as error:
        passed = not error.findings
    else:
        passed = True
    assert not passed or np.isfinite(values).all()
    try:
        standard, scaling = dataset.standardise()
    except AuditError:
        assert not (np.abs(values) <= 1e150).all() or len(values) == 0
        return
    assert np.isfinite(standard.values).all()
    assert (scaling.scale > 0).all()


@fuzz
@given(arrays(np.float64, (6, 3), elements=finite), arrays(np.bool_, (6, 3)))
def test_free_entries_are_centred_with_unit_variance_and_scaling_inverts(values, mask):
    standard, scaling = Dataset.from_any(values, interventions=mask).standardise()
    size = np.abs(values).max(axis=0)
    assert (np.abs(scaling.invert(standard.values) - values) <= 1e-12 * (size + 1e-300)).all()
    for j in range(3):
        free = ~mask[:, j] if not mask[:, j].all() else mask[:, j]
        column = values[free, j]
        if np.ptp(column) > max(1e-6 * np.abs(column).max(), SMALLEST):
            assert abs(standard.values[free, j].mean()) < 1e-6
            assert abs(standard.values[free, j].std() - 1) < 1e-6


@fuzz
@given(good_names, st.data())
def test_targets_written_by_name_give_back_the_mask(header, data):
    separable = [name for name in header if name == name.strip() and not {";", ","} & {*name}]
    assume(len(separable) == len(header) and "target" not in header)
    mask = data.draw(arrays(np.bool_, (5, len(header))))
    frame = pd.DataFrame(np.ones((5, len(header))), columns=pd.Index(header, dtype=object))
    frame["target"] = [
        data.draw(st.sampled_from([";", ",", "; "])).join(np.array(header, object)[row])
        for row in mask
    ]
    np.testing.assert_array_equal(Dataset.from_any(frame, interventions="target").intervened, mask)


@fuzz
@given(st.integers(0, 19), st.integers(0, 2), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_planted_gap_is_located(row, column, value):
    values = np.random.default_rng(0).normal(size=(20, 3))
    values[row, column] = value
    with pytest.raises(AuditError) as caught:
        Dataset.from_any(values).audit()
    assert f"in column 'x{column + 1}', row {row} (counting from 0)" in str(caught.value)


@fuzz
@given(arrays(np.float64, (8, 2), elements=st.floats(0.5, 1e100)))
def test_rank_gaussian_depends_only_on_the_order(values):
    plain = Dataset.from_any(values, transforms="rank-gaussian").values
    mapped = Dataset.from_any(8 * values, transforms="rank-gaussian").values
    np.testing.assert_array_equal(plain, mapped)
    order = np.argsort(values[:, 0])
    assert (np.diff(plain[order, 0]) >= 0).all()
    assert ((np.diff(plain[order, 0]) == 0) == (np.diff(values[order, 0]) == 0)).all()
