"""Tables in the documentation that repeat what the code declares are those of the code.

The page of a method is ``docs/NAME.md``. After a change of a setting, a diagnostic, a status or of
what a method supports, write the tables anew, from the root of the checkout::

    .venv/bin/python tests/docs/test_settings_tables.py
"""

import dataclasses
import re
from pathlib import Path

import pytest

from svidag.data import Kind
from svidag.methods import METHODS
from svidag.methods.bayesdag import BayesDAGDiagnostics
from svidag.methods.bcd_nets import BCDDiagnostics
from svidag.methods.dds import DDSDiagnostics
from svidag.methods.dibs import DiBSDiagnostics
from svidag.methods.gradient_diagnostics import GradientDiagnostics
from svidag.methods.prodag import ProDAGDiagnostics
from svidag.methods.search_diagnostics import SearchDiagnostics
from svidag.methods.svi_dag_chains import GuideDiagnostics
from svidag.run.status import Status

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = "setting | default | what it does"
DIAGNOSTICS = "diagnostic | what it is"
SUPPORT = (
    "method | mechanisms | interventions | beliefs | hard knowledge | only DAGs | environments | "
    "`coarsen` | discrete columns"
)
STATUS = "status | how the fit ended"
DETAILS = {
    "order-mcmc": SearchDiagnostics,
    "svi-dag": GuideDiagnostics,
    "svi-dag-published": GradientDiagnostics,
    "dibs": DiBSDiagnostics,
    "bayesdag": BayesDAGDiagnostics,
    "dds": DDSDiagnostics,
    "prodag": ProDAGDiagnostics,
    "bcd-nets": BCDDiagnostics,
}


def settings_rows(name):
    return [(f"`{f.name}`", f"`{f.default!r}`", f.help) for f in METHODS[name].describe()]


def diagnostics_rows(name):
    return [(f"`{f.name}`", f.metadata["label"]) for f in dataclasses.fields(DETAILS[name])]


def support_rows():
    declared = (
        "interventions",
        "beliefs",
        "hard_knowledge",
        "acyclic",
        "environments",
        "coarsening",
    )
    return [
        (
            f"`{name}`",
            ", ".join(f"`{mechanism}`" for mechanism in method.support.mechanisms),
            *("yes" if getattr(method.support, what) else "no" for what in declared),
            "yes" if set(method.support.kinds) == set(Kind) else "no",
        )
        for name, method in METHODS.items()
    ]


def status_rows():
    return [(f"`{status}`", status.description) for status in Status]


def expected():
    """Page, heading and rows of every table."""
    tables = [(f"{name}.md", SETTINGS, settings_rows(name)) for name in METHODS]
    tables += [(f"{name}.md", DIAGNOSTICS, diagnostics_rows(name)) for name in DETAILS]
    return [*tables, ("methods.md", SUPPORT, support_rows()), ("methods.md", STATUS, status_rows())]


def pattern(heading):
    """A Markdown table with this heading: its rows are the group."""
    return re.compile(rf"^\| {re.escape(heading)} \|\n\|[-|]+\|\n((?:\|.*\|\n)*)", re.MULTILINE)


def cells(line):
    """The cells of a line; a bar within a cell is written with a backslash."""
    inner = line.strip().removeprefix("| ").removesuffix(" |")
    return tuple(cell.replace(r"\|", "|") for cell in re.split(r" \| ", inner))


def written(rows):
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows
    )


@pytest.mark.parametrize(
    ("page", "heading", "rows"), expected(), ids=lambda value: value if type(value) is str else ""
)
def test_a_table_of_the_documentation_is_that_of_the_code(page, heading, rows):
    tables = pattern(heading).findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(tables) == 1, f"docs/{page} must have one table headed | {heading} |"
    assert [cells(line) for line in tables[0].splitlines()] == rows


def write_tables():
    for page, heading, rows in expected():
        path = DOCS / page
        text = path.read_text(encoding="utf-8")
        found = pattern(heading).search(text)
        assert found, f"docs/{page} must have a table headed | {heading} |"
        begin, end = found.span(1)
        path.write_text(text[:begin] + written(rows) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    write_tables()
