"""Reading tables from files: what is right is read exactly, what is wrong is named."""

import sys

import numpy as np
import pandas as pd
import pytest

from svidag.data import AuditError, Dataset


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def frame() -> pd.DataFrame:
    x = np.random.default_rng(1).normal(size=(50, 3)) * [1, 1e-12, 1e9]
    return pd.DataFrame(x, columns=["α β", "<b>x</b>", " c, d "])


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.CSV", "t.pq"])
def test_a_table_goes_round_exactly(tmp_path, name):
    path, table = tmp_path / name, frame()
    if name.lower().endswith("sv"):
        table.to_csv(path, index=False, sep="," if name.lower().endswith("csv") else "\t")
    else:
        table.to_parquet(path, index=False)
    for given in (path, str(path)):
        assert Dataset.from_any(given).checksum == Dataset.from_any(table).checksum


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_may_name_its_targets(tmp_path, name):
    table = pd.DataFrame({"1": [1.5, 2, 3], "2": [4, 5, 6.0], "t": ["", "1", "1;2"]})
    path = tmp_path / name
    table.to_csv(path, index=False) if name == "t.csv" else table.to_parquet(path)
    data = Dataset.from_any(path, interventions="t")
    assert data.names == ("1", "2")
    assert data.intervened.tolist() == [[False, False], [True, False], [True, True]]


def test_a_target_column_is_read_as_text(write):
    path = write("007,NA,t\n1,2,007\n3,4,NA\n5,6,\n")
    data = Dataset.from_any(path, interventions="t")
    assert data.intervened.tolist() == [[True, False], [False, True], [False, False]]


def test_a_saved_index_is_no_variable(tmp_path):
    table = frame().set_index(pd.Index(range(50), name="cell"))
    table.iloc[::-1].to_parquet(tmp_path / "t.parquet")
    assert Dataset.from_any(tmp_path / "t.parquet").names == tuple(table.columns)
    table.reset_index(drop=True).to_csv(tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"blank column name at position 0 .*index=False"):
        Dataset.from_any(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4", [[1, 2], [3, 4]]),
        ("\na,b\n1,2\n   \n3,4\n\n", [[1, 2], [3, 4]]),
        ("a,b\n\r,4\n5,6\n", [[np.nan, 4], [5, 6]]),
        ("a,b\r1,2\r,4\r\r5,6\r", [[1, 2], [np.nan, 4], [5, 6]]),
        ('a,b\n"1", 2 \n3,4e0\n', [[1, 2], [3, 4]]),
        ("a,b\nTrue,2\nFalse,4\n", [[1, 2], [0, 4]]),
        ("a,b\n18446744073709551616,-1\n1,9223372036854775808\n", [[2**64, -1], [1, 2**63]]),
        ("a,b\nNA,2\n3,null\n,nan", [[np.nan, 2], [3, np.nan], [np.nan, np.nan]]),
        ("a,b\ninf,2\n3,-Infinity\n", [[np.inf, 2], [3, -np.inf]]),
        ("a,b\n1e400,2\n0.1,1e-400\n", [[np.inf, 2], [0.1, 0]]),
    ],
)
def test_text_is_read_as_these_numbers(write, text, values):
    data = Dataset.from_any(write(text))
    assert data.names == ("a", "b")
    np.testing.assert_array_equal(data.values, values)


def test_names_are_kept_exactly(write):
    names = ['say "hi"', "two\nlines", "  padded ", "a.1", "ä" * 500, "=cmd()", "1"]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    assert Dataset.from_any(write(f"{quoted}\n{','.join('1234567')}\n")).names == tuple(names)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n \n\n", "is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n\n\n", "has no rows"),
        ("a,b,a\n1,2,3\n", "more than one column named 'a'"),
        ("a,,b\n1,2,3\n", "blank column name at position 1"),
        ("a,b\n1,2\n3\n", r"ragged: row 1 .* has 1 fields; expected 2"),
        ("a,b\n1,2\n3,4,5\n", r"ragged: row 1 .* has 3 fields; expected 2"),
        ("a,b\n1,2,3\n4,5,6\n", r"ragged: row 0 .* has 3 fields; expected 2"),
        ("a,b,c\n1,2\n4,5\n", r"ragged: row 0 .* has 2 fields; expected 3"),
        ("a,b\n1,2,\n3,4,\n", r"ragged: row 0 .* has 3 fields"),
        ('a,b\n1,2\n3,"4\n', "EOF inside string"),
        ("a;b\n1;2\n", "single column 'a;b'; expected fields separated by ','"),
        ("0.5,1.5\n2,3\n", r"begins with numbers \('0.5' and '1.5'\)"),
        ("a,b\n1,2\n3,x\n", "non-numeric values in column 'b' .*'x' in row 1 "),
        ("a,b\n1,2\n3,True\n", "non-numeric values in column 'b' .*'True' in row 1 "),
        ('a,b\n1,2\n3,"4,5"\n', "non-numeric values in column 'b' .*'4,5' in row 1 "),
        ("a,b\n1,1_000\n3,4\n", "non-numeric values in column 'b' .*'1_000' in row 0 "),
        (b"a,b\n1,\xff\n", "not UTF-8 text .*0xff"),
        ("a,b\n1,2\n".encode("utf-16"), "not (UTF-8 )?text"),
        (b"a,b\n1,2\xc3", "not UTF-8 text .*0xc3"),
        (b"a,b\n1,2\x003\n", "not text: it has a NUL byte at byte 7"),
        ("a," + "b" * 200_000 + "\n1,2\n", "field larger than field limit"),
    ],
)
def test_a_broken_text_file_is_named_with_what_is_wrong(write, content, message):
    with pytest.raises(ValueError, match=rf"data file .*table\.csv.*{message}"):
        Dataset.from_any(write(content))


