"""What is committed under results/ and shown in the docs is what the rows say; the rows hold."""

from functools import cache
from pathlib import Path

import pytest

from svidag.bench.cell import compute
from svidag.bench.page import shortfalls, write_page
from svidag.bench.rows import Store
from svidag.bench.runner import differences
from svidag.bench.study import Study
from svidag.bench.summary import summarise
from svidag.bench.tables import csv, latex, markdown, tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
NAMES = sorted(path.stem for path in (ROOT / "studies").glob("*.toml"))
WITH_ROWS = [name for name in NAMES if (RESULTS / name / "rows.jsonl").exists()]


@cache
def study(name):
    return Study.read(ROOT / "studies" / f"{name}.toml")


@cache
def rows_of(name):
    return Store(RESULTS / name).rows()


@cache
def shown(name):
    return list(tables(study(name), rows_of(name), RESULTS / "published"))


def test_the_page_is_the_one_that_the_rows_give(tmp_path):
    write_page([study(name) for name in NAMES], RESULTS, tmp_path / "benchmarks.md")
    now = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert now == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH_ROWS)
def test_tables_are_those_that_the_rows_give(name):
    for table in shown(name):
        for suffix, text in (("md", markdown), ("tex", latex), ("csv", csv)):
            kept = (RESULTS / name / "tables" / f"{table.name}.{suffix}").read_text("utf-8")
            assert kept.rstrip("\n") == text(table).rstrip("\n")


@pytest.mark.parametrize("name", WITH_ROWS)
def test_every_row_belongs_to_a_cell_of_its_study(name):
    asked = {cell.digest: cell.content for cell in study(name).cells}
    rows = rows_of(name)
    assert rows.keys() <= asked.keys()
    assert all(row["cell"] == asked[digest] for digest, row in rows.items())


def test_the_default_method_reaches_its_goals_of_quality():
    scores, *_ = shown("quality")
    assert [line for line in shortfalls(scores) if "goal" in line] == []
    assert all(line["count"] == line["asked"] for line in scores.lines if "count" in line)


@pytest.mark.parametrize(
    ("name", "cell"),
    [("mec", "linear-p10 order-mcmc #9"), ("quality", "linear-p25 n=1000 linear #2")],
)
def test_a_cell_computed_again_gives_its_row(name, cell):
    (cell,) = study(name).select(cell)
    row = rows_of(name)[cell.digest]
    assert list(differences(row["metrics"], compute(cell)["metrics"])) == []


def test_the_prior_does_to_one_arrow_what_the_paper_says():
    lines = summarise(study("two-node"), rows_of("two-node"), "shares")
    at = {
        (line["data"], line["prior"]): line
        for line in lines
        if line["method"] == "svi-dag-published"
    }
    for kind in ("linear", "linear-fresh"):
        assert at[kind, "correct"]["forward"] > 0.8
        assert at[kind, "incorrect"]["backward"] > 0.8
        forward, backward = (at[kind, "noninformative"][k] for k in ("forward", "backward"))
        assert 0.3 < forward / (forward + backward) < 0.7
    for kind in ("nonlinear", "nonlinear-fresh"):
        assert at[kind, "correct"]["forward"] > 0.8


def test_the_page_on_two_variables_shows_its_rows():
    lines = summarise(study("two-node"), rows_of("two-node"), "shares")
    page = (ROOT / "docs" / "two-node.md").read_text(encoding="utf-8")
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    cells = {(row[0].removeprefix("| "), row[1]): row[2:] for row in table if len(row) == 8}
    columns = {"svi-dag-published": 0, "straight-through": 1, "order-mcmc": 2, "exact": 3}
    compared = [
        (cells[line["data"], line["prior"]][column], line)
        for line in lines
        for method, column in columns.items()
        if line["method"].startswith(method) and "fresh" not in line["data"]
    ]
    assert len(compared) == 24
    for text, line in compared:
        shares = [100 * line[name] for name in ("forward", "backward", "none")]
        assert text == " / ".join(f"{share:z.1f}" for share in shares)
