"""Rows become means with standard errors, published results beside them, and a page."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from svidag.bench import published
from svidag.bench.measures import averaged, calibration
from svidag.bench.page import shortfalls
from svidag.bench.rows import Store
from svidag.bench.schema import StudyError
from svidag.bench.study import Study
from svidag.bench.tables import latex, markdown, tables
from svidag.cli import app

pytestmark = pytest.mark.slow  # draws plots

RESULTS = Path(__file__).parents[2] / "results"
STUDIES = Path(__file__).parents[2] / "studies"
STUDY = """
title = "Small"
replicates = 2
[data.er]
source = "synthetic"
m = 4
edges = 3
n = [10, 100]
[method.exact]
method = "exact"
[[cells]]
data = "er"
method = "exact"
measures = ["scores", "forecasts"]
[show]
levels = { er = "dag" }
published = ["theirs", "goals"]
[quick]
replicates = 1
"""
THEIRS = """
source = "a table"
[[block]]
data = "er"
n = 100
level = "dag"
convention = "reference"
columns = ["brier", "e_shd", "auroc"]
[block.methods]
"Other" = [[0.5, 0.01], 0.5, ""]
"""
TWO_METHODS = """
[method.exact]
method = "exact"
[method.other]
method = "exact"
graph_weights = "structure"
"""
GOALS = THEIRS.replace("Other", "goal").replace("[0.5, 0.01], 0.5", "0.0, 5.0")


def row(cell, e_shd):
    scores = [
        {"level": level, "convention": convention, "brier": 0.1, "e_shd": e_shd, "auroc": None}
        for level in ("dag", "cpdag")
        for convention in ("standard", "reference")
    ]
    forecasts = [{"probability": [0.25, 0.75], "outcome": [0, 1]}]
    return {
        "digest": cell.digest,
        "metrics": {"scores": scores, "forecasts": forecasts},
        "seconds": {"fit": 2.0, "total": 5.0},
        "fresh_process": True,
        "peak_gb": 0.5,
        "versions": {"svidag": "1", "jax": "2", "numpy": "3", "python": "4", "machine": "m"},
        "cores": 2,
        "workers": 1,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, text in (
        ("studies/small.toml", STUDY),
        ("results/published/theirs.toml", THEIRS),
        ("results/published/goals.toml", GOALS),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    study, store = Study.read("studies/small.toml"), Store(tmp_path / "results" / "small")
    for cell, e_shd in zip(study.cells, (1.0, 3.0, 1.0), strict=False):
        store.keep(row(cell, e_shd))
    return tmp_path


def found(folder):
    study = Study.read(folder / "studies" / "small.toml")
    rows = Store(folder / "results" / "small").rows()
    return list(tables(study, rows, folder / "results" / "published"))


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_lines_are_means_beside_published_results(folder):
    scores, forecasts, costs = found(folder)
    assert [table.name for table in (scores, forecasts, costs)] == ["scores", "forecasts", "costs"]
    assert {line["level"] for line in scores.lines} == {"dag"}
    at = {(line["n"], line["convention"], line["method"]): line for line in scores.lines}
    assert at[10, "standard", "exact"]["e_shd"] == 2.0
    assert at[10, "standard", "exact"]["e_shd_se"] == pytest.approx(1.0)
    assert at[100, "reference", "Other"]["brier_se"] == 0.01
    assert (10, "reference", "Other") not in at
    assert costs.lines[0]["total_seconds"] == 5.0


def test_markdown_shows_errors_the_best_and_what_is_missing(folder):
    lines = markdown(found(folder)[0]).splitlines()
    assert lines[0].startswith("| data | n | convention | method | Brier | E-SHD |")
    assert "| er | 10 | standard | exact | 0.1000 ± 0.0000 | 2.00 ± 1.00 | 2.0 ± 0.0 | 2 |" in lines
    assert "| er | 100 | reference | exact | **0.1000** | 1.00 | 2.0 | 1 of 2 |" in lines
    assert (
        "| er | 100 | reference | Other (published) | 0.5000 ± 0.0100 | **0.50** |  |  |" in lines
    )
    assert "| er | 100 | reference | goal | 0.0000 | 5.00 |  |  |" in lines


def test_cells_with_a_measure_of_their_own_have_a_table_of_it_alone(folder):
    dense = '[data.dense]\nsource = "synthetic"\nm = 4\nedges = 5\nn = 10\n[[cells]]\n'
    dense += 'data = "dense"\nmethod = "exact"\nmeasures = ["truth"]\nreplicates = 3\n[show]'
    study = folder / "studies" / "small.toml"
    study.write_text(STUDY.replace("[show]", dense))
    store = Store(folder / "results" / "small")
    for cell, difference in zip(Study.read(study).select("dense *"), (-2.0, 0.0, 5.0), strict=True):
        store.keep(row(cell, 1.0) | {"metrics": {"truth": [{"nats_from_truth": difference}]}})
    scores, forecasts, truth, costs = found(folder)
    assert [table.name for table in (scores, forecasts, costs)] == ["scores", "forecasts", "costs"]
    assert "dense" not in markdown(scores)
    head, _, line = markdown(truth).splitlines()
    assert head == "| data | method | log posterior of draws minus truth | fit, s | replicates |"
    assert line == "| dense | exact | 1.0 ± 2.1 | 2.0 ± 0.0 | 3 |"
    assert bench("docs").exit_code == 0
    page = Path("docs/benchmarks.md").read_text()
    assert f"### Log posterior of the draws against the true graph\n\n{head}" in page


def test_latex_is_a_tabular_with_as_many_columns_as_each_line(folder):
    text = latex(found(folder)[0])
    columns = text.splitlines()[0].removeprefix(r"\begin{tabular}{").rstrip("}")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") + 1 for line in body} == {len(columns)}
    assert r"2.00 $\pm$ 1.00" in text


def test_where_others_are_better_and_goals_are_missed_is_said(folder):
    assert list(shortfalls(found(folder)[0])) == [
        "- er, 100, reference: Brier 0.1000 (exact), goal 0.0000",
        "- er, 100, reference: E-SHD 1.00 (exact), Other (published) 0.50",
    ]


def test_the_commands_print_draw_pack_and_write_the_page(folder):
    assert "| er | 10 | standard |" in bench("table", "small").output
    header, first, *_ = bench("table", "small", "--format", "csv").output.splitlines()
    assert dict(zip(header.split(","), first.split(","), strict=True))["e_shd_se"] == "1.0"
    drawn = bench("plot", "small").output.split()
    assert all(Path(path).stat().st_size > 1000 for path in drawn)
    assert {Path(path).name for path in drawn} >= {"er-dag-reference.svg", "reliability.png"}
    assert bench("pack", "small").output.startswith("3 rows in ")
    written = Path("results/small/tables")
    assert "svidag bench run small\n" in Path("results/small/README.md").read_text()
    assert (written / "scores.md").read_text().startswith("| data |")
    assert "\\begin{tabular}" in (written / "scores.tex").read_text()
    assert (written / "scores.csv").read_text().startswith("data,")
    assert bench("docs").exit_code == 0
    page = Path("docs/benchmarks.md").read_text()
    assert "## Small" in page
    assert "](plots/small-er-dag-reference.svg)" in page
    assert Path("docs/plots/small-er-dag-reference.svg").stat().st_size > 1000
    assert "1 of 4 cells have no row yet." in page
    assert bench("table", "small", "--quick").exit_code == 1


def test_a_published_line_competes_wherever_it_leaves_the_setting_open(folder):
    everywhere = THEIRS.replace("n = 100\n", "")
    (folder / "results/published/theirs.toml").write_text(everywhere)
    (folder / "results/published/goals.toml").write_text(GOALS.replace("n = 100\n", ""))
    scores = found(folder)[0]
    missed = list(shortfalls(scores))
    assert "- er, 10, reference: Brier 0.1000 ± 0.0000 (exact), goal 0.0000" in missed
    assert "- er, 100, reference: Brier 0.1000 (exact), goal 0.0000" in missed
    lines = markdown(scores).splitlines()
    # Best at both sizes in one metric, in neither in the other.
    assert any("Other (published) | 0.5000 ± 0.0100 | **0.50** |" in line for line in lines)
    assert any(line.startswith("| er | 10 | reference | exact | **0.1000") for line in lines)


def test_every_method_of_ours_is_held_against_the_best_of_the_others(folder):
    two = STUDY.replace('[method.exact]\nmethod = "exact"', TWO_METHODS)
    two = two.replace('method = "exact"\nmeasures', 'method = ["exact", "other"]\nmeasures')
    (folder / "studies/small.toml").write_text(two)
    (folder / "results/published/goals.toml").write_text('source = "none"')
    more = THEIRS + '"Third" = [0.4, 0.25, ""]\n'
    (folder / "results/published/theirs.toml").write_text(more)
    study = Study.read("studies/small.toml")
    level = {"exact": 0.5, "other": 3.0}
    rows = {c.digest: row(c, level[c.labels["method"]]) for c in study.cells}
    scores, *_ = tables(study, rows, folder / "results/published")
    assert list(shortfalls(scores)) == [
        "- er, 100, reference: E-SHD 0.50 ± 0.00 (exact), Third (published) 0.25",
        "- er, 100, reference: E-SHD 3.00 ± 0.00 (other), Third (published) 0.25, and 1 more",
    ]


def test_costs_of_others_decide_nothing_but_goals_do(folder):
    costs = THEIRS.replace('level = "dag"\nconvention = "reference"', 'measure = "costs"')
    costs = costs.replace('["brier", "e_shd", "auroc"]', '["seconds", "peak_gb"]')
    theirs = costs.replace('[[0.5, 0.01], 0.5, ""]', "[1.0, 0.1]")
    (folder / "results/published/theirs.toml").write_text(theirs)
    (folder / "results/published/goals.toml").write_text(
        theirs.replace("Other", "goal").replace("[1.0, 0.1]", "[3.0, 0.2]")
    )
    spent = found(folder)[-1]
    assert spent.name == "costs"
    assert list(shortfalls(spent)) == ["- er, 100: peak memory, GB 0.50 (exact), goal 0.20"]
    assert "**" not in markdown(spent)


def test_a_plot_leaves_out_published_lines_without_a_size(folder):
    (folder / "results/published/theirs.toml").write_text(THEIRS.replace("n = 100\n", ""))
    assert bench("plot", "small").exit_code == 0


def test_failed_cells_are_on_the_page(folder):
    study, store = Study.read("studies/small.toml"), Store(folder / "results" / "small")
    store.keep_failure({"digest": study.cells[3].digest, "error": "ValueError: why\nmore"})
    assert bench("docs").exit_code == 0
    assert (
        "*Failed:* er n=100 exact #1: ValueError: why\n" in Path("docs/benchmarks.md").read_text()
    )


def test_a_missing_file_of_published_results_is_a_message(folder):
    (folder / "results/published/theirs.toml").unlink()
    said = bench("table", "small")
    assert said.exit_code == 2
    assert "theirs.toml" in said.output


@pytest.mark.parametrize("workers", [2, None])
def test_times_of_cells_that_shared_the_machine_are_left_out(folder, workers):
    study = Study.read("studies/small.toml")
    rows = {c.digest: row(c, 1.0) | {"workers": workers} for c in study.cells}
    shown = list(tables(study, rows, folder / "results" / "published"))
    assert all("seconds" not in line and "peak_gb" in line for line in shown[-1].lines)
    assert "fit, s" not in "".join(map(markdown, shown))


def test_a_mean_leaves_out_what_is_undefined():
    (line,) = averaged([[{"auroc": 1.0}], [{"auroc": None}], [{"auroc": 0.5}]])
    assert line["auroc"] == 0.75
    assert line["auroc_se"] == pytest.approx(0.25)


def test_calibration_is_of_all_replicates_together():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(50, 30))
    right = [[{"probability": q, "outcome": rng.random(30) < q}] for q in p]
    wrong = [[{"probability": q, "outcome": rng.random(30) < q**3}] for q in p]
    (good,), (bad,) = calibration(right), calibration(wrong)
    assert (good["verdict"], bad["verdict"]) == ("within", "above")
    assert good["count"] == 50


def test_published_results_have_sources_and_fit_their_columns(tmp_path):
    names = tuple(path.stem for path in (RESULTS / "published").glob("*.toml"))
    assert all(text.strip() for text in published.sources(RESULTS / "published", names).values())
    lines = published.read(RESULTS / "published", names)
    dag = {"data": "pooled", "level": "dag", "method": "SVI-DAG", "truth": "cdt18"}
    (sachs,) = [line for line in lines if dag.items() <= line.items()]
    assert (sachs["brier"], sachs["e_f1"], sachs["auroc_se"]) == (0.185, 0.2895, 0.0227)
    (tmp_path / "bad.toml").write_text(THEIRS.replace('0.5, ""]', "0.5]"))
    with pytest.raises(StudyError, match=r"block\.methods\.Other must list 3 numbers"):
        published.read(tmp_path, ("bad",))


def test_every_study_names_published_files_that_exist():
    for path in STUDIES.glob("*.toml"):
        for name in Study.read(path).show.published:
            assert (RESULTS / "published" / f"{name}.toml").exists(), (path, name)
