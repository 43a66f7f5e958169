"""Experiments in tables with discrete columns, against sums over all graphs."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from typer.testing import CliRunner

import svidag
from svidag.cli.application import app
from svidag.effects import information
from svidag.effects.kind_densities import SetDensities, table_predictive
from svidag.graph import all_dags
from svidag.mechanisms.discrete import DiscreteTables

ROWS = 25


@pytest.fixture(scope="module")
def tabulated():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2, 60)
    b = (a + (rng.random(60) < 0.3)) % 2
    c = np.minimum(b + rng.integers(0, 2, 60), 2)
    table = pd.DataFrame({"a": a, "b": b, "c": np.array(list("xyz"))[c]})
    return svidag.fit(table, method="exact", progress=False)


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    dose = rng.normal(size=300)
    answer = np.where(dose + 0.7 * rng.logistic(size=300) > 0, "yes", "no")
    table = pd.DataFrame({"dose": dose, "answer": answer})
    return svidag.fit(table, method="exact", progress=False)


def enlarged(posterior, rows, target):
    """The codes of the table with further rows, in which one variable was set."""
    codes = np.concatenate([posterior.problem.data.values, rows]).astype(np.int64).T
    kept = np.ones(codes.shape, dtype=bool)
    if target is not None:
        kept[target, -len(rows) :] = False
    sizes = np.array([len(levels) for levels in posterior.problem.data.levels])
    return DiscreteTables(np.ascontiguousarray(codes), sizes, kept)


def outcomes(posterior, target, count, seed):
    design = information.GraphDesign.of(posterior, seed)
    units = design.outcomes(count, ROWS, seed)
    level = np.resize(np.arange(len(posterior.problem.data.levels[target])), ROWS).astype(float)
    return design, units.simulate(target, level)


def test_the_predictive_probability_is_the_change_of_the_evidence(tabulated):
    _, rows = outcomes(tabulated, 0, 3, seed=1)
    before = DiscreteTables.of(tabulated.problem.data)
    for node, parents in ((2, [0, 1]), (1, [2]), (2, [])):
        chosen = np.zeros((1, 3), dtype=bool)
        chosen[0, parents] = True
        found = table_predictive(tabulated.mechanisms, node, np.array(parents, dtype=int), rows)
        for new, value in zip(rows, found, strict=True):
            after = enlarged(tabulated, new, None).family_scores(np.array([node]), chosen)
            first = before.family_scores(np.array([node]), chosen)
            assert value == pytest.approx((after - first)[0], abs=1e-9)


def test_information_about_the_graph_agrees_with_enumeration(tabulated, monkeypatch):
    monkeypatch.setattr(information, "GRAPHS", 3000)
    graphs = all_dags(3)
    before = tabulated.graphs.log_probability(graphs)
    nodes, parents = np.nonzero(np.ones((len(graphs), 3)))[1], graphs.swapaxes(1, 2).reshape(-1, 3)

    def evidence(model, target):
        scores = model.family_scores(nodes, parents.astype(bool)).reshape(-1, 3)
        return np.delete(scores, target, axis=1).sum(axis=1)

    measured = []
    for target in range(3):
        design, rows = outcomes(tabulated, target, 100, seed=2)
        (found,) = design.bits([design.terms(rows, target)], np.zeros(100, dtype=int))
        first, exact = evidence(DiscreteTables.of(tabulated.problem.data), target), []
        for new in rows:
            after = before + evidence(enlarged(tabulated, new, target), target) - first
            after -= logsumexp(after)
            exact.append((np.exp(after) * (after - before))[before > -np.inf].sum() / np.log(2))
        assert found.mean() == pytest.approx(np.mean(exact), abs=0.03)
        measured.append(np.mean(exact))
    assert max(measured) > 1.2 * min(measured)  # the variables do differ


def test_the_form_of_regressions_tells_no_direction(mixed):
    design, rows = outcomes(mixed, 1, 5, seed=1)
    sets = SetDensities(mixed.mechanisms, 0)
    nobody = np.zeros(0, dtype=int)
    forward = sets.family(0, nobody, rows) + sets.family(1, np.array([0]), rows)
    backward = sets.family(1, nobody, rows) + sets.family(0, np.array([1]), rows)
    np.testing.assert_allclose(forward, backward, atol=1e-8)
    assert design.uncertainty > 0.9


def test_setting_either_of_two_kinds_tells_their_direction_and_observing_does_not(mixed):
    found = mixed.next_experiments(rows=60, n=60)
    assert found.observing < 0.05
    assert found.bits.min() > 0.8  # of the one bit that is open


def test_columns_are_set_to_values_that_exist(tmp_path):
    rng = np.random.default_rng(1)
    stage = rng.integers(1, 6, 200)
    table = pd.DataFrame({
        "stage": stage,
        "group": rng.choice(["low", "mid", "high"], 200),
        "visits": rng.poisson(np.exp(0.4 * stage)),
        "x": rng.normal(size=200) + stage,
    })  # fmt: skip
    posterior = svidag.fit(
        table, kinds={"visits": "count"}, bags=None, method="exact", progress=False
    )
    posterior.save(tmp_path / "fit.svidag")
    found = posterior.next_experiments(5, n=3)
    values = dict(zip(found.names, found.values, strict=True))
    assert values["group"] == ("high", "low", "mid")
    assert set(values["stage"]) <= set(range(1, 6))
    assert set(values["visits"]) <= set(table["visits"])
    about = posterior.next_experiments(5, n=3, about=("group", "stage"))
    assert about.about == ("group", "stage")
    asked = posterior.next_experiments(5, n=3, values={"group": "low", "stage": [1, 5]})
    values = dict(zip(asked.names, asked.values, strict=True))
    assert values["group"] == ("low",)
    assert values["stage"] == (1, 5)
    with pytest.raises(ValueError, match="the values of 'group' are"):
        posterior.next_experiments(5, n=3, values={"group": "lowest"})
    line = ["next", str(tmp_path / "fit.svidag"), "--rows", "5", "-n", "3", "--json"]
    shown = CliRunner().invoke(app, [*line, "--set", "group=low,high"])
    experiments = json.loads(shown.stdout)["experiments"]
    assert ["low", "high"] in [one["values"] for one in experiments]
    refused = CliRunner().invoke(app, [*line, "--set", "group=lowest"])
    assert refused.exit_code != 0


def test_environments_and_mixtures_of_discrete_tables_have_experiments():
    rng = np.random.default_rng(2)
    a = rng.integers(0, 2, 240)
    table = pd.DataFrame({"a": a, "b": (a + (rng.random(240) < 0.3)) % 2, "batch": [0, 1, 2] * 80})
    for posterior in (
        svidag.fit(table, environments="batch", bags=None, progress=False),
        svidag.fit(table.drop(columns="batch"), bags=3, progress=False),
    ):
        found = posterior.next_experiments(rows=10, n=4)
        assert (found.bits <= found.limit + 1e-9).all()
