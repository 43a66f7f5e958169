"""The command line, run in this process."""

import io

import pandas as pd
import pytest
from typer.testing import CliRunner

import svidag
from svidag.cli import app


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})


def test_the_demo_marks_the_consensus_arrows_and_tells_its_time():
    result = run("demo")
    assert result.exit_code == 0, result.output
    assert "853 cells, 11 proteins" in result.output
    marked = [line for line in result.output.splitlines() if line.startswith("│PKC → P38")]
    assert marked
    assert marked[0].rstrip("│").endswith("✓")
    assert result.output.rstrip().endswith("s.")


@pytest.mark.parametrize(("rows", "count"), [("pooled", 7466), ("observational", 853)])
def test_data_prints_a_csv_that_reads_back(rows, count):
    result = run("data", "sachs", "--rows", rows)
    assert result.exit_code == 0
    table = pd.read_csv(io.StringIO(result.output))
    assert table.shape == (count, 11)
    assert tuple(table.columns) == svidag.datasets.sachs().names


def test_an_unknown_data_set_is_an_error_on_standard_error():
    result = run("data", "asia")
    assert result.exit_code == 2
    assert "unknown data set 'asia'" in result.stderr


def test_the_version():
    assert run("--version").output == f"svidag {svidag.__version__}\n"
