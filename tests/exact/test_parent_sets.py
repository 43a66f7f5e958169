"""Collections of parent sets against plain dictionaries, and the tables that are made of them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from complete_tables import complete_node, log_sum, weight

from svidag.mechanisms.linear import LinearGaussian
from svidag.prior import Prior
from svidag.scores import (
    ParentSets,
    Shares,
    Weigher,
    compute_shares,
    score_neighbours,
    sum_parent_sets,
)
from svidag.scores.parent_sets import build_node_table, build_tables

NAMES = tuple("abcde")


def only_listed(capacity):
    """A table has the sets that were found, whatever small share that leaves out."""
    return {"omitted_share": (0.0, 0.0), "capacity": capacity, "weigh_all": lambda candidates: None}


HARD = Prior(p=0.3, required=[("e", "a")], forbidden=[("a", "d"), ("b", "d")])


def model():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 5))
    x[:, 2] += 0.8 * x[:, 0] - 0.6 * x[:, 1]
    x[:, 3] += 0.7 * x[:, 2]
    return LinearGaussian.from_values(x)


def complete(prior):
    """Every parent set of every node, weighed."""
    nodes, rows, weights = [], [], []
    for j in range(len(prior.names)):
        table = complete_node(model(), prior, j)
        nodes.append(np.full(len(table.masks), j))
        rows.append(table.members(len(prior.names)))
        weights.append(table.weights)
    return ParentSets.of(np.concatenate(nodes), np.concatenate(rows), exact=np.concatenate(weights))


def some(seed, count, m=11):
    """Random sets of random nodes, some of them twice, and what is known of them."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(m, size=count)
    parents = rng.random((count, m)) < 0.15
    parents[count // 2 :] = parents[: count - count // 2]
    nodes[count // 2 :] = nodes[: count - count // 2]
    code = parents @ (1.0 + np.arange(m)) + 100 * nodes
    exact = np.where(rng.random(count) < 0.5, code, np.nan)
    return nodes, parents, exact


def as_dictionary(nodes, parents, exact):
    known = {}
    for j, row, value in zip(nodes.tolist(), parents, exact.tolist(), strict=True):
        key = j, tuple(np.flatnonzero(row).tolist())
        if key not in known or not np.isnan(value):
            known[key] = value
    return known


def contents(sets):
    return as_dictionary(sets.nodes, sets.parents(), sets.exact)


def same(one, two):
    return one.keys() == two.keys() and all(
        np.array_equal(value, two[key], equal_nan=True) for key, value in one.items()
    )


def test_each_pair_counts_once_and_keeps_what_is_known():
    sets = ParentSets.of(*some(0, 60)[:2], exact=some(0, 60)[2])
    expected = as_dictionary(*some(0, 60))
    assert len(sets) == len(expected) < 60
    assert same(contents(sets), expected)
    assert (np.diff(sets.nodes) >= 0).all()
    for j in range(11):
        assert (sets.nodes[sets.of_node(j)] == j).all()
    assert sum(len(sets.nodes[sets.of_node(j)]) for j in range(11)) == len(sets)


def test_a_join_has_the_sets_of_both_and_what_either_knows():
    one, two = (ParentSets.of(*some(s, 60)[:2], exact=some(s, 60)[2]) for s in (0, 1))
    rng = np.random.default_rng(2)
    part = one.chosen(np.flatnonzero(rng.random(len(one)) < 0.5))
    unknown = ParentSets.of(part.nodes, part.parents())
    both = unknown.joined(two).joined(one)
    joined = {**contents(two), **{k: v for k, v in contents(one).items() if not np.isnan(v)}}
    for key in contents(one):
        joined.setdefault(key, np.nan)
    assert same(contents(both), joined)


def test_rows_are_found_again_and_missing_ones_are_told():
    one, two = (ParentSets.of(*some(s, 60)[:2], exact=some(s, 60)[2]) for s in (0, 1))
    where = one.joined(two).rows_of(one)
    assert (where >= 0).all()
    assert (one.joined(two).parents(where) == one.parents()).all()
    assert (one.joined(two).nodes[where] == one.nodes).all()
    lacking = one.rows_of(two) < 0
    own = contents(one).keys()
    keys = [
        (j, tuple(np.flatnonzero(row)))
        for j, row in zip(two.nodes.tolist(), two.parents(), strict=True)
    ]
    assert lacking.tolist() == [key not in own for key in keys]


def test_a_sketch_with_steady_drift_is_made_good_by_a_few_exact_sets():
    sets = complete(Prior(p=0.3).bind(NAMES))
    size = sets.parents().sum(axis=1)
    rough = ParentSets.of(sets.nodes, sets.parents(), sketch=sets.exact - 1.5 * size)
    assert np.abs(rough.weights - sets.exact).max() == pytest.approx(6.0)
    few = sets.chosen(np.flatnonzero(size == 2))
    assert rough.joined(few).weights == pytest.approx(sets.exact, abs=1e-9)


ORDERS = np.array(list(permutations(range(5))))[[0, 17, 40, 77, 119, 119]]


@pytest.mark.parametrize("prior", [Prior(p=0.3), HARD], ids=["plain", "hard"])
def test_shares_are_those_of_each_order(prior):
    bound = prior.bind(NAMES)
    orders = np.array([o for o in ORDERS.tolist() if prior is not HARD or o.index(4) < o.index(0)])
    assert len(orders) >= 2
    sets = complete(bound)
    held = compute_shares(sets, orders, least=2.0)
    sums = sum_parent_sets(sets, orders)
    for at, (j, row) in enumerate(zip(sets.nodes.tolist(), sets.parents(), strict=True)):
        own, room = [], set()
        for s, order in enumerate(orders.tolist()):
            before = order[: order.index(j)]
            total = log_sum(model(), bound, j, before)
            assert sums[s, j] == pytest.approx(total, abs=1e-9)
            fits = set(np.flatnonzero(row).tolist()) <= set(before)
            own.append(np.exp(sets.exact[at] - total) if fits else 0.0)
            if own[-1] > np.exp(-2.0):
                room |= set(before)
        assert np.exp(held.log_peak[at]) == pytest.approx(max(own), abs=1e-9)
        assert held.mean[at] == pytest.approx(np.mean(own), abs=1e-9)
        assert set(np.flatnonzero(held.room[at]).tolist()) == room


@pytest.mark.parametrize("prior", [Prior(p=0.3), HARD], ids=["plain", "hard"])
@pytest.mark.parametrize("sketch", [False, True])
def test_neighbours_are_all_sets_one_variable_away_within_reach(prior, sketch):
    bound, reach = prior.bind(NAMES), 4.0
    order = [1, 4, 0, 2, 3]
    rng = np.random.default_rng(0)
    sets = complete(bound)
    least = (sets.parents() == bound.required.T[sets.nodes]).all(axis=1)  # always there
    sets = sets.chosen(np.flatnonzero((rng.random(len(sets)) < 0.3) | least))
    if sketch:
        sets = ParentSets.of(sets.nodes, sets.parents(), sketch=sets.exact)
    held = compute_shares(sets, np.array([order]))
    rows = np.flatnonzero(held.log_peak > -3.0)
    assert len(rows) >= 5
    weigher = Weigher(model(), bound)
    found, share = score_neighbours(sets, rows, held, weigher, within=reach, sketch=sketch)
    known = {
        (j, tuple(np.flatnonzero(row).tolist()))
        for j, row in zip(sets.nodes.tolist(), sets.parents(), strict=True)
    }
    expected: dict = {}
    for at in rows.tolist():
        j, own = int(sets.nodes[at]), set(np.flatnonzero(sets.parents(np.array([at]))[0]).tolist())
        base = weight(model(), bound, j, own)
        for i in np.flatnonzero(bound.free[:, j]).tolist():
            near = own ^ {i}
            reached = held.log_peak[at] + weight(model(), bound, j, near) - base
            if reached > -reach and (j, tuple(sorted(near))) not in known:
                fits = i in own or order.index(i) < order.index(j)
                told = expected.setdefault((j, tuple(sorted(near))), -np.inf)
                expected[j, tuple(sorted(near))] = max(told, reached if fits else -np.inf)
    keys = [
        (j, tuple(np.flatnonzero(row).tolist()))
        for j, row in zip(found.nodes.tolist(), found.parents(), strict=True)
    ]
    assert len(keys) == len(expected) > 5
    assert dict(zip(keys, share, strict=True)) == pytest.approx(expected, abs=1e-9)
    weights = found.sketch if sketch else found.exact
    for key, value in zip(keys, weights, strict=True):
        assert value == pytest.approx(weight(model(), bound, *key), abs=1e-8)
    assert np.isnan(found.exact if sketch else found.sketch).all()


def listed(table, m):
    return {tuple(np.flatnonzero(row).tolist()) for row in table.members(m)}


def random_sets(m, count, most, seed):
    rng = np.random.default_rng(seed)
    parents = np.zeros((count, m), dtype=bool)
    for row in parents[1:]:
        row[rng.choice(np.arange(1, m), size=rng.integers(1, most + 1), replace=False)] = True
    return np.unique(parents, axis=0)


def peaked(parents, log_peak):
    return Shares(log_peak, np.exp(log_peak) / 2, np.zeros(parents.shape, dtype=bool))


def test_few_variables_are_all_candidates_and_nothing_is_left_out():
    parents = random_sets(12, 60, 3, seed=0)
    weights = np.random.default_rng(1).normal(size=len(parents))
    table, lost = build_node_table(
        parents, weights, peaked(parents, weights - 9), candidate_share=0.1, **only_listed(2)
    )
    assert lost == 0.0
    assert listed(table, 12) == {tuple(np.flatnonzero(row).tolist()) for row in parents}
    assert table.by_weight()[1].tolist() == sorted(weights, reverse=True)


def test_variables_whose_sets_hold_little_are_left_out_and_their_share_is_told():
    """The last variables occur in sets of a share of exp(−12) alone."""
    m = 20
    parents = random_sets(m, 80, 2, seed=0)
    rare = parents[:, 14:].any(axis=1)
    assert 5 < rare.sum() < len(parents) - 5
    held = peaked(parents, np.where(rare, -12.0, -2.0))
    weights = np.random.default_rng(1).normal(size=len(parents))
    table, lost = build_node_table(parents, weights, held, candidate_share=0.005, **only_listed(10))
    assert sorted(table.candidates) == list(range(1, 14))
    kept = {tuple(np.flatnonzero(row).tolist()) for row in parents[~rare]}
    assert listed(table, m) == kept
    assert lost == pytest.approx(held.mean[rare].sum())


def test_a_table_may_have_few_candidates_where_the_others_hold_nothing():
    """Sets with other than the first seven variables have a share of exp(−12) alone."""
    m = 20
    parents = random_sets(m, 80, 2, seed=0)
    rare = parents[:, 8:].any(axis=1)
    held = peaked(parents, np.where(rare, -12.0, -2.0))
    weights = np.random.default_rng(1).normal(size=len(parents))
    some = {"candidate_share": 0.005, **only_listed(10)}
    usual, _ = build_node_table(parents, weights, held, **some)
    few, lost = build_node_table(parents, weights, held, **some, spare_share=0.001)
    none, _ = build_node_table(parents, weights, held, **some, spare_share=0.0)
    assert len(usual.candidates) == len(none.candidates) == 12
    assert sorted(few.candidates) == list(range(1, 8))
    assert lost == pytest.approx(held.mean[rare].sum())


def test_where_many_variables_matter_the_sets_that_hold_most_are_listed():
    m, capacity = 30, 25
    parents = random_sets(m, 100, 2, seed=0)
    rng = np.random.default_rng(1)
    log_peak = rng.permutation(np.linspace(-4.0, -1.0, len(parents)))
    held = peaked(parents, log_peak)
    table, lost = build_node_table(
        parents, log_peak + 5, held, candidate_share=0.005, **only_listed(capacity)
    )
    # The empty set, which fits into every order, comes first whatever its share.
    best = np.lexsort((-log_peak, parents.any(axis=1)))[:capacity]
    assert not parents[best[0]].any()
    assert listed(table, m) == {tuple(np.flatnonzero(row).tolist()) for row in parents[best]}
    left = np.delete(held.mean, best)
    assert lost == pytest.approx(left.sum())


def test_required_parents_are_the_first_candidates():
    parents = random_sets(40, 200, 3, seed=0)
    parents[:, [7, 33]] = True
    parents = np.unique(parents, axis=0)
    held = peaked(parents, np.full(len(parents), -1.0))
    table, _ = build_node_table(
        parents, np.zeros(len(parents)), held, candidate_share=0.0, **only_listed(9)
    )
    assert set(table.candidates[:2].tolist()) == {7, 33}
    assert (table.masks & 3 == 3).all()


def test_tables_of_a_complete_collection_have_the_evidence_of_every_order():
    bound = HARD.bind(NAMES)
    sets = complete(bound)
    orders = np.array([[4, 0, 1, 2, 3], [2, 4, 3, 0, 1]])
    weigher = Weigher(model(), bound)
    sizes = {"candidate_share": 0.0, "omitted_share": (0.0, 0.0), "capacity": 9}
    made, left_out = build_tables(sets, compute_shares(sets, orders[:1]), weigher, **sizes)
    assert left_out.tolist() == [0.0] * 5
    inside = np.where(bound.free, np.log1p(-bound.marginal), 0.0)
    for order, total in zip(orders.tolist(), made.log_evidence(orders), strict=True):
        expected = sum(
            log_sum(model(), bound, j, order[:t]) + inside[order[:t], j].sum()
            for t, j in enumerate(order)
        )
        assert total == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("prior", [Prior(p=0.3), HARD], ids=["open", "hard"])
def test_all_sets_of_some_candidates_are_weighed_in_one_go(prior):
    bound = prior.bind(NAMES)
    weigher, needed = Weigher(model(), bound), bound.required[:, 0]
    candidates = np.array([4, 2, 1])
    weights = weigher.weigh_all_subsets(0, candidates)
    for mask, value in enumerate(weights):
        chosen = np.zeros(5, dtype=bool)
        chosen[candidates[mask >> np.arange(3) & 1 == 1]] = True
        if (needed & ~chosen).any():
            assert value == -np.inf
        else:
            parents = np.flatnonzero(chosen).tolist()
            assert value == pytest.approx(weight(model(), bound, 0, parents), abs=1e-9)
    assert (weigher.weigh_all_subsets(0, np.array([1, 2])) == -np.inf).all() == needed.any()


def test_sets_that_nobody_looked_at_are_listed_where_that_is_quick():
    """Only the two single parents were found; their pair weighs most."""
    parents = np.eye(3, dtype=bool)[[1, 2]]
    held = peaked(parents, np.zeros(2))
    sizes = {"candidate_share": 0.0, "omitted_share": (0.0, 0.0), "capacity": 9}
    table, lost = build_node_table(
        parents,
        np.ones(2),
        held,
        **sizes,
        weigh_all=lambda candidates: np.array([0.0, 1.0, 1.0, 5.0]),
    )
    assert listed(table, 3) == {(), (1,), (2,), (1, 2)}
    assert table.by_weight()[1].tolist() == [5.0, 1.0, 1.0, 0.0]
    assert lost == 0.0


def test_the_last_variables_are_left_out_where_they_hold_little_on_average():
    """Each of the last four has a set that may matter in some order and rarely does."""
    m = 20
    parents = np.concatenate([np.zeros((1, m), dtype=bool), np.eye(m, dtype=bool)[1:]])
    log_peak = np.full(m, -1.0)
    log_peak[-4:] = -2.0
    held = Shares(log_peak, np.where(np.arange(m) < m - 4, 0.05, 0.004), parents)
    sizes = {"candidate_share": 0.0, "capacity": 9, "weigh_all": lambda candidates: None}
    table, lost = build_node_table(
        parents, np.zeros(m), held, omitted_share=(0.017, 0.017), **sizes
    )
    assert sorted(table.candidates) == list(range(1, m - 4))
    assert lost == pytest.approx(4 * 0.004)
    table, lost = build_node_table(parents, np.zeros(m), held, omitted_share=(0.0, 0.02), **sizes)
    assert len(table.candidates) == 16
    more = replace(held, mean=held.mean * 3)
    for of, most in ((held, 0.01), (more, 0.1)):  # all together hold too much, or each of them
        table, _ = build_node_table(parents, np.zeros(m), of, omitted_share=(0.0, most), **sizes)
        assert len(table.candidates) == m - 1


def test_of_sets_that_must_be_summed_those_that_hold_least_are_left_out():
    """Twenty candidates: of the four pairs beyond the first sixteen, three may go."""
    m = 21
    parents = np.concatenate([np.zeros((1, m), dtype=bool), np.eye(m, dtype=bool)[1:]])
    more = parents[1:11] | parents[11:21]
    parents = np.concatenate([parents, more])
    mean = np.concatenate([np.full(m, 0.04), np.full(10, 0.003)])
    held = Shares(np.log(mean), mean, parents)
    shares = {"candidate_share": 0.0, "omitted_share": (0.01, 0.01)}
    sizes = {"capacity": 99, "weigh_all": lambda candidates: None}
    table, lost = build_node_table(parents, np.zeros(len(parents)), held, **shares, **sizes)
    assert len(table.candidates) == m - 1
    assert len(table.masks) == len(parents) - 3
    assert lost == pytest.approx(3 * 0.003)
