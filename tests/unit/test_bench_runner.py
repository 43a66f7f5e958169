"""Rows are kept whole, found again, and survive whatever a cell does to its process."""

import json

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from svidag.bench.clock import Clock
from svidag.bench.rows import Store
from svidag.cli import app

pytestmark = pytest.mark.slow  # starts processes

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
    if action == "sleep":
        time.sleep(60)
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
    assert "1 finished, 3 failed, 0 had a row already" in first.output
    errors = {f["cell"]["method"]["action"]: f["error"] for f in study.failures().values()}
    assert errors["raise"] == "ValueError: no luck"
    assert errors["crash"] == "the process ended unexpectedly (signal 9)"
    assert "the limit is 1.5" in errors["hoard"]
    (row,) = study.rows().values()
    assert row["cell"]["method"]["action"] == "fine"
    assert {"data", "fit", "draw", "score", "total", "compile", "run"} <= row["seconds"].keys()
    assert row["peak_gb"] > 0.05
    assert row["seconds"]["total"] > row["seconds"]["fit"]

    study.folder.parent.parent.joinpath("fixed").touch()
    second = bench("run", "study.toml", "--only", "action=raise")
    assert "1 finished, 0 failed, 0 had a row already" in second.output
    assert len(study.failures()) == 2
    third = bench("run", "study.toml", "--only", "*e #0", "--list")
    assert third.output.count("done") == 3


def test_a_row_is_checked_by_computing_it_again(study):
    assert "none of these cells has a row" in bench("check", "study.toml").stderr
    bench("run", "study.toml", "--only", "action=fine")
    (row,) = study.rows().values()
    again = bench("run", "study.toml", "--only", "action=fine")
    assert "0 finished, 0 failed, 1 had a row already" in again.output
    assert "1 finished" in bench("run", "study.toml", "--only", "action=fine", "--again").output
    assert "1 of 1 rows come out the same" in bench("check", "study.toml").output
    row["metrics"]["scores"][0]["brier"] += 1e-3
    study.keep(row)
    wrong = bench("check", "study.toml")
    assert wrong.exit_code == 1
    assert "metrics.scores.0.brier: " in wrong.output
    assert "0 of 1 rows come out the same" in wrong.output
    assert "number of cores" in wrong.output


def test_a_cell_that_takes_too_long_is_stopped(study, tmp_path):
    (tmp_path / "study.toml").write_text(
        STUDY.replace("minutes = 5", "minutes = 0.1").replace('"raise"', '"sleep"')
    )
    bench("run", "study.toml", "--only", "action=sleep")
    (failure,) = study.failures().values()
    assert failure["error"] == "stopped after 0.1 minutes, the limit of this study"


def test_a_pattern_without_a_cell_is_an_error(study):
    nothing = bench("run", "study.toml", "--only", "fin")
    assert nothing.exit_code == 1
    assert "no cell of study matches 'fin'" in nothing.stderr


def test_compiling_is_measured_apart():
    clock = Clock()
    with clock.compiling(), clock.part("fit"):
        jax.jit(lambda x: x**3)(jnp.ones(7)).block_until_ready()
    assert 0 < clock.seconds["compile"] < clock.seconds["fit"]
    before = clock.seconds["compile"]
    jax.jit(lambda x: x**5)(jnp.ones(7)).block_until_ready()
    assert clock.seconds["compile"] == before


def test_rows_are_written_whole_packed_and_found_again(tmp_path):
    store = Store(tmp_path / "s")
    assert (store.rows(), store.done(), store.failures()) == ({}, set(), {})
    store.keep_failure({"digest": "a", "error": "no"})
    store.keep({"digest": "a", "metrics": 1})
    store.keep({"digest": "b", "metrics": 2})
    assert store.failures() == {}
    assert not list(store.folder.rglob("*.part"))
    assert store.pack() == 2
    assert not list(store.folder.glob("rows/*.json"))
    store.keep({"digest": "a", "metrics": 3})
    assert store.done() == {"a", "b"}
    assert {d: row["metrics"] for d, row in store.rows().items()} == {"a": 3, "b": 2}
    assert store.pack({"a"}) == 1
    lines = (store.folder / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"digest": "a", "metrics": 3}]


def test_a_wrong_study_is_a_message_and_not_a_traceback(study, tmp_path):
    (tmp_path / "bad.toml").write_text("draws = 0")
    wrong = bench("run", "bad.toml")
    assert wrong.exit_code == 2
    assert "bad.toml, line 1: draws must be at least 1" in wrong.stderr
    assert "no study file" in bench("run", "nothing").stderr
