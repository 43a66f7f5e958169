"""The loop of chains: segments until they agree, the budget is used up or the time is over."""

from dataclasses import dataclass

import numpy as np
import pytest

from svidag.run.chains import agree, run_segments
from svidag.run.convergence import Agreement
from svidag.run.status import Status

NEVER = Agreement(tolerance=0.0)


@dataclass(frozen=True, eq=False)
class Record:
    """Chains whose edges agree from a given length on."""

    length: int
    agree_from: int = 10**9

    @property
    def edges(self):
        apart = 0.0 if self.length >= self.agree_from else 1.0
        found = np.zeros((2, 2, 2))
        found[1, 0, 1] = apart
        return found

    @property
    def log_evidence(self):
        return np.zeros((2, self.length))

    def followed_by(self, later):
        return Record(self.length + later.length, self.agree_from)


def segment(before):
    return Record(10)


def test_the_budget_ends_chains_that_disagree():
    kept = []
    end = run_segments(Record(0), segment, budget=35, rule=NEVER, keep=kept.append)
    assert [record.length for record in kept] == [10, 20, 30, 40]
    assert end is kept[-1]
    assert not agree(end, NEVER)


@pytest.mark.parametrize("begin", [0, 10, 30])
def test_agreement_ends_chains_early_wherever_they_were_resumed(begin):
    rule = Agreement(tolerance=0.1, effective=50.0)
    end = run_segments(Record(begin, agree_from=30), segment, budget=1000, rule=rule)
    assert end.length == 30
    assert agree(end, rule)


def test_time_ends_chains_after_a_segment():
    end = run_segments(Record(0), segment, budget=100, rule=NEVER, expired=lambda: True)
    assert end.length == 10


def test_every_status_has_a_description_and_is_its_own_text():
    assert {*Status} == {
        "converged", "completed", "budget", "incomplete", "time", "exact", "diverged",
    }  # fmt: skip
    assert len({status.description for status in Status}) == len(Status)
