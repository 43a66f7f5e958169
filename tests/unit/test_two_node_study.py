"""studies/two_node.py: its shares, its published figures, and the table that the docs show."""

import importlib.util
import tomllib
from pathlib import Path

import numpy as np
import pytest

import svidag

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("two_node", ROOT / "studies" / "two_node.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(text):
    return np.array([float(part) for part in text.split(" / ")])


@pytest.fixture(scope="module")
def shown(study):
    """Rows of the docs' table by case."""
    lines = (ROOT / "docs" / "two-node.md").read_text(encoding="utf-8").splitlines()
    start = lines.index(study.HEADER[0])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[start + 2 :][:6]]
    return {(row[0], row[1]): row[2:] for row in rows}


def test_shares_are_those_of_the_posterior(study):
    exact = svidag.exact.posterior(**study.problem("linear", "correct"))
    edges = exact.edge_probabilities()
    forward, backward, none = numbers(study.shares(exact))
    # Five standard errors of 10 000 draws, in per cent.
    assert forward == pytest.approx(100 * edges.loc["x1", "x2"], abs=2.5)
    assert backward == pytest.approx(100 * edges.loc["x2", "x1"], abs=2.5)
    assert none == pytest.approx(100 - forward - backward, abs=0.15)


def test_the_data_are_the_first_900_rows_of_the_papers(study):
    data = study.problem("nonlinear", "incorrect")["data"]
    assert data.equals(svidag.datasets.two_node("nonlinear").data[:-100])


def test_published_figures_are_those_of_the_studies(study, shown):
    blocks = tomllib.loads((ROOT / "results/published/two-node.toml").read_text())["block"]
    for block in blocks:
        case = block["data"], block["prior"]
        expected = 100 * np.array(block["methods"]["SVI-DAG, file"])
        np.testing.assert_allclose(numbers(study.AUTHOR[case]), expected, atol=1e-9)
        assert shown[case][-2:] == [study.PAPER[case], study.AUTHOR[case]]
    assert len(blocks) == len(shown) == 6


def test_the_table_shows_what_the_paper_claims(shown):
    forward = {case: numbers(row[0])[0] for case, row in shown.items()}
    backward = {case: numbers(row[0])[1] for case, row in shown.items()}
    assert forward["linear", "correct"] > 80
    assert backward["linear", "incorrect"] > 80
    undecided = "linear", "noninformative"
    assert 0.35 < forward[undecided] / (forward[undecided] + backward[undecided]) < 0.65
    assert forward["nonlinear", "correct"] > 80
    assert forward["nonlinear", "incorrect"] < 5
