"""The comparison in the README is what the committed rows and published results say."""

import re
from pathlib import Path

import pytest

from svidag.bench.rows import Store
from svidag.bench.study import Study
from svidag.bench.tables import GOAL, tables

ROOT = Path(__file__).parents[2]
METRICS = {"brier": -1, "e_shd": -1, "e_f1": 1, "auroc": 1}
ROW = re.compile(r"^\| ([^|]*) \| (\*\*svidag\*\*|SVI-DAG|best other) \| (.*) \|$")


def stated():
    """Lines of the README's table: data set, method, numbers."""
    data = ""
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if found := ROW.match(line.replace("| |", "|  |")):
            place, method, numbers = found.groups()
            if named := re.match(r"(\w+), (\d+) variables", place):
                data = f"{named[1]}-p{named[2]}"
            cells = [cell.strip(" *") for cell in numbers.split("|")]
            yield pytest.param(data, method.strip("*"), cells, id=f"{data} {method}")


def known(data, method):
    """The same numbers from the rows and the published files."""
    study = Study.read(ROOT / "studies" / "quality.toml")
    rows = Store(ROOT / "results" / "quality").rows()
    scores = next(tables(study, rows, ROOT / "results" / "published"))
    lines = [
        line
        for line in scores.lines
        if (line["data"], line["n"], line["convention"]) == (data, 1000, "reference")
        and line["method"] != GOAL
    ]
    ours = [line for line in lines if not line.get("published")]
    theirs = [line for line in lines if line["method"] == "SVI-DAG"]
    others = [line for line in lines if line not in ours + theirs]
    chosen = {"svidag": ours, "SVI-DAG": theirs, "best other": others}[method]
    return [sign * max(sign * line[name] for line in chosen) for name, sign in METRICS.items()]


@pytest.mark.parametrize(("data", "method", "cells"), list(stated()))
def test_every_number_is_that_of_the_rows(data, method, cells):
    for cell, number in zip(cells, known(data, method), strict=True):
        digits = len(cell.partition(".")[2])
        assert float(cell) == pytest.approx(number, abs=0.51 * 10**-digits)


def test_the_whole_table_is_read():
    assert len(list(stated())) == 12


def test_times_are_those_of_the_rows():
    study = Study.read(ROOT / "studies" / "runtime.toml")
    rows = Store(ROOT / "results" / "runtime").rows()
    (costs,) = tables(study, rows, ROOT / "results" / "published")
    spent = {
        line["data"]: round(line["seconds"])
        for line in costs.lines
        if line.get("n") == 1000 and not line.get("published")
    }
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    linear, nonlinear = re.findall(r"takes (.*?) if linear, (.*?) if nonlinear", text)[0]
    for kind, said in (("linear", linear), ("nonlinear", nonlinear)):
        stated = {int(m): int(s) for s, m in re.findall(r"(\d+) s with (\d+)", said)}
        assert stated == {m: spent[f"{kind}-p{m}"] for m in stated}
        assert len(stated) == (3 if kind == "linear" else 2)


BROKEN = {
    "t noise, 3 degrees of freedom": "t",
    "lognormal noise": "lognormal",
    "uniform noise": "uniform",
    "noise that grows with a parent": "growing",
    "curved effects, Gaussian noise": "curved",
    "Gaussian noise, nothing broken": "gaussian",
    "distorted scales of measurement": "distorted",
    "four batches, not declared": "batches",
    "rows that depend on each other": "autocorrelated",
    "measurement error": "measurement-error",
    "hidden common causes": "hidden",
}


def test_sure_arrows_on_broken_assumptions_are_those_of_the_rows():
    study = Study.read(ROOT / "studies" / "misspecified.toml")
    rows = Store(ROOT / "results" / "misspecified").rows()
    sureness = next(tables(study, rows, ROOT / "results" / "published"))
    known = {line["data"]: line for line in sureness.lines if line["method"] == "default"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words, data in BROKEN.items():
        (row,) = re.findall(rf"^\| {re.escape(words)} \| (.*) \|$", text, re.MULTILINE)
        *counts, error = row.split(" | ")
        line = known[data]
        assert [*map(int, counts)] == [line["true_arrows"], line["sure"], line["sure_wrong"]]
        digits = len(error.partition(".")[2])
        assert float(error) == pytest.approx(line["absolute_error"], abs=0.51 * 10**-digits)
