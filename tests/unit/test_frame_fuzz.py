"""Any frame that pandas can hold: a fit whose numbers are right, or an error that says what is."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import svidag
from odd_columns import BAD, GOOD, WHEN, frame_of, refused
from svidag.data import Dataset

pytestmark = pytest.mark.slow  # many generated tables

fuzz = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def attempt(frame, **options):
    """The posterior, or else the message of the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return svidag.fit(frame, method="exact", progress=False, **options), None
        except (ValueError, TypeError) as error:
            return None, refused(error)


def check_result(posterior, frame):
    p = posterior.edge_probabilities()
    assert list(p.index) == [str(name) for name in frame.columns]
    values = p.to_numpy()
    assert np.isfinite(values).all()
    assert ((values >= 0) & (values <= 1)).all()
    assert (np.diag(values) == 0).all()
    assert (values + values.T <= 1 + 1e-9).all()


@fuzz
@given(
    st.lists(st.sampled_from(sorted(GOOD)), min_size=2, max_size=4),
    st.integers(30, 60),
    st.integers(0, 1000),
)
def test_columns_of_good_kinds_are_fitted(kinds, rows, seed):
    frame = frame_of(kinds, rows, seed, GOOD)
    posterior, message = attempt(frame)
    assert message is None
    check_result(posterior, frame)


@fuzz
@given(
    st.sampled_from(sorted(BAD)),
    st.lists(st.sampled_from(sorted(GOOD)), min_size=1, max_size=2),
    st.integers(0, 1000),
    st.sampled_from(["error", "drop", "impute"]),
)
def test_a_column_that_cannot_be_used_is_named(bad, good, seed, missing):
    frame = frame_of([bad, *good], 40, seed, GOOD | BAD)
    name = frame.columns[0]
    posterior, message = attempt(frame, missing=missing)
    if posterior is None:
        assert repr(name) in message
        return
    assert bad.startswith("missing")
    assert missing != "error" or not frame[name].isna().any()
    check_result(posterior, frame)


@fuzz
@given(st.sampled_from(sorted(BAD)), st.sampled_from(sorted(GOOD)), st.integers(0, 4))
def test_tables_of_few_rows_are_refused_or_fitted(bad, good, rows):
    for kinds in ([good, good], [good, bad]):
        try:
            frame = frame_of(kinds, rows, 0, GOOD | BAD)
        except (ValueError, TypeError):  # pandas cannot hold it
            continue
        posterior, _ = attempt(frame)
        if posterior is not None:
            check_result(posterior, frame)


labels = st.one_of(
    st.text(max_size=4),
    st.integers(0, 2),
    st.none(),
    st.just(float("nan")),
    st.just(pd.NA),
    st.just(("a", 1)),
    st.just(WHEN),
    st.just(b"a"),
    st.floats(0, 1),
    st.booleans(),
)


@fuzz
@given(st.lists(labels, max_size=3))
@example([])
@example(["a"])
@example(["a", "a"])
@example([1, "1"])
@example([True, 1])
def test_odd_labels_of_columns_are_kept_or_refused(names):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, len(names))))
    frame.columns = pd.Index(names, dtype=object)
    frame.index = pd.Index([0, 0, *range(18)])  # an index is no variable, whatever it holds
    posterior, message = attempt(frame)
    if posterior is not None:
        check_result(posterior, frame)
        return
    texts = [str(name) for name in names]
    blank = any(name is pd.NA or name != name or not text.strip() or name is None
                for name, text in zip(names, texts, strict=True))  # fmt: skip
    assert blank or len(names) < 2 or len(set(texts)) < len(texts), message


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame(),
        pd.DataFrame(index=range(9)),
        pd.DataFrame(columns=["a", "b"]),
        pd.DataFrame(columns=pd.MultiIndex.from_product([["a"], ["b", "c"]])),
        pd.Series([1.0, 2.0]),
        np.zeros((3, 0)),
        np.zeros((0, 3)),
        np.zeros(4),
        np.zeros((2, 2, 2)),
        np.array([["a", "b"], ["c", "d"]]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        [],
        [[1, 2], [3]],
        None,
        3,
        "nowhere.csv",
        {"a": [1]},
        {1, 2},
    ],
    ids=repr,
)
def test_what_is_no_table_is_refused_in_words(data):
    with pytest.raises((ValueError, TypeError, OSError)) as caught:
        svidag.fit(data, method="exact", progress=False)
    assert refused(caught.value)


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_what_is_read_is_what_the_column_holds(kind):
    frame = frame_of([kind, "floats"], 60, 1, GOOD)
    back, column = Dataset.from_any(frame).to_frame().iloc[:, 0], frame.iloc[:, 0]
    if pd.api.types.is_numeric_dtype(back):
        expected = np.array([float(x) for x in column])
        np.testing.assert_array_equal(back.to_numpy(float), expected)
    else:
        assert [str(x) for x in back] == [str(x) for x in column]
