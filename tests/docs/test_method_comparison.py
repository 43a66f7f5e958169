"""The tables by which a reader chooses a method are what the rows of the study `methods` say.

`python tests/docs/test_method_comparison.py` writes them.
"""

import re
from functools import cache
from math import sqrt
from pathlib import Path

import pytest

from svidag.bench.rows import Store
from svidag.bench.study import Study
from svidag.bench.tables import tables

ROOT = Path(__file__).parents[2]
METHODS = (
    "order-mcmc",
    "svi-dag",
    "svi-dag-published",
    "dibs",
    "bayesdag",
    "dds",
    "prodag",
    "bcd-nets",
)
NETWORKS = {name: f"{name}-mlp" for name in ("dibs", "bayesdag", "prodag")}
"""On nonlinear data these run with networks, under another name in the study."""

SHOWN = {"linear-p25": "cpdag", "nonlinear-p25": "dag", "pooled": "dag", "t": "dag"}
"""The data sets of the first table, and the level of their scores."""

PUBLISHED = {"linear-p25": "cpdag", "nonlinear-p25": "dag", "pooled": "dag"}
NAMES = {
    "DiBS": "dibs",
    "BayesDAG": "bayesdag",
    "DDS": "dds",
    "ProDAG": "prodag",
    "BCD Nets": "bcd-nets",
}
METRICS = {
    "e_shd": ("E-SHD", -1),
    "e_f1": ("E-F1", 1),
    "auroc": ("AUROC", 1),
    "brier": ("Brier", -1),
}
REPLICATES = 5  # graphs of a published mean whose standard error is not known

CHOICE = "method | linear | nonlinear | Sachs | t noise"
COMPARISON = (
    "data | method | graphs | E-SHD | published | E-F1 | published | AUROC | published "
    "| Brier | published | beyond two standard errors"
)


@cache
def lines():
    """Every line of scores of the study, published ones too."""
    study = Study.read(ROOT / "studies" / "methods.toml")
    rows = Store(ROOT / "results" / "methods").rows()
    found = tables(study, rows, ROOT / "results" / "published")
    return [line for table in found for line in table.lines if "e_shd" in line]


def line_of(data, method, level, convention):
    """The line of 1000 rows, on Sachs against the graph that the paper compares with."""
    size = {"linear-p25": 1000, "nonlinear-p25": 1000}
    for line in lines():
        asked = (data, method, level, convention)
        is_it = (line["data"], line["method"], line["level"], line["convention"]) == asked
        if (
            is_it
            and line.get("n") in (size.get(data), None, 2000)
            and line.get("truth")
            in (
                None,
                "cdt18",
            )
        ):
            return line
    return None


def choice_rows():
    """E-SHD, E-F1, Brier and seconds of each method on each kind of data."""
    return [(f"`{method}`", *(choice_cell(data, method) for data in SHOWN)) for method in METHODS]


def choice_cell(data, method):
    name = NETWORKS.get(method, method) if data == "nonlinear-p25" else method
    line = line_of(data, name, SHOWN[data], "standard")
    if line is None:
        return "–"
    seconds = f"{line['seconds']:.0f} s" if line.get("seconds") else "–"
    return f"{line['e_shd']:.1f} / {line['e_f1']:.2f} / {line['brier']:.3f} / {seconds}"


def comparison_rows():
    """Each variant of the five methods beside the published means, reference scoring."""
    return [
        row
        for data, level in PUBLISHED.items()
        for theirs, ours in NAMES.items()
        for name in variants(data, ours)
        if (row := comparison_row(data, level, name, line_of(data, theirs, level, "reference")))
    ]


def variants(data, method):
    """The names under which the study runs a method on these data."""
    base = (method, f"{method}-mlp") if data == "pooled" else (choose(data, method),)
    return [name for each in base for name in (each, f"{each}-author")]


def choose(data, method):
    return NETWORKS.get(method, method) if data == "nonlinear-p25" else method


def comparison_row(data, level, name, published):
    line = line_of(data, name, level, "reference")
    if line is None:
        return None
    cells, beyond = [], []
    for metric, (title, sign) in METRICS.items():
        digits = 1 if metric == "e_shd" else 3
        error = line.get(f"{metric}_se")
        spread = "" if error is None else f" ± {error:.{digits}f}"
        cells += [f"{line[metric]:.{digits}f}{spread}", f"{published[metric]:.{digits}f}"]
        if error is not None:
            usual = error * sqrt(line["count"] / REPLICATES)
            both = sqrt(error**2 + published.get(f"{metric}_se", usual) ** 2)
            if abs(line[metric] - published[metric]) > 2 * both:
                better = sign * (line[metric] - published[metric]) > 0
                beyond.append(f"{title} {'better' if better else 'worse'}")
    verdict = ", ".join(beyond) or "none"
    if line["count"] == 1:
        verdict = "one graph: not known"
    return (data, f"`{name}`", str(line["count"]), *cells, verdict)


def expected():
    """Page, heading and rows of every table."""
    return [
        ("methods.md", CHOICE, choice_rows()),
        ("comparison.md", COMPARISON, comparison_rows()),
    ]


def pattern(heading):
    return re.compile(rf"^\| {re.escape(heading)} \|\n\|[-|]+\|\n((?:\|.*\|\n)*)", re.MULTILINE)


def written(rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


@pytest.mark.parametrize("page", ["methods.md", "comparison.md"])
def test_a_table_of_the_comparison_is_that_of_the_rows(page):
    ((heading, rows),) = [(heading, rows) for name, heading, rows in expected() if name == page]
    found = pattern(heading).findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert found == [written(rows)]


def write_tables():
    for page, heading, rows in expected():
        path = ROOT / "docs" / page
        text = path.read_text(encoding="utf-8")
        found = pattern(heading).search(text)
        assert found, f"docs/{page} must have a table headed | {heading} |"
        begin, end = found.span(1)
        path.write_text(text[:begin] + written(rows) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    write_tables()
