"""A fit that has so many minutes ends when they are over, and says what was cut short."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

import svidag
from svidag.report import Level, judge
from svidag.run.deadline import Deadline
from svidag.run.status import Status

sys.path.insert(0, str(Path(__file__).parent))

from choices import fit

pytestmark = pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps

GUIDE = {
    "method": "svi-dag",
    "guide": "mean-field",
    "iterations": 500,
    "rounds": 100_000,
    "sweeps": 4,
    "check_every": 2,
}


@pytest.fixture(scope="module")
def data():
    return svidag.datasets.synthetic(m=10, edges=16, n=200, seed="minutes").data


@pytest.mark.parametrize("minutes", [0.0, 1e-3])
@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_chains_without_time_end_and_say_so(data, mechanism, minutes):
    networks = {"units": 8} if mechanism == "nonlinear" else {}
    began = time.monotonic()
    with pytest.warns(svidag.FitWarning, match="time was over before a fresh search"):
        found = fit(
            data, mechanism=mechanism, exact=False, minutes=minutes, agreement=0, orders=10_000,
            **networks,
        )  # fmt: skip
    assert time.monotonic() - began < 60
    assert found.diagnostics.status is Status.TIME
    verdict = judge(found)
    assert verdict.level is Level.NOT
    assert any("time was over" in reason.text for reason in verdict.reasons)
    draws = found.sample(20)
    assert draws.shape == (20, 10, 10)
    assert svidag.graph.are_dags(draws).all()


def test_a_time_that_is_long_enough_changes_nothing(data):
    settings = {"mechanism": "linear", "exact": False}
    one, two = (fit(data, minutes=minutes, **settings) for minutes in (None, 60.0))
    assert one.edge_probabilities().equals(two.edge_probabilities())
    assert one.diagnostics.status is two.diagnostics.status is Status.CONVERGED


def test_a_sum_over_all_orders_is_not_cut_short(data):
    found = fit(data, mechanism="linear", minutes=0.0)
    assert found.diagnostics.status is Status.EXACT


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps
def test_a_guide_ends_in_time(data):
    found = fit(data, mechanism="linear", minutes=0.0, agreement=0, **GUIDE)
    assert found.diagnostics.status is Status.TIME
    assert len(found.diagnostics.details.bound_trace) == 1
    assert found.diagnostics.details.log_evidence_trace.shape[1] <= 2


def test_the_particle_algorithm_ends_after_a_chunk(data):
    small = {"guide": "mean-field", "hidden": (4,), "hyper": (4,), "particles": 2}
    found = fit(data, "svi-dag-published", iterations=100_000, chunk=2, minutes=0.0, **small)
    assert found.diagnostics.status is Status.TIME
    assert found.diagnostics.details.steps == 2


@pytest.mark.parametrize("minutes", [-1.0, float("nan")])
def test_no_time_that_there_could_be_is_an_error(data, minutes):
    with pytest.raises(ValueError, match="minutes must be a positive number, or None; got"):
        svidag.fit(data, minutes=minutes, progress=False)


def test_shares_of_the_time_pass_before_all_of_it(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("svidag.run.deadline.time.monotonic", lambda: clock[0])
    deadline = Deadline(2.0, 100.0)
    for seconds, expected in ((0, (False, False)), (36, (True, False)), (120, (True, True))):
        clock[0] = 100.0 + seconds
        assert (deadline.passed(0.3), deadline.passed()) == expected
    assert not Deadline(None).passed(np.finfo(float).tiny)
