"""The soak test in small: it finds nothing in the project as it is, and every fault put in by hand.

It runs in a process of its own, since it forks, which a process with threads must not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from soak.cases import CHANGED, HANG, UNCLEAR, generator
from soak.clarity import unclear
from soak.figures import table
from soak.fits import draw_settings
from svidag.io.archive import FileError
from svidag.methods.registry import METHODS

ROOT = Path(__file__).parents[2]
START = """
import contextlib, json, os, sys, tempfile, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
from pathlib import Path
from soak.driver import Driver
from soak.warming import warm
warm(("linear",))
folder = tempfile.TemporaryDirectory()
driver = Driver(int(sys.argv[1]), Path(folder.name), patience=60)
"""
END = """
print(json.dumps(driver.figures.as_json(driver.minutes)))
"""


def soak(code, seed=5):
    """The figures of a small soak test."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", START + code + END, str(seed)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SOUND = """
driver.some_inputs(rounds=1)
driver.some_fits("exact", repeats=4)
for kind in ("kill", "interrupt", "disk", "read-only", "checkpoint", "result", "clock", "memory"):
    driver.one_fault(kind, "exact")
"""


@pytest.mark.slow
def test_nothing_is_found_in_the_project_as_it_is():
    found = soak(SOUND)
    assert found["failures"] == []
    assert found["totals"]["inputs"] == 161
    assert found["totals"]["fits"] == 4
    assert found["totals"]["faults"] >= 6
    assert "| inputs | 161 | 100,000 |" in table(found)


BROKEN = """
import svidag.io.tree
from svidag.prior import Prior
from svidag.run import checkpoint
from soak import inputs

# A lost table: what was saved as bits comes back empty, so that whole files are refused.
whole = svidag.io.tree._from_bits
svidag.io.tree._from_bits = lambda *a: 0 * whole(*a)
inputs.WHOLE = 1.0
driver.repeat("input/saved/0")
svidag.io.tree._from_bits = whole

# A reader that lets an error of a library through.
def broken(path):
    return {}["tiers"]
read, Prior.from_file = Prior.from_file, staticmethod(broken)
driver.repeat("input/knowledge/0")
Prior.from_file = read

# A swallowed exception: a checkpoint that cannot be written is passed over.
class Careless(checkpoint.Checkpoint):
    def write(self):
        with contextlib.suppress(OSError):
            return super().write()
from svidag.methods import fitting
fitting.Checkpoint = Careless
for _ in range(4):
    driver.one_fault("read-only", "order-mcmc")
fitting.Checkpoint = checkpoint.Checkpoint

# A lost table: a fit that is resumed has lost the parent sets of one variable but the empty one.
import dataclasses
import numpy as np
from soak import faults
from soak.fits import FitSpec, draw_table
from svidag.methods.registry import METHODS
from svidag.methods.base import Run
from svidag.scores import NodeTable, ScoreTables
resumed = Run.resumed
def losing(self, *stages):
    state = resumed(self, *stages)
    if state is None or "tables" not in state:
        return state
    tables = state["tables"]
    alone = NodeTable(np.array([0]), np.array([0]), np.zeros(1))
    scores = ScoreTables.join([*tables.scores.nodes[:-1], alone], tables.scores.absent)
    return {**state, "tables": dataclasses.replace(tables, scores=scores)}
Run.resumed = losing
sampled = METHODS["order-mcmc"].with_values({"exact": False, "orders": 50})
table = draw_table(np.random.default_rng(1), 60, 5, continuous=True).set_axis(list("abcde"), axis=1)
table["e"] += 2 * table["a"] / table["a"].std() * table["e"].std()
spec = FitSpec(table, sampled, {"mechanism": "linear", "workers": 1, "bags": None})
faults.draw_fit = lambda *_, **__: spec
for k in range(4):
    driver.repeat(f"fault/interrupt/order-mcmc/{k}")
Run.resumed = resumed

# A check that never ends, and one that ends the process.
driver.patience = 2
fitting.check = lambda **_: time.sleep(60)
driver.repeat("input/arguments/0")
fitting.check = lambda **_: os.abort()
driver.repeat("input/arguments/1")
"""


@pytest.mark.slow
def test_faults_put_in_by_hand_are_found():
    found = soak(BROKEN)
    what = {failure["case"]: failure for failure in found["failures"]}
    assert what["input/saved/0"]["what"] == CHANGED
    assert "KeyError" in what["input/knowledge/0"]["why"]
    assert any("passed over" in failure["why"] for failure in what.values())
    lost = [case for case in what if case.startswith("fault/interrupt/")]
    assert lost
    assert all("another result" in what[case]["why"] for case in lost)
    assert what["input/arguments/0"]["what"] == HANG
    assert "code -6" in what["input/arguments/1"]["why"]
    assert what["input/arguments/1"]["what"] == UNCLEAR


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def ours():
    try:
        METHODS["exact"].with_values({"units": -1})
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [KeyError("units"), IndexError("units"), np.linalg.LinAlgError("units"),
     RuntimeWarning("units"), AssertionError("units"), ValueError("units"), ValueError(""),
     RecursionError("units")],
    ids=repr,
)  # fmt: skip
def test_errors_of_libraries_are_unclear(error):
    assert unclear(raised(error), ["units"]) is not None


def test_errors_of_our_own_that_name_something_are_clear():
    error = ours()
    assert unclear(error, ["units"]) is None
    assert "names no argument" in unclear(error, ["chains"])
    assert "names no argument" in unclear(raised(FileError("is empty")), ["run.svidag"])
    assert unclear(raised(FileNotFoundError(2, "none", "run.svidag")), ["run.svidag"]) is None


def refusal(method, field, value):
    try:
        method.with_values({field: value})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_settings_are_drawn_from_what_a_method_declares(name):
    method, different = METHODS[name], set()
    declared = method.describe()
    for number in range(30):
        drawn = draw_settings(method, generator(0, f"{name}/{number}"))
        for field, value in drawn.items():
            complaint = refusal(method, field, value)
            if complaint:  # some go together only with others, which it names
                assert field in complaint
                assert any(other.name in complaint for other in declared if other.name != field)
        different |= drawn.keys()
    others = {field.name for field in declared if field.type != "an object"}
    assert different >= others - {"optimiser", "particle_optimiser"}


def test_a_case_has_its_own_random_numbers_whatever_ran_before():
    one, two = (generator(3, "input/text/7").random(4) for _ in range(2))
    assert (one == two).all()
    assert (generator(4, "input/text/7").random(4) != one).all()
