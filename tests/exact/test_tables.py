"""Tables of parent-set weights against brute force, tabulated and scanned alike."""

from itertools import permutations

import numpy as np
import pytest
from complete_tables import complete_tables, log_evidence, log_sum, subsets, weight
from moved_nodes import Compared

from svidag.mechanisms.linear import LinearGaussian
from svidag.prior import Prior
from svidag.samplers import relocation as relocate
from svidag.samplers.order_chains import draw_graphs
from svidag.scores import NodeTable, ScoreTables, forward_selection, subset_sums
from svidag.scores.lookup import NEGLIGIBLE, compiled_tables
from svidag.scores.tables import MAX_TABULATED, MOST_CANDIDATES

NAMES = ("a", "b", "c", "d")
PRIORS = {
    "plain": Prior(),
    "beliefs": Prior(beliefs={("a", "c"): 0.9, ("d", "b"): 0.2}),
    "hard": Prior(required=[("c", "d")], forbidden=[("a", "b")]),
}


def cut(tables):
    """The error of a compiled sum: the negligible part for each candidate that is not tabulated."""
    others = max(len(node.candidates) for node in tables.nodes) - MAX_TABULATED
    return max(0, others) * np.exp(-NEGLIGIBLE) + 1e-9


def sample(n=60, m=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    x[:, 2] += 0.8 * x[:, 0] - 0.6 * x[:, 1]
    x[:, 3] += 0.7 * x[:, 2]
    return x


class Wide:
    """Four variables among many that nothing depends on: sums over their sets are scanned.

    The bits of the four lie far apart, one of them beyond 32.
    """

    def __init__(self, prior, *, padding=40):
        self.prior, self.m = prior.bind(NAMES), 4 + padding
        self.model = LinearGaussian.from_values(sample())
        complete = complete_tables(self.model, self.prior)
        nodes = []
        for node in complete.nodes:
            k = len(node.candidates)
            candidates = np.concatenate(
                [node.candidates[:1], np.arange(4, self.m), node.candidates[1:]]
            )
            place = np.concatenate([[0], padding + np.arange(1, k)])
            masks = (node.masks[:, None] >> np.arange(k) & 1) @ (1 << place)
            nodes.append(NodeTable(candidates, masks, node.weights))
        lonely = [NodeTable(np.arange(4), np.zeros(1, dtype=int), np.zeros(1))] * padding
        absent = np.zeros((self.m, self.m))
        absent[:4, :4] = complete.absent
        self.tables = ScoreTables.join([*nodes, *lonely], absent)
        self.complete = complete

    def orders(self):
        """All orders of the four, with the others in between."""
        others = np.arange(4, self.m)
        cut = np.array_split(others, 5)
        rows = []
        for order in permutations(range(4)):
            parts = [cut[0]]
            for one, more in zip(order, cut[1:], strict=True):
                parts += [[one], more]
            rows.append(np.concatenate(parts))
        return np.array(rows)


@pytest.mark.parametrize("k", [0, 1, 4])
def test_sums_over_subsets_equal_enumeration(k):
    table = np.random.default_rng(k).normal(scale=30, size=1 << k)
    table[1 << k - 1 if k else 0] = -np.inf if k else 1.0
    for mask in range(1 << k):
        inside = [table[s] for s in range(1 << k) if s & ~mask == 0]
        assert subset_sums(table)[mask] == pytest.approx(np.logaddexp.reduce(inside), abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_evidence_of_an_order_sums_over_all_its_parent_sets(prior):
    model, beliefs = LinearGaussian.from_values(sample()), prior.bind(NAMES)
    orders = np.array([[1, 0, 2, 3], [3, 2, 1, 0], [2, 3, 1, 0]])
    expected = [log_evidence(model, beliefs, order) for order in orders.tolist()]
    assert complete_tables(model, beliefs).log_evidence(orders) == pytest.approx(expected, abs=1e-9)
    wide = Wide(prior)
    every = wide.orders()
    own = np.array([[i for i in order if i < 4] for order in every.tolist()])
    expected = wide.complete.log_evidence(own)
    assert wide.tables.log_evidence(every) == pytest.approx(expected, abs=1e-9)


def test_an_order_against_a_required_edge_has_no_evidence():
    wide = Wide(Prior(required=[("c", "d")]))
    orders = np.array([[3, 2, 1, 0], [2, 3, 1, 0]])
    assert np.isfinite(wide.complete.log_evidence(orders)).tolist() == [False, True]
    rank = np.argsort(wide.orders(), axis=1)
    assert (np.isfinite(wide.tables.log_evidence(wide.orders())) == (rank[:, 2] < rank[:, 3])).all()


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_sums_given_predecessors_equal_brute_force(prior):
    wide = Wide(prior)
    for j in range(4):
        for before in subsets(np.delete(np.arange(4), j).tolist()):
            expected = pytest.approx(log_sum(wide.model, wide.prior, j, before), abs=1e-9)
            for tables in (wide.complete, wide.tables):
                mask = tables.bits[list(before), j].sum()
                assert tables.log_sums(j, np.array([mask, mask]))[1] == expected


def located(order, tables):
    """log p(D | order) up to a constant, the look-ups, and place, masks and present."""
    state = np.empty(tables.m, np.int64), np.empty(tables.m, np.int64), np.empty(tables.m)
    compiled = compiled_tables(tables)
    return relocate.locate(order, compiled, *state), compiled, state


def compared(i, order, state, compiled):
    """All places of a node, compared with sets that are scanned."""
    return Compared(i, order, state, compiled, np.empty((2, len(order))))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_compiled_sums_and_places_of_scanned_tables_are_those_of_whole_orders(prior):
    wide = Wide(prior)
    orders = wide.orders()
    evidence = wide.tables.log_evidence(orders)
    possible = np.flatnonzero(np.isfinite(evidence))
    assert not any(node.first.all() for node in wide.tables.nodes[:4])  # something is scanned
    energies = np.array([located(order, wide.tables)[0] for order in orders[possible]])
    constant = 0.5 * wide.tables.absent.sum()
    assert energies + constant == pytest.approx(evidence[possible], abs=4 * cut(wide.tables))
    for at in possible[[0, -1]]:
        order = orders[at].copy()
        _, compiled, state = located(order, wide.tables)
        for i in range(4):
            scores = compared(i, order, state, compiled).by_place()
            moved = np.stack([np.insert(order[order != i], t, i) for t in range(wide.m)])
            expected = wide.tables.log_evidence(moved) - evidence[at]
            assert scores == pytest.approx(expected, abs=4 * cut(wide.tables))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_sums_of_scanned_tables_stay_right_while_nodes_are_moved(prior):
    """Each move changes sums by the sets with the node that moved; nothing adds up."""
    wide = Wide(prior)
    rng = np.random.default_rng(0)
    orders = wide.orders()
    order = orders[np.flatnonzero(np.isfinite(wide.tables.log_evidence(orders)))[0]].copy()
    _, compiled, state = located(order, wide.tables)
    for _ in range(200):
        i = int(rng.integers(wide.m))
        places = compared(i, order, state, compiled)
        places.slide(int(rng.choice(np.flatnonzero(places.by_place() > -np.inf))))
        _, _, (place, masks, present) = located(order, wide.tables)
        assert state[0].tolist() == place.tolist()
        assert state[1].tolist() == masks.tolist()
        assert state[2] == pytest.approx(present, abs=2 * cut(wide.tables))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_edges_given_an_order_equal_brute_force(prior):
    wide = Wide(prior)
    narrow, spread = np.array([1, 0, 2, 3]), wide.orders()[6]
    assert [i for i in spread.tolist() if i < 4] == narrow.tolist()
    for tables, order in ((wide.complete, narrow), (wide.tables, spread)):
        _, compiled, state = located(order, tables)
        edges = np.zeros((tables.m, tables.m))
        relocate.add_edges(order, *state, compiled, edges, np.empty(tables.m))
        for t, j in enumerate(narrow.tolist()):
            before = narrow[:t].tolist()
            total = log_sum(wide.model, wide.prior, j, before)
            for i in range(4):
                without = log_sum(wide.model, wide.prior, j, [k for k in before if k != i])
                expected = pytest.approx(-np.expm1(without - total), abs=cut(tables))
                assert 0 <= edges[i, j] == expected
        assert edges[4:].sum() == edges[:, 4:].sum() == 0


def test_draws_from_scanned_tables_follow_their_conditional():
    """4000 draws: a frequency is off by more than 0.04 with probability below 5e-7."""
    wide = Wide(PRIORS["beliefs"])
    order = wide.orders()[6]  # b a c d
    graphs = draw_graphs(wide.tables, np.tile(order, (4000, 1)), seed=0)
    assert graphs[:, 4:].sum() == graphs[:, :, 4:].sum() == 0
    own = graphs[:, :4, :4]
    for t, j in enumerate([1, 0, 2, 3]):
        before = [1, 0, 2, 3][:t]
        total = log_sum(wide.model, wide.prior, j, before)
        for s in subsets(before):
            chosen = np.isin(np.arange(4), s)
            share = (own[:, :, j] == chosen).all(axis=1).mean()
            expected = np.exp(weight(wide.model, wide.prior, j, s) - total)
            assert share == pytest.approx(expected, abs=0.04)


def test_tables_come_back_from_their_parts():
    wide = Wide(PRIORS["hard"])
    again = ScoreTables.from_parts(wide.tables.parts())
    for name in ("masks", "weights", "starts", "sums", "offsets", "bits", "absent"):
        assert (getattr(again, name) == getattr(wide.tables, name)).all()
    assert again.bytes == wide.tables.bytes


def test_more_candidates_than_masks_hold_are_refused():
    def table(k):
        return NodeTable(np.arange(k), np.zeros(1, dtype=int), np.zeros(1))

    assert table(MOST_CANDIDATES).candidates[-1] == 61
    with pytest.raises(ValueError, match="at most 62 candidate parents; got 63"):
        table(MOST_CANDIDATES + 1)


@pytest.mark.parametrize("seed", range(3))
def test_sums_over_many_sets_lack_no_more_than_is_negligible(seed):
    """Twenty candidates and 3000 sets of very different weights."""
    rng = np.random.default_rng(seed)
    masks = np.unique(np.concatenate([[0], rng.integers(1 << 20, size=3000)]))
    node = NodeTable(np.arange(1, 21), masks, rng.normal(scale=4.0, size=len(masks)))
    lonely = [NodeTable(np.arange(0), np.zeros(1, dtype=int), np.zeros(1))] * 20
    tables = ScoreTables.join([node, *lonely], np.zeros((21, 21)))
    for _ in range(20):
        order = rng.permutation(21)
        edges = np.zeros((21, 21))
        _, compiled, (place, before, present) = located(order, tables)
        inside = masks[masks & ~before[0] == 0]
        weights = dict(zip(node.masks.tolist(), node.weights, strict=True))
        total = np.logaddexp.reduce([weights[mask] for mask in inside.tolist()])
        assert total - cut(tables) <= present[0] <= total + 1e-9
        relocate.add_edges(order, place, before, present, compiled, edges, np.empty(21))
        assert (edges >= 0).all()
        for i in range(1, 21):
            held = [weights[mask] for mask in inside.tolist() if mask >> (i - 1) & 1]
            expected = np.exp(np.logaddexp.reduce(held) - total) if held else 0.0
            assert edges[i, 0] == pytest.approx(expected, abs=cut(tables))


def test_a_table_lists_its_sets_by_falling_weight():
    table = NodeTable(np.array([3, 5]), np.array([0, 1, 3]), np.array([-2.0, 1.0, 0.0]))
    masks, weights = table.by_weight()
    assert masks.tolist() == [1, 3, 0]
    assert weights.tolist() == [1.0, 0.0, -2.0]
    assert [np.flatnonzero(row).tolist() for row in table.members(6)] == [[], [3], [3, 5]]


def test_forward_selection_takes_the_best_parent_at_every_step():
    model, beliefs = LinearGaussian.from_values(sample(300)), Prior().bind(NAMES)
    selected = forward_selection(model, beliefs, most=3)
    chosen = set()
    while True:
        gains = {
            i: weight(model, beliefs, 2, {*chosen, i}) - weight(model, beliefs, 2, chosen)
            for i in {0, 1, 3} - chosen
        }
        if not gains or max(gains.values()) <= 0:
            break
        chosen.add(max(gains, key=gains.__getitem__))
    assert set(np.flatnonzero(selected[:, 2])) == chosen


def test_forward_selection_begins_with_required_parents_and_leaves_forbidden_ones_out():
    hard = Prior(required=[("d", "a")], forbidden=[("a", "c"), ("d", "c")]).bind(NAMES)
    selected = forward_selection(LinearGaussian.from_values(sample(300)), hard, most=3)
    assert selected[3, 0]
    assert not selected[[0, 3], 2].any()
    assert forward_selection(LinearGaussian.from_values(sample(300)), hard, most=1)[:, 0].sum() == 1
