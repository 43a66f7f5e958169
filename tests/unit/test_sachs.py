"""Sachs data: the file, the experiments, the three truths, the folds."""

import hashlib
import importlib
from importlib.resources import files

import networkx as nx
import numpy as np
import pytest

from svidag.datasets import sachs, sachs_folds

HEADER = "praf,pmek,plcg,PIP2,PIP3,p44/42,pakts473,PKA,PKC,P38,pjnk"
COLUMNS = HEADER.split(",")
COUNTS = [853, 902, 911, 723, 810, 799, 848, 913, 707]


@pytest.fixture(scope="module")
def pooled():
    return sachs()


def edges(example):
    truth = example.truth
    return {(c, e) for c in truth.index for e in truth.columns if truth.loc[c, e]}


def test_pooled_table(pooled):
    assert pooled.data.shape == (7466, 11)
    assert list(pooled.data.columns) == COLUMNS
    assert pooled.data.iloc[0].tolist() == [
        26.4,
        13.2,
        8.82,
        18.3,
        58.8,
        6.61,
        17.0,
        414.0,
        17.0,
        44.9,
        40.0,
    ]
    assert pooled.data.iloc[-1].tolist() == [
        30.5,
        1.01,
        7.3,
        173.0,
        22.9,
        6.61,
        13.7,
        890.0,
        1.0,
        1.0,
        1.65,
    ]
    assert pooled.data.to_numpy().min() == 1.0
    assert pooled.interventions.shape == pooled.data.shape
    assert list(pooled.interventions.columns) == COLUMNS
    assert pooled.model is None


def test_values_are_those_of_the_file_to_the_last_bit(pooled):
    text = (files("svidag.datasets") / "data" / "sachs" / "sachs.csv").read_text(encoding="ascii")
    header, *lines = text.splitlines()
    assert header == HEADER
    values = [[float(cell) for cell in line.split(",")] for line in lines]
    np.testing.assert_array_equal(pooled.data, values)


def test_observational_rows_are_the_first_853(pooled):
    example = sachs("observational")
    np.testing.assert_array_equal(example.data, pooled.data.iloc[:853])
    assert not example.interventions.to_numpy().any()
    assert example.interventions.shape == (853, 11)
    assert set(example.conditions) == {"cd3cd28"}


def test_conditions_follow_one_another(pooled):
    assert len(pooled.conditions) == 7466
    assert pooled.conditions.value_counts(sort=False).tolist() == COUNTS
    assert pooled.conditions.cat.codes.is_monotonic_increasing


def test_each_condition_marks_its_target_only(pooled):
    marked = pooled.interventions.groupby(pooled.conditions, observed=True).mean()
    targets = [list(row.index[row == 1.0]) for _, row in marked.iterrows()]
    assert targets == [
        [],
        [],
        ["pakts473"],
        ["PKC"],
        ["PIP2"],
        ["pmek"],
        ["pakts473"],
        ["PKC"],
        ["PKA"],
    ]
    assert set(np.unique(marked)) == {0.0, 1.0}


def test_row_blocks_show_the_known_effects_of_the_drugs(pooled):
    level = np.log(pooled.data).groupby(pooled.conditions, observed=True).mean()
    assert level["PIP2"].idxmin() == "psitectorigenin (PIP2)"
    assert level["p44/42"].idxmin() == "u0126 (Mek)"  # Mek's only substrate
    assert level["PKA"].idxmin() == "g0076 (PKC)"


@pytest.mark.parametrize(
    ("truth", "count", "cyclic"),
    [("consensus17", 17, False), ("cdt18", 18, True), ("tetrad20", 20, False)],
)
def test_truths(truth, count, cyclic):
    example = sachs("observational", truth)
    assert len(edges(example)) == example.truth.to_numpy().sum() == count
    assert list(example.truth.index) == list(example.truth.columns) == COLUMNS
    assert example.cyclic is cyclic
    assert ("cyclic" in example.description) is cyclic
    assert {("praf", "pmek"), ("pmek", "p44/42"), ("PKA", "P38"), ("PKC", "pjnk")} <= edges(example)


def test_the_cycle_of_cdt18_is_the_only_one():
    graph = nx.DiGraph(sorted(edges(sachs("observational", "cdt18"))))
    assert [set(cycle) for cycle in nx.simple_cycles(graph)] == [{"plcg", "PIP2", "PIP3"}]


def test_truths_differ_as_documented():
    by_name = {t: edges(sachs("observational", t)) for t in ("consensus17", "cdt18", "tetrad20")}
    assert by_name["tetrad20"] - by_name["cdt18"] == {
        ("PIP3", "PIP2"),
        ("PKC", "PKA"),
        ("p44/42", "pakts473"),
    }
    assert by_name["cdt18"] - by_name["tetrad20"] == {("PIP2", "PIP3")}
    assert by_name["consensus17"] - by_name["tetrad20"] == {("plcg", "PIP3")}
    assert by_name["tetrad20"] - by_name["consensus17"] == {
        ("PIP3", "plcg"),
        ("PIP3", "pakts473"),
        ("PIP2", "PKC"),
        ("plcg", "PKC"),
    }


def test_callers_do_not_share_tables(pooled):
    other = sachs()
    other.data.iloc[0, 0] = -1.0
    assert pooled.data.iloc[0, 0] == sachs().data.iloc[0, 0] == 26.4


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    raw = (files("svidag.datasets") / "data" / "sachs" / "sachs.csv").read_bytes()
    copy = tmp_path / "data" / "sachs" / "sachs.csv"
    copy.parent.mkdir(parents=True)
    monkeypatch.setattr(
        importlib.import_module("svidag.datasets.sachs"), "files", lambda _: tmp_path
    )
    copy.write_bytes(raw)
    assert sachs().data.shape == (7466, 11)
    copy.write_bytes(raw.replace(b"26.4", b"26.5", 1))
    with pytest.raises(
        ValueError, match=r"packaged file sachs\.csv was changed: expected SHA-256 fc33"
    ):
        sachs()


def test_provenance_names_the_file_that_is_there():
    folder = files("svidag.datasets") / "data" / "sachs"
    digest = hashlib.sha256((folder / "sachs.csv").read_bytes()).hexdigest()
    assert digest in (folder / "PROVENANCE.md").read_text(encoding="utf-8")
    assert (folder / "LICENSE.txt").read_text(encoding="utf-8").startswith("MIT License")


def test_folds_are_the_papers():
    permutation = np.random.default_rng(0).permutation(7466)
    folds = sachs_folds()
    assert [7466 - len(rows) for rows in folds] == [747] * 6 + [746] * 4
    for rows, start in zip(folds, [0, *range(747, 4483, 747), 5228, 5974, 6720], strict=True):
        np.testing.assert_array_equal(
            rows, np.sort(np.delete(permutation, np.s_[start : start + 7466 - len(rows)]))
        )
    assert not np.array_equal(sachs_folds(seed=1)[0], folds[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sachs(rows="all"), "rows must be 'pooled' or 'observational', got 'all'"),
        (
            lambda: sachs(truth="best"),
            "truth must be one of consensus17, cdt18, tetrad20, got 'best'",
        ),
        (lambda: sachs_folds(1), "k must be between 2 and 7466, got 1"),
    ],
)
def test_unknown_choices_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
