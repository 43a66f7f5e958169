"""What the command line says of a result: the words and numbers of the object and the report."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import done, run

import svidag
from svidag.report.content import content
from svidag.report.render import render

QUICK = ("--mechanism", "linear", "--quiet")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3000))
    c = a + b + 0.5 * rng.standard_normal(3000)
    d = c + 0.5 * rng.standard_normal(3000)
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "dose": np.exp(d), "id": range(3000), "x,y": 1.0})
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def finished(table, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "run"
    chosen = ("--drop", "id", "--drop", "x,y", "--transform", "dose=log")
    result = done("fit", table, "-o", directory, *chosen, *QUICK)
    return directory, result.stdout


def test_one_column_is_transformed_and_columns_are_dropped(finished, table, tmp_path):
    posterior = svidag.load(finished[0])
    assert posterior.names == ("a", "b", "c", "dose")
    assert posterior.problem.data.transforms == (None, None, None, "log")
    chosen = ("--drop", "id,a", "--drop", "x,y", "--transform", "dose=log")
    chosen += ("--transform", "c=rank-gaussian")
    done("fit", table, "-o", tmp_path / "run", *chosen, *QUICK)
    other = svidag.load(tmp_path / "run").problem.data
    assert (other.names, other.transforms) == (("b", "c", "dose"), (None, "rank-gaussian", "log"))
    assert "is finished" in done("fit", tmp_path / "run").stderr
    assert (
        "No problem was found"
        in done("check", table, "--drop", "x,y", "--transform", "dose=log").stdout
    )
    refused = run("fit", table, "--transform", "log", "--transform", "rank-gaussian")
    assert refused.exit_code == 2
    assert "--transform CRP=log" in refused.stderr


def test_fit_takes_transforms_as_the_data_set_does(table):
    frame = pd.read_csv(table)[["a", "b", "c", "dose"]]
    mine = svidag.fit(frame, transforms={"dose": "log"}, mechanism="linear", progress=False)
    data = svidag.Dataset.from_any(frame, transforms={"dose": "log"})
    theirs = svidag.fit(data, mechanism="linear", progress=False)
    assert mine.edge_probabilities().equals(theirs.edge_probabilities())
    with pytest.raises(ValueError, match="nearest column is 'dose'"):
        svidag.fit(frame, transforms={"doze": "log"}, progress=False)


def test_terminal_report_and_frame_agree(finished):
    directory, shown = finished
    posterior = svidag.load(directory)
    frame, found = posterior.decided(), content(posterior)
    page = render(found)
    for row in frame.to_dict("records"):
        (line,) = [one for one in shown.splitlines() if f"{row['cause']} " in one
                   and f" {row['effect']} " in one and row["status"] in one]  # fmt: skip
        assert (row["detail"] or "open") in line
    counts = frame["status"].value_counts()
    assert f"{counts['decided arrow']} decided arrow" in shown
    assert found.count["decided arrow"] == counts["decided arrow"] == 3
    assert "conditional independences" in shown
    assert posterior.summary().mechanism in shown
    assert "Mechanisms: linear." in page
    assert len(found.shown_pairs) == len(frame)
    assert posterior.summary().counts in shown


def test_json_has_the_pairs(finished, table):
    found = json.loads(done("fit", finished[0], "--json").stdout)
    assert found["mechanism"] == "linear"
    assert {pair["status"] for pair in found["pairs"]} >= {"decided arrow"}


def test_the_next_experiment(finished):
    asked = ("next", finished[0], "--rows", 20, "--number", 10)
    found = json.loads(done(*asked, "--json").stdout)
    posterior = svidag.load(finished[0])
    assert found == posterior.next_experiments(20, n=10).to_dict()
    shown = done(*asked, "--set", "a=0,2").stdout
    assert "Expected information about the graph from 20 further rows" in shown
    assert "0, 2" in shown
    assert "effect of a on dose" in done(*asked, "--about", "a", "--about", "dose").stdout
    assert run(*asked, "--about", "a").exit_code == 2
    assert "--set takes name=value" in run(*asked, "--set", "a=x").stderr


def test_what_is_no_posterior_is_said(finished, table, tmp_path):
    with pytest.raises(ValueError, match=r"is a table, which `svidag.fit` fits"):
        svidag.load(table)
    with pytest.raises(ValueError, match="is a JSON file"):
        svidag.load(finished[0] / "request.json")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "request.json").write_bytes((finished[0] / "request.json").read_bytes())
    with pytest.raises(ValueError, match="is not finished; `svidag fit"):
        svidag.load(unfinished)
    (unfinished / "request.json").unlink()
    with pytest.raises(ValueError, match="is a directory without a finished run"):
        svidag.load(unfinished)
    (tmp_path / "renamed.npz").write_bytes((finished[0] / "posterior.svidag").read_bytes())
    assert svidag.load(tmp_path / "renamed.npz").names == svidag.load(finished[0]).names
