"""Every registered method is held to one contract; a method with a fault fails it."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.methods import METHODS, Exact, registry
from svidag.posterior import DrawnGraphs
from svidag.run.status import Status

sys.path.insert(0, str(Path(__file__).parent))

from checks import CLAUSES

TRIALS = {name: method.with_values(method.trial) for name, method in METHODS.items()}


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("name", TRIALS)
def test_every_method_keeps_the_contract(name, clause, tmp_path):
    CLAUSES[clause](TRIALS[name], tmp_path)


def test_the_default_comes_first_and_every_method_is_filed_under_its_name():
    assert next(iter(METHODS)) == "order-mcmc"
    assert all(METHODS[name].name == name for name in METHODS)


@dataclass(frozen=True)
class Listed(Exact):
    """A throw-away method: a list of graphs drawn from the exact posterior."""

    name: ClassVar[str] = "listed"
    summary: ClassVar[str] = "Graphs drawn from the exact posterior."

    def run(self, problem, run):
        fitted = super().run(problem, run)
        graphs = self.drawn(fitted.graphs.sample(2000, self.stream(run)), problem)
        return replace(fitted, graphs=DrawnGraphs(graphs, np.full(len(graphs), 1 / len(graphs))))

    def drawn(self, graphs, problem):
        return graphs

    def stream(self, run):
        return run.seed


class Cyclic(Listed):
    def drawn(self, graphs, problem):
        graphs[::4] = 1 - np.eye(graphs.shape[1], dtype=np.uint8)
        return graphs


class Forgetful(Listed):
    def drawn(self, graphs, problem):
        graphs[::4] = 0
        return graphs


class Lenient(Listed):
    """Keeps what is required, and has the arrow that is forbidden now and then."""

    def drawn(self, graphs, problem):
        graphs[::4, 0, 1] = 1
        return graphs


class Transposed(Listed):
    def drawn(self, graphs, problem):
        return graphs.swapaxes(1, 2)


class Restless(Listed):
    def stream(self, run):
        return int(np.random.default_rng().integers(2**31))


class Deaf(Listed):
    def run(self, problem, run):
        nowhere = np.zeros(problem.data.intervened.shape, dtype=bool)
        return super().run(replace(problem, data=replace(problem.data, intervened=nowhere)), run)


class Stubborn(Listed):
    """Takes the same stream whatever the seed, and does not claim to be exact."""

    def run(self, problem, run):
        return replace(super().run(problem, run), status=Status.COMPLETED)

    def stream(self, run):
        return 0


class Incredulous(Listed):
    def run(self, problem, run):
        silent = svidag.Prior().bind(problem.data.names)
        return super().run(replace(problem, prior=silent), run)


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_method_of_ones_own_keeps_the_contract(clause, tmp_path, monkeypatch):
    """A class and its registration are all that it needs, the command line included."""
    monkeypatch.setitem(registry._REGISTERED, "listed", Listed())
    CLAUSES[clause](Listed(), tmp_path)
    assert "listed" in CliRunner().invoke(app, ["methods"]).output


@pytest.mark.parametrize(
    ("faulty", "clause"),
    [
        (Cyclic, "draws_are_graphs_without_cycles"),
        (Forgetful, "knowledge_holds_in_every_draw_or_is_refused"),
        (Lenient, "knowledge_holds_in_every_draw_or_is_refused"),
        (Transposed, "knowledge_holds_in_every_draw_or_is_refused"),
        (Transposed, "interventions_count_or_are_refused"),
        (Deaf, "interventions_count_or_are_refused"),
        (Incredulous, "beliefs_count_or_are_refused"),
        (Restless, "same_seed_gives_the_same_result"),
        (Stubborn, "another_seed_is_another_computation"),
    ],
)
def test_a_method_with_a_fault_fails(faulty, clause, tmp_path):
    with pytest.raises(AssertionError):
        CLAUSES[clause](faulty(), tmp_path)


@dataclass(frozen=True)
class Modest(Listed):
    """A method that supports little."""

    name: ClassVar[str] = "modest"
    support: ClassVar[svidag.methods.base.Support] = svidag.methods.base.Support(
        mechanisms=("linear",), interventions=False, beliefs=False, hard_knowledge=False
    )


@pytest.mark.parametrize(
    "clause",
    [
        "knowledge_holds_in_every_draw_or_is_refused",
        "beliefs_count_or_are_refused",
        "interventions_count_or_are_refused",
    ],
)
def test_what_a_method_does_not_support_is_refused(clause, tmp_path):
    CLAUSES[clause](Modest(), tmp_path)


def test_a_refusal_names_a_method_that_can():
    table = svidag.datasets.synthetic(m=3, edges=2, n=50, seed=0).data
    with pytest.raises(ValueError, match=r"modest.*interventions.*method='order-mcmc'.*can"):
        svidag.fit(table, method=Modest(), interventions=np.eye(50, 3, dtype=bool))
    with pytest.raises(ValueError, match=r"'nonlinear'; got 'flexible'; method='order-mcmc'"):
        svidag.fit(table, method="svi-dag-published", mechanism="flexible")
    with pytest.raises(ValueError, match=r"mechanism='mlp' needs orders='stein' or 'gaussian'"):
        svidag.fit(table, method="svi-dag", mechanism="mlp")
