"""Rows are kept whole, found again, and survive whatever a cell does to its process."""

import json

import pytest
from typer.testing import CliRunner

from svidag.bench.rows import Store
from svidag.cli import app

TOY = """
import os, time
import numpy as np
from pathlib import Path
from svidag.posterior import DrawnGraphs, Posterior

def toy(example, *, prior, seed, action="fine"):
    if action == "raise" and not Path("fixed").exists():
        raise ValueError("no luck")
    if action == "crash":
        os.kill(os.getpid(), 9)
    if action == "hoard":
        hoard = np.ones(2**28)
        time.sleep(60)
    print("noise on standard output")
    names = tuple(example.data.columns)
    graphs = prior.bind(names).sample(20, seed=seed)
    return Posterior(names, DrawnGraphs(graphs, np.full(20, 0.05)))
"""
STUDY = """
draws = 10
[limits]
memory_gb = 1.5
minutes = 5
cells_per_process = 10
[data.tiny]
source = "synthetic"
m = 3
edges = 2
n = 10
[method.toy]
method = "toy_method:toy"
action = ["fine", "raise", "crash", "hoard"]
[[cells]]
data = "tiny"
method = "toy"
"""


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "toy_method.py").write_text(TOY)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "results" / "study")


def test_a_cell_that_dies_is_lost_alone_and_tried_again(study):
    first = bench("run", "study.toml")
    assert first.exit_code == 1
    assert "1 finished, 3 failed, 0 were there" in first.output
    errors = {f["cell"]["method"]["action"]: f["error"] for f in study.failures().values()}
    assert errors["raise"] == "ValueError: no luck"
    assert errors["crash"] == "the process died (signal 9)"
    assert "the limit is 1.5" in errors["hoard"]
    (row,) = study.rows().values()
    assert row["cell"]["method"]["action"] == "fine"
    assert {"data", "fit", "draw", "score", "total"} <= row["seconds"].keys()
    assert row["peak_gb"] > 0.05
    assert row["seconds"]["total"] > row["seconds"]["fit"]

    study.folder.parent.parent.joinpath("fixed").touch()
    second = bench("run", "study.toml", "--only", "raise")
    assert "1 finished, 0 failed, 0 were there" in second.output
    assert len(study.failures()) == 2
    third = bench("run", "study.toml", "--only", "*e #0", "--list")
    assert third.output.count("done") == 3


def test_rows_are_written_whole_packed_and_found_again(tmp_path):
    store = Store(tmp_path / "s")
    assert (store.rows(), store.done(), store.failures()) == ({}, set(), {})
    store.keep_failure({"digest": "a", "error": "no"})
    store.keep({"digest": "a", "figures": 1})
    store.keep({"digest": "b", "figures": 2})
    assert store.failures() == {}
    assert not list(store.folder.rglob("*.part"))
    assert store.pack() == 2
    assert not list(store.folder.glob("rows/*.json"))
    store.keep({"digest": "a", "figures": 3})
    assert store.done() == {"a", "b"}
    assert {d: row["figures"] for d, row in store.rows().items()} == {"a": 3, "b": 2}
    assert store.pack({"a"}) == 1
    lines = (store.folder / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"digest": "a", "figures": 3}]


def test_a_wrong_study_is_a_message_and_not_a_traceback(study, tmp_path):
    (tmp_path / "bad.toml").write_text("draws = 0")
    wrong = bench("run", "bad.toml")
    assert wrong.exit_code == 2
    assert "bad.toml, line 1: draws must be at least 1" in wrong.stderr
    assert "no study file" in bench("run", "nothing").stderr
