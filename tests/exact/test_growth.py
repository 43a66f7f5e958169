"""What is missing from tables is noticed, told and, where there is room for it, repaired."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import svidag
from svidag.graph import is_dag, topological_order
from svidag.mechanisms.local import LocalScores
from svidag.methods import order_sampling as method
from svidag.methods.base import Run
from svidag.methods.mechanism_building import MechanismBuilder
from svidag.methods.mechanism_choice import IntegratedMechanism
from svidag.methods.order_mcmc import OrderMCMC
from svidag.posterior.diagnostics import Diagnostics
from svidag.problem import Problem
from svidag.report import Level, judge
from svidag.run.checkpoint import Checkpoint
from svidag.run.deadline import Deadline
from svidag.run.status import Status
from svidag.samplers.ladder import free_power
from svidag.samplers.order_chains import run_chains
from svidag.scores import ParentSets, Shares, Weigher, compute_shares, log_evidence
from svidag.scores.parent_sets import holds_all_sets, tabulate_all_sets
from svidag.search.growth import Half, Round, measure_missing_share
from svidag.search.parent_set_tables import (
    chain_starts,
    grow_halves,
    join_halves,
    list_all_sets,
    search_outside_tables,
)
from svidag.search.sketch_checks import (
    NOT_IMPROBABLE,
    best_graph,
    check_neighbours,
    reverse_arrows,
    score_both,
)


def silent(*_):
    pass


DENSE = svidag.Prior(expected_parents=1.5)
"""Some nodes have three parents or more."""


class ProblemWithTables:
    """A small problem with tables, as a fit makes them before its chains."""

    def __init__(self):
        example = svidag.datasets.synthetic(m=8, edges=14, n=1000, seed=3)
        self.posterior = svidag.exact.posterior(example.data, prior=DENSE)
        self.exact = self.posterior.edge_probabilities().to_numpy()
        self.strong = np.argwhere(example.truth.astype(bool) & (self.exact > 0.95)).tolist()
        self.problem = Problem.build(example.data, prior=DENSE, standardise=True)
        usual = OrderMCMC()
        model = MechanismBuilder(self.problem, 0).linear()
        self.mechanism = IntegratedMechanism("linear", model, None)
        self.schedule = method._schedule(self.problem, usual)
        growth = method._growth(self.problem, self.mechanism, self.schedule, usual)
        self.task = method._Task(
            self.problem, self.run(), self.mechanism, self.schedule, growth, free_power(1000)
        )
        self.grower = method._grower(self.task)
        self.halves = grow_halves(self.grower, report=silent, keep=silent)
        self.made = join_halves(self.grower, self.halves)

    def run(self, deadline=None):
        checkpoint = Checkpoint(None, {})
        time = deadline or Deadline()
        return Run("linear", "order", 0, silent, checkpoint, None, time)

    def without(self, cause, effect):
        """The same, but no parent set of the effect has the cause."""
        sets = self.made.sets
        has = (sets.nodes == effect) & sets.parents()[:, cause]
        left = sets.chosen(np.flatnonzero(~has))
        assert 0 < len(left) < len(sets)
        drawn = np.concatenate([half.drawn for half in self.halves])
        scores, _ = self.grower.build_tables(left, compute_shares(left, drawn))
        return dataclasses.replace(self.made, sets=left, scores=scores)

    def chains(self, made):
        starts = chain_starts(made.starts, self.schedule.chains)
        return run_chains(made.scores, self.problem.prior, self.schedule, seed=0, starts=starts)

    def error(self, edges):
        return np.abs(edges - self.exact).max()

    def judged(self, reasons):
        """The verdict of a posterior that reports these reasons."""
        facts = Diagnostics("order-mcmc", "linear", Status.CONVERGED, 1.0, tuple(reasons))
        return judge(dataclasses.replace(self.posterior, diagnostics=facts)).level

    def outcome(self, made, chains):
        """Status and verdict of tables and chains."""
        details = method._diagnostics(made, chains)
        status = method._status(self.task, details, chains)
        reasons = [
            *method.judge_chains(details, status, budget="orders"),
            *method.judge_search(details),
        ]
        return status, self.judged(reasons)


@cache
def grown():
    return ProblemWithTables()


def test_there_are_strong_true_parents_to_take_out():
    assert len(grown().strong) >= 3


def test_complete_tables_are_left_alone_and_trusted():
    case = grown()
    chains = case.chains(case.made)
    assert case.error(chains.edges.mean(axis=0)) <= 0.05
    checked, more = search_outside_tables(case.grower, case.made, chains, silent)
    assert more is None
    assert checked.growth_ended
    assert checked.searches_agree
    assert checked.outside <= 0.05
    assert case.outcome(checked, chains) == (Status.CONVERGED, Level.TRUST)


def test_where_all_parent_sets_fit_tables_hold_all_of_them():
    case = grown()
    made = list_all_sets(case.grower, silent)
    assert made is not None
    assert holds_all_sets(made.scores, case.problem.prior)
    assert len(made.scores.masks) == 8 * 2**7
    assert not holds_all_sets(case.without(*case.strong[0]).scores, case.problem.prior)
    chains = case.chains(made)
    assert case.error(chains.edges.mean(axis=0)) <= 0.05
    checked, more = search_outside_tables(case.grower, made, chains, silent)
    assert more is None
    assert case.outcome(checked, chains) == (Status.CONVERGED, Level.TRUST)


def test_better_orders_than_those_of_the_chains_are_noticed():
    case = grown()
    made = list_all_sets(case.grower, silent)
    chains = case.chains(made)
    worse = dataclasses.replace(chains, log_evidence=chains.log_evidence - 50.0)
    checked, more = search_outside_tables(case.grower, made, worse, silent)
    assert more is not None
    assert not checked.searches_agree


def test_tables_of_all_sets_obey_hard_knowledge():
    names = tuple(f"x{k}" for k in range(1, 9))
    prior = svidag.Prior(required=[("x1", "x2")], forbidden=[("x3", "x2")]).bind(names)
    weigher = Weigher(grown().mechanism.scores, prior)
    tables = tabulate_all_sets(weigher)
    assert holds_all_sets(tables, prior)
    listed = tables.nodes[1].members(8)
    assert len(listed) == 2**5
    assert listed[:, 0].all()
    assert not listed[:, 2].any()
    assert tables.nodes[1].weights == pytest.approx(weigher.weigh(np.ones(32, int), listed))


@pytest.mark.parametrize("which", range(3))
def test_a_true_parent_taken_out_by_hand_is_noticed_and_not_trusted(which):
    case = grown()
    cut = case.without(*case.strong[which])
    chains = case.chains(cut)
    assert case.error(chains.edges.mean(axis=0)) > 0.5
    checked, more = search_outside_tables(case.grower, cut, chains, silent)
    assert more is not None
    status, level = case.outcome(checked, chains)
    assert status is not Status.CONVERGED
    assert level is Level.NOT
    repaired = case.chains(more)
    assert case.error(repaired.edges.mean(axis=0)) <= 0.05


def fitted(monkeypatch, which, searches=OrderMCMC.fresh_searches, deadline=None):
    """A fit that begins with a true parent taken out."""
    case = grown()
    cut = case.without(*case.strong[which])
    monkeypatch.setattr(method, "_tabulate", lambda task, grower: cut)
    own = OrderMCMC(fresh_searches=searches)
    found = method.sample_orders(case.problem, case.run(deadline), case.mechanism, own)
    return found, case.error(found.graphs.edge_probabilities()), case.judged(found.reasons)


def test_a_fit_that_may_not_repair_says_so(monkeypatch):
    found, error, level = fitted(monkeypatch, 0, searches=1)
    assert error > 0.5
    assert found.status in (Status.INCOMPLETE, Status.BUDGET)  # chains may agree or not
    assert level is Level.NOT


def test_a_fit_that_may_repair_does(monkeypatch):
    found, error, level = fitted(monkeypatch, 0)
    assert error <= 0.05
    assert found.status is Status.CONVERGED
    assert found.details.searched_again > 1
    assert level is Level.TRUST


class Passing(Deadline):
    """A deadline that has passed when chains have begun for the second time."""

    def passed(self, share=1.0):
        return grown().begun >= 2


def test_a_repair_that_nobody_could_check_is_not_trusted(monkeypatch):
    case = grown()
    case.begun = 0

    def counted(*given, resumed=None, **named):
        case.begun += 1
        return run_chains(*given, resumed=resumed, **{**named, "stop": None})

    def search(grower, made, chains, report):
        checked, more = search_outside_tables(case.grower, made, chains, report)
        # As if only the round after the chains had found something, and no fresh search.
        told = {"outside": 0.0, "search_gaps": case.made.search_gaps}
        return dataclasses.replace(checked, **told), dataclasses.replace(more, **told)

    monkeypatch.setattr(method, "run_chains", counted)
    monkeypatch.setattr(method, "search_outside_tables", search)
    found, error, level = fitted(monkeypatch, 0, deadline=Passing())
    assert case.begun == 2
    assert error <= 0.05  # it went well, but that is luck
    assert found.status is Status.TIME
    assert level is Level.NOT


def test_what_one_half_lacks_of_the_other_is_the_share_of_it():
    case = grown()
    own, (cause, effect) = case.halves[0], case.strong[0]
    assert measure_missing_share(own, own.sets) == 0.0
    left = case.without(cause, effect).sets
    drawn = own.drawn
    whole = own.sets.joined(left)
    rank = np.argsort(drawn, axis=1)
    rows = np.flatnonzero(whole.nodes == effect)
    before = rank < rank[:, effect, None]
    inside = (whole.parents(rows)[None] <= before[:, None]).all(axis=2)
    mass = np.where(inside, np.exp(whole.weights[rows] - whole.weights[rows].max()), 0.0)
    lacking = left.rows_of(whole.chosen(rows)) < 0
    expected = (mass[:, lacking].sum(axis=1) / mass.sum(axis=1)).mean()
    assert measure_missing_share(own, left) == pytest.approx(expected, abs=1e-9)
    assert expected > 0.5


class BlindToMany(LocalScores):
    """An approximation that underrates sets of more than four, as one with few units does."""

    def __init__(self, model):
        self.model = model

    def family_scores(self, nodes, parents):
        return self.model.family_scores(nodes, parents) - 60.0 * (parents.sum(axis=1) > 4)

    def flips(self, nodes, parents, wanted):
        scores, delta = self.model.flips(nodes, parents, wanted)
        return scores, np.where(parents.sum(axis=1, keepdims=True) >= 4, delta - 60.0, delta)


@pytest.mark.parametrize("size", [4, 2])
def test_what_a_stand_in_does_not_see_of_many_parents_the_mechanism_is_asked(size):
    case, node = grown(), 7
    sketch = Weigher(BlindToMany(case.grower.mechanism.scores), case.problem.prior)
    grower = dataclasses.replace(case.grower, sketch=sketch)
    parents = np.arange(8)[None] < size
    weight = grower.mechanism.weigh(np.array([node]), parents)
    sets = ParentSets.of(np.array([node]), parents, exact=weight, sketch=weight)
    room = np.arange(8)[None] < 6
    shares = Shares(np.zeros(1), np.ones(1), room)
    joined, checked, share = check_neighbours(sets, shares, grower.mechanism, sketch)
    if size < 3:  # additions alone, and of these what the stand-in does not find improbable
        change = sketch.weigh_changes(np.array([node]), parents, room & ~parents)
        assert checked == (change > -NOT_IMPROBABLE).sum() > 0
    else:
        assert (
            checked == 6
        )  # with the variables 4 and 5, which may precede the node, and without each
    expected = grower.mechanism.weigh(joined.nodes, joined.parents())
    assert joined.exact == pytest.approx(expected, abs=1e-9)
    gain = np.exp(np.minimum(np.delete(expected, joined.rows_of(sets)) - weight, 0.0))
    assert share == pytest.approx(gain.sum())


@pytest.mark.slow
def test_a_dense_network_is_sampled_as_it_is_summed():
    """A set that the sketch underrates by eleven nats is one removal from a set of large share."""
    data = svidag.datasets.synthetic(m=10, edges=30, n=1000, kind="nonlinear", seed=1408331187).data
    summed, sampled = (
        svidag.fit(
            data,
            mechanism="nonlinear",
            method=svidag.methods.OrderMCMC(exact=exact),
            seed=1325631835,
            progress=False,
        )
        for exact in (True, False)
    )
    error = (sampled.edge_probabilities() - summed.edge_probabilities()).abs().to_numpy()
    assert error.max() < 0.05


def reversed_graphs(graph, found):
    """The graph with each of its reversals, and the change of the log posterior."""
    weigher = grown().grower.mechanism
    for at in range(0, len(found.nodes), 2):
        nodes = found.nodes[at : at + 2]
        other = graph.copy()
        other[:, nodes] = found.parents[at : at + 2].T
        new, old = (weigher.weigh(nodes, G.T[nodes].astype(bool)).sum() for G in (other, graph))
        yield nodes, other, new - old


def test_arrows_are_reversed_in_graphs_without_cycles_and_the_best_reversal_is_told():
    case = grown()
    graph = best_graph(case.made.sets, case.halves[0].drawn[-1])
    found = reverse_arrows(graph, case.grower.mechanism)
    gains = []
    for (i, j), other, gain in reversed_graphs(graph, found):
        assert graph[i, j]
        assert other[j, i]
        assert is_dag(other)
        gains.append(gain)
    assert found.gain == pytest.approx(max(gains))
    assert gains


def test_a_half_that_ended_with_a_reversed_arrow_goes_on_from_a_better_order():
    case = grown()
    sketch = Weigher(BlindToMany(case.grower.mechanism.scores), case.problem.prior)
    grower = dataclasses.replace(case.grower, sketch=sketch)
    graph = best_graph(case.made.sets, case.halves[0].drawn[-1])
    found = reverse_arrows(graph, grower.mechanism)
    worse = min(reversed_graphs(graph, found), key=lambda each: each[2])
    assert worse[2] < -10
    nodes = np.arange(len(graph))
    sets = ParentSets.of(nodes, worse[1].T.astype(bool))
    sets = score_both(sets, grower.mechanism, sketch)
    order = topological_order(worse[1])
    last = Round(0, 1.0, 0, 0, 0.0)
    half = Half(0, sets, order[None, None], order[None, None, :][:, :0], (last,))
    assert grower.converged(half.rounds)
    after = grower._check_reversals(half)
    assert not grower.converged(after.rounds)
    assert len(after.sets) > len(sets)
    gained = log_evidence(after.sets, grower.prior, after.drawn[-1:])
    assert gained > log_evidence(sets, grower.prior, order[None]) + 10
