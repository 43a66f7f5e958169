"""A fit that has so many minutes ends when they are over, and says what was cut short."""

import time

import numpy as np
import pytest
from svidag.run.cautions import ConvergenceWarning

import svidag
from svidag.report import Level, judge
from svidag.run.deadline import Deadline
from svidag.run.status import Status

GUIDE = {"edges": "mean-field", "steps": 500, "rounds": 100_000, "sweeps": 4, "look": 2}


@pytest.fixture(scope="module")
def data():
    return svidag.datasets.synthetic(m=10, edges=16, n=200, seed="minutes").data


@pytest.mark.parametrize("minutes", [0.0, 1e-3])
@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_chains_without_time_end_and_say_so(data, mechanism, minutes):
    networks = {"units": 8} if mechanism == "nonlinear" else {}
    began = time.monotonic()
    with pytest.warns(ConvergenceWarning, match="time ran out before a fresh search"):
        found = svidag.fit(
            data, mechanism=mechanism, exact=False, minutes=minutes, progress=False, agreement=0,
            orders=10_000, **networks,
        )  # fmt: skip
    assert time.monotonic() - began < 60
    assert found.diagnostics["status"] == "time"
    verdict = judge(found)
    assert verdict.level is Level.NOT
    assert any("Time ran out" in reason.text for reason in verdict.reasons)
    draws = found.sample(20)
    assert draws.shape == (20, 10, 10)
    assert svidag.graph.are_dags(draws).all()


def test_a_time_that_is_long_enough_changes_nothing(data):
    settings = {"mechanism": "linear", "exact": False, "progress": False}
    one, two = (svidag.fit(data, minutes=minutes, **settings) for minutes in (None, 60.0))
    assert one.edge_probabilities().equals(two.edge_probabilities())
    assert one.diagnostics["status"] == two.diagnostics["status"] == "converged"


def test_a_sum_over_all_orders_is_not_cut_short(data):
    found = svidag.fit(data, mechanism="linear", minutes=0.0, progress=False)
    assert found.diagnostics["status"] == "exact"


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps
def test_a_guide_ends_in_time(data):
    found = svidag.fit(data, mechanism="linear", minutes=0.0, progress=False, agreement=0, **GUIDE)
    assert found.diagnostics["status"] == "time"
    assert len(found.diagnostics["bound_trace"]) == 1
    assert found.diagnostics["log_evidence_trace"].shape[1] <= 2


def test_the_published_algorithm_ends_after_a_chunk(data):
    small = {"hidden": (4,), "hyper": (4,), "width": 4, "blocks": 1, "particles": 2}
    found = svidag.fit(
        data, preset="paper", iterations=100_000, chunk=2, minutes=0.0, progress=False, **small
    )
    assert found.diagnostics["status"] == Status.TIME.value
    assert found.diagnostics["steps"] == 2


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("minutes", [-1.0, float("nan")])
def test_no_time_that_there_could_be_is_an_error(data, preset, minutes):
    with pytest.raises(ValueError, match="minutes must be a positive number; got"):
        svidag.fit(data, preset=preset, minutes=minutes, progress=False)


def test_shares_of_the_time_pass_before_all_of_it(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("svidag.run.deadline.time.monotonic", lambda: clock[0])
    deadline = Deadline(2.0, 100.0)
    for seconds, expected in ((0, (False, False)), (36, (True, False)), (120, (True, True))):
        clock[0] = 100.0 + seconds
        assert (deadline.passed(0.3), deadline.passed()) == expected
    assert not Deadline(None).passed(np.finfo(float).tiny)
