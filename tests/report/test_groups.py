"""Groups of variables in the report of a large graph."""

import numpy as np
import pytest

import svidag
from svidag.report import groups as module
from svidag.report.groups import groups


def planted(sizes, m=80):
    """Chains of these lengths, each connected to the next by one weak link."""
    edges, first = np.zeros((m, m)), 0
    for size in sizes:
        for k in range(first, first + size - 1):
            edges[k, k + 1] = 0.9
        edges[first, first + size - 1] = 0.9
        edges[first, first + size] = 0.2
        first += size
    return edges


def test_groups_that_were_planted_are_found_the_largest_first():
    found = groups(planted([4, 6, 5]))
    members = [sorted(group.members) for group in found]
    assert members == [[4, 5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [0, 1, 2, 3]]
    assert found[0].inside == pytest.approx(6 * 0.9)
    assert found[0].outside == pytest.approx(2 * 0.2)
    assert found == groups(planted([4, 6, 5]))


def test_pairs_and_single_variables_are_no_groups():
    assert groups(planted([2, 2])) == ()


def test_few_variables_have_none():
    assert groups(planted([4], m=50)) == ()


def test_the_page_lists_groups_with_names_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FEWEST_VARIABLES", 2)
    example = svidag.datasets.synthetic(m=4, edges=6, n=400, weights=(1.0, 1.5), seed=1)
    table = example.data.set_axis(["<b>a</b>", "b", "c", "d"], axis=1)
    posterior = svidag.exact.posterior(table)
    page = posterior.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="group-table"' in page
    assert "<b>a</b>" not in page
    monkeypatch.setattr(module, "FEWEST_VARIABLES", 50)
    page = posterior.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "group-table" not in page