def test_a_short_row_is_not_mistaken_for_an_empty_target(write):
    with pytest.raises(ValueError, match="ragged: row 1"):
        Dataset.from_any(write("a,b,t\n1,2,a\n3,4\n"), interventions="t")


def test_other_paths_are_named_with_what_is_wrong(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv' does not exist"):
        Dataset.from_any(tmp_path / "nowhere.csv")
    with pytest.raises(FileNotFoundError, match=r"a,b.*does not exist"):
        Dataset.from_any("a,b\n" + "1,2\n" * 10_000)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Dataset.from_any("\0.csv")
    with pytest.raises(ValueError, match="is a directory"):
        Dataset.from_any(tmp_path)
    with pytest.raises(ValueError, match=r"ending '\.xlsx'; expected '\.csv', '\.tsv'"):
        Dataset.from_any(write("a,b\n1,2\n", "t.xlsx"))
    with pytest.raises(ValueError, match="names is for arrays"):
        Dataset.from_any(write("a,b\n1,2\n"), names=["c", "d"])


def parquet_bytes(tmp_path) -> bytes:
    frame().to_parquet(tmp_path / "good.parquet")
    return (tmp_path / "good.parquet").read_bytes()


@pytest.mark.parametrize("part", ["empty", "text", "head", "tail", "middle"])
def test_a_broken_parquet_file_is_named(tmp_path, write, part):
    good = parquet_bytes(tmp_path)
    half = len(good) // 2
    contents = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "head": good[:half],
        "tail": good[half:],
        "middle": good[:-200] + bytes(100) + good[-100:],
    }
    with pytest.raises(ValueError, match=r"bad\.parquet is not a readable Parquet file"):
        Dataset.from_any(write(contents[part], "bad.parquet"))


def test_parquet_columns_are_checked_as_others(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(ValueError, match=r"t\.parquet has more than one column named 'a'"):
        Dataset.from_any(path)
    pq.write_table(pa.table({"a": [1, 2], "b": [[1], [2]]}), path)
    with pytest.raises(ValueError, match="non-numeric values in column 'b'"):
        Dataset.from_any(path)
    pq.write_table(pa.table({"a": pa.array([True, None]), "b": pa.array([1, None])}), path)
    np.testing.assert_array_equal(Dataset.from_any(path).values, [[1, 1], [np.nan, np.nan]])


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"svidag\[parquet\]"):
        Dataset.from_any(path)


def test_reading_a_pickle_under_another_name_runs_nothing(write):
    bomb = b"cbuiltins\nexit\n(tR."
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(ValueError, match="data file"):
            Dataset.from_any(write(bomb, name))


def test_missing_values_in_a_file_are_found_by_the_audit(write):
    data = Dataset.from_any(write("a,b\n1,2\n2,\n5,1\n4,4\n"))
    with pytest.raises(AuditError, match=r"1 missing value in column 'b', row 1 "):
        data.audit()


@pytest.mark.parametrize(
    "text", ["a;b\n1,5;2\n2,5;3\n", "a, b;c\n1;2\n3;4\n", "a, b;c\n1,0;2,0\n3,0;4,0\n"]
)
def test_another_separator_is_recognised_and_advice_given(write, text):
    with pytest.raises(ValueError, match=r"It seems to be separated by ';': save it with ','"):
        Dataset.from_any(write(text))


def test_decimal_commas_are_recognised(write):
    with pytest.raises(ValueError, match=r"'1,5' in row 0 .*write decimals with a point"):
        Dataset.from_any(write('a,b\n"1,5",2\n"2,5",3\n'))
    with pytest.raises(ValueError, match=r"'one' in row 0 .*convert, encode or drop"):
        Dataset.from_any(write("a,b\none,2\ntwo,3\n"))
    digits = pd.DataFrame({"a": ["1", "2"] * 5, "b": range(10)})
    with pytest.raises(ValueError, match=r"'1' in row 0 .*pandas.to_numeric.*'categorical'"):
        Dataset.from_any(digits)
    assert Dataset.from_any(digits, kinds={"a": "categorical"}).discrete[0]


def test_a_ragged_file_gets_no_wrong_advice(write):
    with pytest.raises(ValueError, match=r"one for each column name$"):
        Dataset.from_any(write("a,b\n1,2\n3\n"))
