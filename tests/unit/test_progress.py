"""What a fit of several stages shows while it runs."""

import dataclasses
import io
import time

import numpy as np
import pytest
from rich.console import Console

import svidag
from svidag.methods import SVIDAG, OrderMCMC, PublishedSVIDAG
from svidag.run import progress
from svidag.run.progress import Bar, Lines, Meter
from svidag.run.stages import Stages

QUICK = OrderMCMC(exact=False, chains=2, orders=50, check_every=50, agreement=0.0)


def rows():
    x = np.random.default_rng(0).standard_normal((60, 4))
    x[:, 1] += x[:, 0]
    return x


class Recorder(Meter):
    def __init__(self):
        self.stages = []

    def open(self, title, done, total):
        self.stages.append((title, total, []))

    def update(self, done, metrics):
        self.stages[-1][2].append(done)
        self.metrics = metrics

    def close(self):
        pass


@pytest.mark.slow
def test_every_stage_is_shown_with_its_total_where_that_is_known():
    recorder = Recorder()
    method = dataclasses.replace(QUICK, thin=10)
    svidag.fit(rows(), method=method, mechanism="linear", progress=recorder)
    searching, burning, moving, *again = recorder.stages
    assert searching == ("searching orders", 2, [1, 2])
    assert burning[:2] == ("burn-in", 2 * (100 + 50 * 10))
    assert moving[0].startswith("moving orders, at most ")
    assert max(moving[2]) == moving[1] == 2 * (100 + 50 * 10)
    assert [stage[:2] for stage in again] == [
        ("searching orders", 1),
    ]


@pytest.mark.slow
def test_networks_show_how_many_parent_sets_they_scored():
    recorder = Recorder()
    method = dataclasses.replace(QUICK, units=6)
    svidag.fit(rows(), method=method, mechanism="nonlinear", progress=recorder)
    scored = [
        done for title, _, reported in recorder.stages if "scoring" in title for done in reported
    ]
    assert scored == sorted(scored)
    assert 8 < scored[-1] <= 4 * 8
    swept = [stage for stage in recorder.stages if "searching with the mechanism" in stage[0]]
    assert {total for _, total, _ in swept} == {1}


def test_a_sum_over_all_orders_shows_its_one_stage():
    recorder = Recorder()
    svidag.fit(rows(), mechanism="linear", progress=recorder)
    assert [stage[0] for stage in recorder.stages] == ["scoring all parent sets"]


@pytest.mark.slow
def test_a_guide_shows_its_training_and_its_rounds():
    recorder = Recorder()
    method = SVIDAG(guide="mean-field", chains=1, iterations=4, covering=3, rounds=6, check_every=2)
    svidag.fit(rows(), method=method, mechanism="linear", progress=recorder)
    assert [(title, total) for title, total, _ in recorder.stages] == [
        ("training the guide", 4),
        ("covering what was found", 3),
        ("moving orders", 6),
    ]
    assert recorder.stages[2][2] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_algorithm_1_shows_its_steps_with_the_bound():
    recorder = Recorder()
    tiny = {"guide": "mean-field", "hidden": (4,), "hyper": (4,), "particles": 2}
    method = PublishedSVIDAG(iterations=5, chunk=2, **tiny)
    with pytest.warns(svidag.FitWarning, match="5 steps are too few"):
        svidag.fit(rows(), method=method, progress=recorder)
    ((title, total, reported),) = recorder.stages
    assert (title, total) == ("following the bound", 5)
    assert reported == [0, 2, 4, 5]
    assert {"ELBO", "edges"} <= recorder.metrics.keys()


def test_lines_count_up_where_the_end_is_not_known(capsys):
    lines = Lines(every=0.0)
    lines.open("scoring", 0, None)
    lines.update(1234, {})
    lines.close()
    reported = capsys.readouterr().err
    assert reported.startswith("scoring: 1,234 ")
    assert "left" not in reported


def test_what_comes_before_the_first_step_does_not_count_in_the_speed(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Lines, "_watch", lambda *_: None)
    lines = Lines(every=0.5)
    lines.open("fit", 20, 50)
    now[0] = 100.0
    lines.update(20, {})  # compiled after 100 seconds
    now[0] = 101.0
    lines.update(30, {})
    now[0] = 141.0
    lines.update(31, {})
    begun, moving, slow = capsys.readouterr().err.splitlines()
    assert begun == "fit: 20/50"
    assert moving == "fit: 30/50  10/s  2 s left"
    assert slow == "fit: 31/50  4 s each  71 s left"


def test_lines_go_on_where_stages_are_short_or_a_step_is_long(capsys):
    lines = Lines(every=0.2)
    for stage in ("one", "two"):
        lines.open(stage, 0, None)
        time.sleep(0.15)
        lines.update(1, {})
        lines.close()
    assert capsys.readouterr().err.startswith("two: 1")  # each stage alone is shorter
    lines.open("long", 3, None)
    time.sleep(0.7)
    lines.close()
    reported = capsys.readouterr().err.splitlines()
    assert 1 <= len(reported) <= 3
    assert reported[0] == "long: 3  for 0 s"


def test_bars_of_several_stages_stand_below_each_other():
    shown = io.StringIO()
    with Stages(Bar(Console(file=shown, force_terminal=True, width=100))) as stages:
        stages.report("scoring", 7, None)
        stages.report("moving", 10, 20)
    text = shown.getvalue()
    assert "scoring" in text
    assert "10/20" in text
    assert text.rindex("scoring") < text.rindex("moving")


@pytest.mark.slow
def test_silence_is_silent(capsys):
    svidag.fit(rows(), method=QUICK, mechanism="linear", progress=False)
    said = capsys.readouterr()
    assert said.out == said.err == ""
