"""Importing svidag is quick and silent, and leaves JAX, NumPy and the warnings as they were."""

import subprocess
import sys

import pytest

TIMED = "import time; t = time.perf_counter(); import svidag; print(time.perf_counter() - t)"
EVERYTHING = """
import sys, warnings
import jax, numpy
# These set warning filters of their own.
import flowjax.flows, networkx, pandas, scipy.sparse, scipy.special, scipy.stats
before = dict(jax.config.values), numpy.geterr(), numpy.get_printoptions(), list(warnings.filters)
import svidag, svidag.cli
for name in svidag.__all__:
    getattr(svidag, name)
after = dict(jax.config.values), numpy.geterr(), numpy.get_printoptions(), list(warnings.filters)
assert before[:3] == after[:3], (before, after)
assert set(map(repr, after[3])) == set(map(repr, before[3])), after[3]
"""


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )


def test_importing_takes_less_than_three_seconds():
    assert float(run(TIMED).stdout) < 3.0


@pytest.mark.slow
def test_importing_everything_prints_nothing_and_changes_no_global_state():
    done = run(EVERYTHING)
    assert done.stdout == ""
    assert done.stderr == ""


def test_a_default_fit_needs_no_jax():
    code = (
        "import sys, svidag\n"
        "example = svidag.datasets.synthetic(m=3, edges=2, n=50, seed=1)\n"
        "svidag.fit(example.data, progress=False, bags=None).edge_probabilities()\n"
        "print('jax' in sys.modules)"
    )
    assert run(code).stdout.strip() == "False"
