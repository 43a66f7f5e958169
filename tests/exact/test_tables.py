"""Tables of parent-set weights against brute force."""

from itertools import combinations

import numpy as np
import pytest

from svidag.inference import tabulated
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.prior import Prior
from svidag.scores import (
    NodeTable,
    ScoreTables,
    extensions,
    fill,
    forward_selection,
    grow,
    neighbours,
    pressing,
    screen,
    sketched_share,
    subset_maxima,
    subset_sums,
    weighty,
)

NAMES = ("a", "b", "c", "d")


def sample(n=60, m=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    x[:, 2] += 0.8 * x[:, 0] - 0.6 * x[:, 1]
    x[:, 3] += 0.7 * x[:, 2]
    return x


def subsets(items):
    return [s for size in range(len(items) + 1) for s in combinations(items, size)]


def everyone(m):
    return [np.delete(np.arange(m), j) for j in range(m)]


def tabulate(model, prior, candidates, *, slack):
    blank = [NodeTable.empty(chosen) for chosen in candidates]
    return ScoreTables.assemble(grow(model, prior, blank, slack=slack), prior)


def weight(model, prior, node, parents):
    chosen = np.zeros((1, len(prior.names)), dtype=bool)
    chosen[0, list(parents)] = True
    return model.family_scores(np.array([node]), chosen)[0] + sum(
        prior.logit[i, node] for i in parents if not prior.required[i, node]
    )


@pytest.mark.parametrize("k", [0, 1, 4])
def test_sums_and_maxima_over_subsets_equal_enumeration(k):
    table = np.random.default_rng(k).normal(scale=30, size=1 << k)
    table[1 << k - 1 if k else 0] = -np.inf if k else 1.0
    for mask in range(1 << k):
        inside = [table[s] for s in range(1 << k) if s & ~mask == 0]
        assert subset_sums(table)[mask] == pytest.approx(np.logaddexp.reduce(inside), abs=1e-12)
        assert subset_maxima(table)[mask] == max(inside)


@pytest.mark.parametrize(
    "prior",
    [
        Prior(),
        Prior(beliefs={("a", "c"): 0.9, ("d", "b"): 0.2}),
        Prior(required=[("c", "d")], forbidden=[("a", "b")]),
    ],
    ids=["plain", "beliefs", "hard"],
)
def test_evidence_of_an_order_sums_over_all_its_parent_sets(prior):
    model, beliefs = LinearGaussian.from_values(sample()), prior.bind(NAMES)
    candidates = [np.flatnonzero(beliefs.allowed[:, j]) for j in range(4)]
    tables = tabulate(model, beliefs, candidates, slack=np.inf)
    order = np.array([1, 0, 2, 3])
    expected = 0.0
    for t, j in enumerate(order.tolist()):
        before = [i for i in order[:t] if beliefs.allowed[i, j]]
        needed = set(np.flatnonzero(beliefs.required[:, j]))
        terms = [weight(model, beliefs, j, s) for s in subsets(before) if needed <= set(s)]
        expected += np.logaddexp.reduce(terms)
        expected += sum(
            np.log1p(-beliefs.marginal[i, j]) for i in before if not beliefs.required[i, j]
        )
    assert tables.log_evidence(order) == pytest.approx(expected, abs=1e-9)


def test_an_order_against_a_required_edge_has_no_evidence():
    model = LinearGaussian.from_values(sample())
    tables = tabulate(model, Prior(required=[("c", "d")]).bind(NAMES), everyone(4), slack=np.inf)
    assert tables.log_evidence(np.array([3, 2, 1, 0])) == -np.inf
    assert np.isfinite(tables.log_evidence(np.array([2, 3, 1, 0])))


def test_with_slack_the_table_leaves_out_only_sets_with_a_far_better_subset():
    m, slack = 6, 4.0
    model = LinearGaussian.from_values(sample(200, m, seed=3))
    beliefs = Prior().bind([f"x{j}" for j in range(m)])
    full = tabulate(model, beliefs, everyone(m), slack=np.inf)
    lean = tabulate(model, beliefs, everyone(m), slack=slack)
    assert lean.scored < full.scored
    left_out = ~np.isfinite(lean.weights)
    best = np.concatenate([subset_maxima(node.weights) for node in full.nodes])
    assert (full.weights[left_out] < best[left_out] - slack).all()
    assert lean.sums == pytest.approx(full.sums, abs=0.02)


def test_extensions_of_the_living():
    table = np.full(8, -np.inf)
    table[0], table[1], table[2] = 0.0, -10.0, 1.0
    assert sorted(extensions(table, slack=5.0).tolist()) == [3, 4, 6]
    assert sorted(extensions(table, slack=20.0).tolist()) == [3, 4, 5, 6]


def test_growing_a_table_gives_the_same_as_building_it():
    model, beliefs = LinearGaussian.from_values(sample()), Prior().bind(NAMES)
    wide = everyone(4)
    start = tabulate(model, beliefs, [chosen[:1] for chosen in wide], slack=np.inf)
    widened = [node.widen(chosen[1:]) for node, chosen in zip(start.nodes, wide, strict=True)]
    grown = ScoreTables.assemble(grow(model, beliefs, widened, slack=np.inf), beliefs)
    built = tabulate(model, beliefs, wide, slack=np.inf)
    assert grown.weights == pytest.approx(built.weights, abs=1e-12)


@pytest.mark.parametrize("kind", ["linear", "wide"])
def test_every_stored_weight_is_the_score_of_its_set_and_the_odds_of_its_parents(kind):
    x = sample()
    beliefs = Prior(beliefs={("a", "c"): 0.9}, required=[("c", "d")]).bind(NAMES)
    model, sketch = LinearGaussian.from_values(x), None
    if kind == "wide":
        model, sketch = (WideNetwork.from_values(x, NAMES, units=units) for units in (12, 4))
    settings = tabulated.TableSettings(fewest=1, most=3, slack=2.0, powers=(0.3, 1.0))
    made = tabulated.tabulate(model, beliefs, settings, sketch=sketch, seed=0)
    assert sum(done.added + done.refined for done in made.rounds) > 0
    for j, node in enumerate(made.tables.nodes):
        for source, stored in ((model, node.exact), (sketch, node.sketch)):
            for mask in np.flatnonzero(np.isfinite(stored)).tolist():
                parents = [int(i) for b, i in enumerate(node.candidates) if mask >> b & 1]
                expected = weight(source, beliefs, j, parents)
                assert stored[mask] == pytest.approx(expected, abs=1e-6)


class Shifted:
    """A stand-in that is wrong by a nat per parent."""

    def __init__(self, model):
        self.model = model

    def family_scores(self, nodes, parents):
        return self.model.family_scores(nodes, parents) - parents.sum(axis=1)


def test_a_sketch_with_steady_drift_is_made_good_by_a_few_exact_sets():
    model, beliefs = LinearGaussian.from_values(sample()), Prior().bind(NAMES)
    exact = tabulate(model, beliefs, everyone(4), slack=np.inf)
    blank = [NodeTable.empty(chosen) for chosen in everyone(4)]
    rough = grow(Shifted(model), beliefs, blank, slack=np.inf, sketch=True)
    before = ScoreTables.assemble(rough, beliefs)
    assert np.abs(before.weights - exact.weights).max() == pytest.approx(3.0)
    few = fill(model, beliefs, rough, [np.array([1, 3])] * 4)
    after = ScoreTables.assemble(few, beliefs)
    assert after.weights == pytest.approx(exact.weights, abs=1e-9)


def test_what_carries_weight_is_what_the_sum_given_an_order_says():
    model, beliefs = LinearGaussian.from_values(sample()), Prior().bind(NAMES)
    blank = [NodeTable.empty(chosen) for chosen in everyone(4)]
    tables = ScoreTables.assemble(grow(model, beliefs, blank, slack=np.inf, sketch=True), beliefs)
    orders = np.array([[0, 1, 2, 3], [1, 0, 3, 2]])
    margin = 3.0
    found = weighty(tables, orders, margin=margin)
    for j, node in enumerate(tables.nodes):
        expected = set()
        for order in orders.tolist():
            before = sum(int(tables.bits[i, j]) for i in order[: order.index(j)])
            inside = [s for s in range(8) if s & ~before == 0]
            total = np.logaddexp.reduce([node.weights[s] for s in inside])
            expected |= {s for s in inside if node.weights[s] > total - margin}
        assert set(found[j].tolist()) == expected
    assert sketched_share(tables, orders) == 1.0
    refined = ScoreTables.assemble(fill(model, beliefs, tables.nodes, found), beliefs)
    assert 0 < sketched_share(refined, orders) < 8 * np.exp(-margin)
    assert not any(map(len, weighty(refined, orders, margin=margin)))


def test_neighbours_are_one_candidate_away_and_fit_the_order():
    beliefs = Prior().bind(NAMES)
    tables = ScoreTables.assemble([NodeTable.empty(chosen) for chosen in everyone(4)], beliefs)
    graphs = np.zeros((1, 4, 4), dtype=np.uint8)
    graphs[0, 0, 2] = 1
    found = neighbours(tables, graphs, np.array([[0, 1, 2, 3]]))
    # Candidates of 2 are 0, 1, 3; the last comes after 2.
    assert found[2].tolist() == [0b000, 0b001, 0b011]
    assert found[0].tolist() == [0]


def test_neighbours_keep_required_parents():
    prior = Prior(required=[("a", "d")]).bind(NAMES)
    model = LinearGaussian.from_values(sample())
    blank = [NodeTable.empty(chosen) for chosen in everyone(4)]
    sketched = grow(model, prior, blank, slack=np.inf, sketch=True)
    tables = ScoreTables.assemble(sketched, prior)
    graphs = np.zeros((1, 4, 4), dtype=np.uint8)
    graphs[0, [0, 1], 3] = 1
    wanted = neighbours(tables, graphs, np.array([[0, 1, 2, 3]]))
    assert sorted(wanted[3]) == [0b001, 0b011, 0b111]
    again = ScoreTables.assemble(fill(model, prior, sketched, wanted), prior)
    assert again.log_evidence(np.array([3, 0, 1, 2])) == -np.inf


def test_pressing_finds_the_parent_that_was_screened_out():
    model, beliefs = LinearGaussian.from_values(sample(300)), Prior().bind(NAMES)
    candidates = everyone(4)
    candidates[3] = np.array([0, 1])
    tables = tabulate(model, beliefs, candidates, slack=np.inf)
    graphs = np.zeros((2, 4, 4), dtype=np.uint8)
    graphs[:, 0, 3] = 1
    orders = np.array([[0, 1, 2, 3], [0, 1, 2, 3]])
    gains = pressing(model, beliefs, tables, graphs, orders, gain=0.0)
    expected = weight(model, beliefs, 3, (0, 2)) - weight(model, beliefs, 3, (0,))
    assert gains[2, 3] == pytest.approx(expected, abs=1e-9)
    assert np.isfinite(gains).sum() == 1
    later = pressing(model, beliefs, tables, graphs, orders[:, [0, 1, 3, 2]], gain=0.0)
    assert not np.isfinite(later).any()


def test_forward_selection_takes_the_best_parent_at_every_step():
    model, beliefs = LinearGaussian.from_values(sample(300)), Prior().bind(NAMES)
    selected, single = forward_selection(model, beliefs, most=3)
    empty = weight(model, beliefs, 2, ())
    assert single[0, 2] == pytest.approx(weight(model, beliefs, 2, (0,)) - empty, abs=1e-9)
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


def test_screening_is_symmetric_and_keeps_hard_knowledge():
    model = LinearGaussian.from_values(sample(300))
    plain = screen(model, Prior().bind(NAMES), fewest=1, most=3)
    assert 3 in plain[2]
    assert 2 in plain[3]
    hard = Prior(required=[("d", "a")], forbidden=[("c", "d")]).bind(NAMES)
    chosen = screen(model, hard, fewest=1, most=1)
    assert chosen[0].tolist() == [3]
    assert 2 not in chosen[3]


def test_a_candidate_against_the_prior_is_an_error():
    model = LinearGaussian.from_values(sample())
    with pytest.raises(ValueError, match="candidate 1 of node 0 is not allowed"):
        tabulate(model, Prior(forbidden=[("b", "a")]).bind(NAMES), everyone(4), slack=1.0)
    with pytest.raises(ValueError, match="required parent 3 of node 0"):
        tabulate(
            model,
            Prior(required=[("d", "a")]).bind(NAMES),
            [np.array([1]), *everyone(4)[1:]],
            slack=1.0,
        )
