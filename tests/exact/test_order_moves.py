"""Chains over orders against enumeration of all orders and parent sets."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from complete_tables import complete_tables
from moved_nodes import Compared

from svidag.mechanisms.linear import LinearGaussian
from svidag.prior import Prior
from svidag.run.convergence import Agreement, effective_size, half_disagreement
from svidag.samplers import relocation as relocate
from svidag.samplers.ladder import best_levels, respace_powers
from svidag.samplers.order_chains import Schedule, draw_graphs, run_chains
from svidag.scores import NodeTable, ScoreTables
from svidag.scores.lookup import compiled_tables

NAMES = ("a", "b", "c", "d")
PRIORS = {
    "plain": Prior(p=0.4),
    "beliefs": Prior(p=0.3, beliefs={("a", "c"): 0.9, ("d", "b"): 0.8}),
    "hard": Prior(p=0.4, required=[("c", "b")], forbidden=[("a", "d")]),
}
NEVER = Agreement(tolerance=0.0)
LONG = Schedule(chains=2, levels=3, burn_in=50, orders=1500, thin=4, stopping_rule=NEVER)


def sample(n=25, m=4, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    x[:, 1] += 0.5 * x[:, 0]
    x[:, 2] += 0.5 * x[:, 1]
    return x


def small_tables(prior):
    beliefs = prior.bind(NAMES)
    return beliefs, complete_tables(LinearGaussian.from_values(sample()), beliefs)


def order_probabilities(tables):
    orders = np.array(list(permutations(range(tables.m))))
    log = tables.log_evidence(orders)
    p = np.exp(log - log.max())
    return orders, p / p.sum()


def conditional_edges(tables, order):
    """P(i → j | order) by summing over parent sets."""
    out = np.zeros((tables.m, tables.m))
    for t, j in enumerate(order.tolist()):
        before = tables.bits[order[:t], j].sum()
        masks, weights = tables.nodes[j].masks, tables.nodes[j].weights
        inside = (masks & ~before) == 0
        w = np.where(inside, np.exp(weights - weights[inside].max()), 0.0)
        for i in order[:t]:
            out[i, j] = w[masks & tables.bits[i, j] > 0].sum() / w.sum()
    return out


def exact_edges(tables):
    orders, p = order_probabilities(tables)
    possible = p > 0
    return sum(
        q * conditional_edges(tables, order)
        for order, q in zip(orders[possible], p[possible], strict=True)
    )


@pytest.mark.parametrize("moves", ["relocation", "swap"])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_chains_visit_orders_and_edges_with_their_exact_probabilities(prior, moves):
    beliefs, tables = small_tables(prior)
    orders, p = order_probabilities(tables)
    chains = run_chains(tables, beliefs, replace(LONG, moves=moves), seed=0)
    index = {tuple(order): k for k, order in enumerate(orders)}
    visits = np.bincount([index[tuple(o)] for o in chains.orders.reshape(-1, 4)], minlength=24)
    # Kept orders are close to independent: a binomial standard error, five of them allowed.
    assert visits / 3000 == pytest.approx(p, abs=5 * np.sqrt(p.max() / 3000))
    exact = exact_edges(tables)
    assert chains.edges.mean(axis=0) == pytest.approx(exact, abs=0.02)


def test_without_moves_orders_stay_where_they_began():
    beliefs, tables = small_tables(PRIORS["hard"])
    still = replace(LONG, chains=50, orders=3, moves="none")
    chains = run_chains(tables, beliefs, still, seed=0)
    assert (chains.orders == chains.orders[:, :1]).all()
    assert len(np.unique(chains.orders[:, 0], axis=0)) > 5
    assert (
        np.argsort(chains.orders, axis=2)[..., 2] < np.argsort(chains.orders, axis=2)[..., 1]
    ).all()
    for order, edges in zip(chains.orders[:, 0], chains.edges, strict=True):
        assert edges == pytest.approx(conditional_edges(tables, order), abs=1e-9)


def test_a_swap_is_open_to_two_neighbouring_places_and_a_relocation_to_all():
    order = np.array([2, 0, 1, 3])
    picked = {relocate.pick(relocate.SWAP, order, u) for u in np.linspace(0, 0.999, 50)}
    assert picked == {(2, 0, 2), (0, 1, 3), (1, 2, 4)}
    picked = {relocate.pick(relocate.RELOCATION, order, u) for u in np.linspace(0, 0.999, 50)}
    assert picked == {(i, 0, 4) for i in range(4)}


def located(order, tables):
    """place, masks and present of an order."""
    m = len(order)
    state = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    relocate.locate(order, compiled_tables(tables), *state)
    return state


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_the_places_of_a_node_are_compared_as_by_scoring_whole_orders(prior):
    _, tables = small_tables(prior)
    compiled, order = compiled_tables(tables), np.array([2, 0, 1, 3])
    state = located(order, tables)
    for i in range(4):
        scores = Compared(i, order, state, compiled, None).by_place()
        others = order[order != i]
        there = tables.log_evidence(np.stack([np.insert(others, t, i) for t in range(4)]))
        assert scores == pytest.approx(there - tables.log_evidence(order[None]), abs=1e-9)


def test_sliding_keeps_places_and_masks_in_step():
    _, tables = small_tables(PRIORS["plain"])
    compiled, order = compiled_tables(tables), np.array([2, 0, 1, 3])
    state = located(order, tables)
    for i, there in ((2, 3), (1, 0), (0, 0), (3, 1)):
        Compared(i, order, state, compiled, None).slide(there)
        assert order[there] == i
        for kept, fresh in zip(state, located(order, tables), strict=True):
            assert kept.tolist() == fresh.tolist()


def random_tables(m, candidates, rng):
    """Tables of random weights, each node with random candidates."""
    nodes = []
    for j in range(m):
        own = np.sort(rng.choice(np.delete(np.arange(m), j), candidates, replace=False))
        masks = np.arange(1 << candidates)
        nodes.append(NodeTable(own, masks, rng.normal(size=len(masks))))
    return ScoreTables.join(nodes, np.zeros((m, m)))


@pytest.mark.parametrize(("m", "candidates"), [(40, 2), (14, 11)], ids=["sorted", "scanned"])
def test_places_of_related_nodes_are_found_by_sorting_as_by_a_pass_over_the_order(m, candidates):
    rng = np.random.default_rng(0)
    tables = random_tables(m, candidates, rng)
    compiled, order = compiled_tables(tables), rng.permutation(m)
    related = np.diff(compiled.relations.begin)
    assert (related**2 > relocate.SCAN * m).all() == (m == 14)
    state = located(order, tables)
    for i in range(m):
        scores = Compared(i, order, state, compiled, None).by_place()
        others = order[order != i]
        there = tables.log_evidence(np.stack([np.insert(others, t, i) for t in range(m)]))
        assert scores == pytest.approx(there - tables.log_evidence(order[None]), abs=1e-9)


def test_a_place_is_drawn_in_proportion_to_its_weight():
    """Four places in two stretches: weights 1, 1, 1 and e²; at every uniform number."""
    scores, spots = np.array([0.0, 2.0]), np.array([3])
    weights, begins = np.empty(2), np.empty(3, np.int64)
    uniforms = (np.arange(10_000) + 0.5) / 10_000
    drawn = [
        relocate.choose_place(scores, 0, spots, 0, 4, 1.0, u, weights, begins)[0] for u in uniforms
    ]
    expected = np.array([1.0, 1.0, 1.0, np.exp(2.0)])
    share = np.bincount(drawn, minlength=4) / len(uniforms)
    assert share == pytest.approx(expected / expected.sum(), abs=2e-4)


def test_a_place_that_is_not_open_counts_for_nothing_however_good_it_is():
    """Places 2 and 3 lie in the first two of three stretches; the last one is better by e¹⁰⁰⁰."""
    scores, spots = np.array([0.0, 0.0, 1000.0]), np.array([3, 4])
    room = np.empty(3), np.empty(4, np.int64)
    drawn = [
        relocate.choose_place(scores, 0, spots, 2, 4, 1.0, u, *room)[0]
        for u in (0.1, 0.4, 0.6, 0.9)
    ]
    assert drawn == [2, 2, 3, 3]


def test_drawn_parent_sets_follow_their_conditional():
    _, tables = small_tables(PRIORS["beliefs"])
    order = np.array([3, 0, 2, 1])
    graphs = draw_graphs(tables, np.tile(order, (4000, 1)), seed=0)
    assert graphs.mean(axis=0) == pytest.approx(conditional_edges(tables, order), abs=0.04)
    pair = (graphs[:, 0, 1] & graphs[:, 2, 1]).mean()
    masks, weights = tables.nodes[1].masks, tables.nodes[1].weights
    w = np.exp(weights - weights.max())
    both = tables.bits[0, 1] | tables.bits[2, 1]
    assert pair == pytest.approx(w[masks & both == both].sum() / w.sum(), abs=0.04)


def test_every_draw_obeys_hard_knowledge_and_its_order():
    beliefs, tables = small_tables(PRIORS["hard"])
    chains = run_chains(tables, beliefs, Schedule(chains=2, burn_in=10, orders=100), seed=3)
    orders = chains.orders.reshape(-1, 4)
    graphs = draw_graphs(tables, orders, seed=3)
    assert graphs[:, 2, 1].all()
    assert not graphs[:, 0, 3].any()
    rank = np.argsort(orders, axis=1)
    cause, effect = np.nonzero(graphs)[1:], np.nonzero(graphs)[0]
    assert (rank[effect, cause[0]] < rank[effect, cause[1]]).all()


def test_same_seed_same_chains():
    beliefs, tables = small_tables(PRIORS["plain"])
    short = Schedule(chains=2, burn_in=7, orders=5, check_every=2, thin=3, stopping_rule=NEVER)
    one, two = (run_chains(tables, beliefs, short, seed=5) for _ in range(2))
    assert (one.orders == two.orders).all()
    assert (one.edges == two.edges).all()
    assert (one.orders != run_chains(tables, beliefs, short, seed=6).orders).any()
    assert one.log_evidence == pytest.approx(np.stack([*map(tables.log_evidence, one.orders)]))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_chains_begin_at_given_orders(prior):
    beliefs, tables = small_tables(prior)
    starts = np.array([[2, 1, 0, 3], [3, 2, 1, 0]])
    still = Schedule(chains=2, levels=2, burn_in=0, orders=2, moves="none", stopping_rule=NEVER)
    chains = run_chains(tables, beliefs, still, seed=0, starts=starts)
    assert (chains.orders == starts[:, None]).all()


def test_a_power_flattens_the_law_of_orders():
    """Kept orders are close to independent: five binomial standard errors are allowed."""
    beliefs, tables = small_tables(PRIORS["beliefs"])
    orders, p = order_probabilities(tables)
    flat = p**0.3 / (p**0.3).sum()
    assert np.abs(flat - p).max() > 0.03
    chains = run_chains(tables, beliefs, replace(LONG, power=0.3), seed=0)
    index = {tuple(order): k for k, order in enumerate(orders)}
    visits = np.bincount([index[tuple(o)] for o in chains.orders.reshape(-1, 4)], minlength=24)
    assert visits / 3000 == pytest.approx(flat, abs=5 * np.sqrt(flat.max() / 3000))


def test_chains_end_when_time_is_up():
    beliefs, tables = small_tables(PRIORS["plain"])
    asked = []
    schedule = Schedule(chains=2, burn_in=5, orders=12, check_every=4, stopping_rule=NEVER)
    chains = run_chains(
        tables, beliefs, schedule, seed=0, stop=lambda: asked.append(None) or len(asked) == 2
    )
    assert chains.length == 8


def test_exchanges_carry_a_chain_between_modes_that_moves_alone_do_not_cross():
    """Two orders share the mass, 0.73 and 0.27; every order between them costs 30 nats."""
    orders = np.array(list(permutations(range(4))))
    forward, backward = np.array([0, 1, 2, 3]), np.array([3, 2, 1, 0])
    nodes = []
    for j in range(4):
        candidates = np.delete(np.arange(4), j)
        sums = np.full(8, -30.0)
        bit = {int(i): 1 << b for b, i in enumerate(candidates)}
        for order, gain in ((forward, 0.25), (backward, 0.0)):
            before = order[: order.tolist().index(j)]
            sums[sum(bit[int(i)] for i in before)] = gain
        nodes.append((candidates, sums))
    tables = tables_of_sums(nodes)
    log = tables.log_evidence(orders)
    p = np.exp(log - np.logaddexp.reduce(log))
    alone = Schedule(chains=2, levels=1, burn_in=0, orders=400, thin=5, stopping_rule=NEVER)
    beliefs = Prior(p=0.5).bind(NAMES)
    stuck = run_chains(tables, beliefs, alone, seed=0)
    ladder = Schedule(chains=4, levels=8, flattest=0.01, orders=1000, thin=5, stopping_rule=NEVER)
    free = run_chains(tables, beliefs, ladder, seed=0)
    share = (free.orders == forward).all(axis=2).mean()
    assert abs(share - p[(orders == forward).all(axis=1)][0]) < 0.06
    crossings = np.abs(np.diff((stuck.orders == forward).all(axis=2).astype(int), axis=1)).sum()
    assert crossings == 0
    assert (free.exchanged > 0.05).all()


def test_burn_in_spaces_powers_so_that_neighbours_exchange_equally_often():
    model = LinearGaussian.from_values(sample(n=400, m=6, seed=2))
    beliefs = Prior(p=0.4).bind("abcdef")
    tables = complete_tables(model, beliefs)
    ladder = Schedule(chains=4, levels=5, flattest=0.005, orders=500, stopping_rule=NEVER)
    plain = run_chains(tables, beliefs, replace(ladder, burn_in=0), seed=0)
    tuned = run_chains(tables, beliefs, replace(ladder, burn_in=400), seed=0)
    assert plain.powers == pytest.approx(ladder.powers)
    assert tuned.powers[[0, -1]] == pytest.approx([0.005, 1.0])
    assert (np.diff(tuned.powers) > 0).all()
    assert np.ptp(tuned.exchanged) < 0.5 * np.ptp(plain.exchanged)


@pytest.mark.parametrize("levels", [3, 12])
def test_burn_in_chooses_a_ladder_half_of_whose_exchanges_are_accepted(levels):
    model = LinearGaussian.from_values(sample(n=400, m=6, seed=2))
    beliefs = Prior(p=0.4).bind("abcdef")
    tables = complete_tables(model, beliefs)
    ladder = Schedule(
        chains=4, levels=levels, flattest=0.005, burn_in=400, orders=500, resize=True,
        stopping_rule=NEVER,
    )  # fmt: skip
    found = run_chains(tables, beliefs, ladder, seed=0)
    assert found.powers[[0, -1]] == pytest.approx([0.005, 1.0])
    assert found.replicas.shape[1] == len(found.powers) == len(found.exchanged) + 1
    assert len(found.powers) == pytest.approx(best_levels(found.exchanged), abs=1)
    assert found.exchanged.mean() > 0.35
    assert found.exchanged.mean() < 0.65 or len(found.powers) == 2
    assert found.edges.mean(axis=0) == pytest.approx(exact_edges(tables), abs=0.02)


def test_powers_with_equal_exchanges_stay():
    powers = np.geomspace(0.1, 1.0, 5)
    assert respace_powers(powers, np.full(4, 0.4)) == pytest.approx(powers)
    assert respace_powers(powers, np.zeros(4)) == pytest.approx(powers)


def tables_of_sums(nodes):
    """Tables whose sums over subsets are given; chains look at nothing else."""
    blank = [NodeTable(candidates, np.arange(8), np.zeros(8)) for candidates, _ in nodes]
    tables = ScoreTables.join(blank, np.zeros((4, 4)))
    return replace(tables, sums=np.concatenate([sums for _, sums in nodes]))


def test_a_run_cut_off_after_any_segment_goes_on_as_if_nothing_had_happened():
    beliefs, tables = small_tables(PRIORS["hard"])
    schedule = Schedule(chains=2, burn_in=5, orders=11, check_every=4, thin=3, stopping_rule=NEVER)
    states = []
    whole = run_chains(tables, beliefs, schedule, seed=2, keep=states.append)
    assert [state.length for state in states] == [4, 8, 11]
    for state in states:
        resumed = run_chains(tables, beliefs, schedule, seed=2, resumed=state)
        assert (resumed.orders == whole.orders).all()
        assert (resumed.edges == whole.edges).all()
        assert (resumed.moved == whole.moved).all()


def test_chains_end_when_halves_agree_and_only_on_the_grid():
    beliefs, tables = small_tables(PRIORS["plain"])
    rule = Agreement(tolerance=0.05, effective=100.0)
    schedule = Schedule(chains=4, burn_in=20, orders=10_000, check_every=50, stopping_rule=rule)
    reported = []
    found = run_chains(tables, beliefs, schedule, seed=0, report=reported.append)
    assert found.length % 50 == 0
    assert found.length < 1000
    assert half_disagreement(found.edges) < 0.05
    assert effective_size(found.log_evidence) >= 100
    assert max(reported) == 4 * (20 + found.length * 10)
    patient = run_chains(
        tables,
        beliefs,
        Schedule(chains=4, burn_in=20, orders=found.length, stopping_rule=NEVER),
        seed=0,
    )
    assert patient.length == found.length
