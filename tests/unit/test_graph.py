"""Graph checks, orders and generators on hand-worked graphs and by brute force."""

from itertools import permutations
from math import factorial, log

import numpy as np
import pandas as pd
import pytest
from arrows import graph

from svidag.graph import (
    LimitError,
    adjacency,
    all_dags,
    ancestors,
    are_dags,
    cpdag,
    cpdags,
    distinct,
    find_cycle,
    is_dag,
    linear_extensions,
    log_linear_extensions,
    random_dag,
    require_dags,
    topological_order,
)
from svidag.graph.extension import estimate_log_linear_extensions

CYCLE = graph(5, (0, 1), (1, 3), (3, 4), (4, 1), (4, 2))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[0, 1]], r"A must have shape \[m, m\], got \[1, 2\]"),
        ([[[0]]], r"got \[1, 1, 1\]"),
        ([[0, 2], [0, 0]], r"A\[0, 1\] is 2; every entry must be 0 or 1"),
        ([[0, 0.5], [0, 0]], r"A\[0, 1\] is 0.5"),
        ([[0, np.nan], [0, 0]], r"A\[0, 1\] is nan"),
        ([[0, 0], [0, 1]], r"A\[1, 1\] is 1; the diagonal must be 0"),
    ],
)
@pytest.mark.parametrize("function", [is_dag, cpdag, topological_order, linear_extensions])
def test_a_bad_matrix_is_refused_by_its_entry(function, bad, message):
    with pytest.raises(ValueError, match=message):
        function(bad)


def test_lists_frames_booleans_and_floats_are_all_adjacencies():
    expected = graph(2, (0, 1))
    for given in ([[0, 1], [0, 0]], expected.astype(bool), expected * 1.0, pd.DataFrame(expected)):
        found = adjacency(given)
        assert found.dtype == np.uint8
        assert (found == expected).all()


def test_acyclicity_agrees_with_powers_of_the_matrix():
    rng = np.random.default_rng(0)
    draws = (rng.random((500, 6, 6)) < 0.2).astype(np.uint8)
    draws[:, np.arange(6), np.arange(6)] = 0
    walks = sum(np.linalg.matrix_power(draws.astype(float), k) for k in range(1, 7))
    expected = np.trace(walks, axis1=1, axis2=2) == 0
    assert 0 < expected.sum() < 500
    assert (are_dags(draws) == expected).all()
    assert [find_cycle(A) is None for A in draws] == expected.tolist()


def test_a_found_cycle_is_a_cycle():
    assert find_cycle(CYCLE) == [1, 3, 4]
    rng = np.random.default_rng(1)
    for _ in range(50):
        A = (rng.random((7, 7)) < 0.3) & ~np.eye(7, dtype=bool)
        cycle = find_cycle(A)
        if cycle is not None:
            assert len(set(cycle)) == len(cycle)
            assert all(A[i, j] for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@pytest.mark.parametrize("function", [topological_order, linear_extensions, cpdag])
def test_a_cyclic_graph_is_refused_by_naming_the_cycle(function):
    with pytest.raises(ValueError, match="has the cycle 1 → 3 → 4 → 1"):
        function(CYCLE)


def test_the_cyclic_draw_is_named():
    with pytest.raises(ValueError, match=r"draws\[2\] must be acyclic, but has the cycle 1 → 3"):
        require_dags([np.zeros((5, 5)), np.zeros((5, 5)), CYCLE])


def test_topological_order_puts_parents_first():
    assert topological_order(graph(4, (3, 0), (0, 2))).tolist() == [1, 3, 0, 2]
    for seed in range(20):
        A = random_dag(12, 30, seed=seed)
        place = np.argsort(topological_order(A))
        assert all(place[i] < place[j] for i, j in np.argwhere(A))


def test_ancestors_are_directed_paths_in_any_batch_shape():
    chain = graph(9, *((k, k + 1) for k in range(8)))
    assert (ancestors(chain) == np.triu(np.ones((9, 9), dtype=bool), 1)).all()
    draws = np.stack([random_dag(9, 14, seed=s) for s in range(12)])
    powers = sum(np.linalg.matrix_power(draws.astype(float), k) for k in range(1, 9))
    assert (ancestors(draws) == (powers > 0)).all()
    assert (ancestors(draws.reshape(3, 4, 9, 9)) == (powers > 0).reshape(3, 4, 9, 9)).all()


def test_every_small_dag_is_listed_once():
    for m, count in [(1, 1), (2, 3), (3, 25), (4, 543), (5, 29281)]:
        graphs = all_dags(m)
        assert graphs.shape == (count, m, m)
        assert len(np.unique(graphs.reshape(count, -1), axis=0)) == count
        assert are_dags(graphs).all()
    with pytest.raises(ValueError, match="m must be between 1 and 5"):
        all_dags(6)


@pytest.mark.parametrize("kind", ["er", "sf"])
@pytest.mark.parametrize(("m", "edges"), [(1, 0), (6, 0), (6, 15), (10, 10), (20, 40)])
def test_a_random_dag_has_exactly_the_edges_asked_for(m, edges, kind):
    A = random_dag(m, edges, kind, seed=3)
    assert is_dag(A)
    assert A.sum() == edges
    assert (random_dag(m, edges, kind, seed=3) == A).all()


def test_random_graphs_are_uniform_or_have_hubs():
    def spread(kind):
        draws = np.stack([random_dag(30, 58, kind, seed=s) for s in range(40)])
        degree = draws.sum(axis=1) + draws.sum(axis=2)
        return degree.max(axis=1).mean(), draws.mean(axis=0)

    uniform_hub, frequency = spread("er")
    assert spread("sf")[0] > 1.5 * uniform_hub
    # Labels are random, so every arrow has probability 58 / (30 · 29) = 0.067.
    assert frequency[~np.eye(30, dtype=bool)].max() < 0.3


def test_random_dag_refuses_what_it_cannot_make():
    with pytest.raises(ValueError, match="edges must be between 0 and 3 for m = 3, got 4"):
        random_dag(3, 4, seed=0)
    with pytest.raises(ValueError, match="edges must be between"):
        random_dag(3, -1, seed=0)


def test_distinct_graphs_and_their_draws():
    pool = np.stack([random_dag(9, 12, seed=s) for s in range(5)])
    draws = pool[[3, 1, 3, 3, 0, 1]]
    graphs, which = distinct(draws)
    assert len(graphs) == 3
    assert (graphs[which] == draws).all()


def orders_by_permutation(A):
    arrows = np.argwhere(A)
    places = np.array(list(permutations(range(len(A)))))
    return int((places[:, arrows[:, 0]] < places[:, arrows[:, 1]]).all(axis=1).sum())


def test_linear_extensions_agree_with_all_permutations():
    for seed in range(60):
        A = random_dag(7, seed % 16, ("er", "sf")[seed % 2], seed=seed)
        assert linear_extensions(A) == orders_by_permutation(A)


def test_estimated_numbers_of_extensions_are_right_within_their_errors_and_exact_in_forests():
    rng = np.random.default_rng(0)
    graphs = np.array([random_dag(12, 16, seed=seed) for seed in range(20)], dtype=np.uint8)
    logs, errors = estimate_log_linear_extensions(graphs, 400, rng)
    deviations = np.expm1(logs - log_linear_extensions(graphs)) / np.maximum(errors, 1e-12)
    assert (errors < 0.1).all()
    assert np.abs(deviations).max() < 5
    assert 0.5 < np.sqrt(np.mean(deviations**2)) < 1.7
    tree = np.zeros((1, 9, 9), dtype=np.uint8)
    tree[0, [0, 0, 1, 1, 2, 6, 6], [1, 2, 3, 4, 5, 7, 8]] = 1
    logs, errors = estimate_log_linear_extensions(tree, 50, rng)
    assert np.exp(logs[0]) == pytest.approx(linear_extensions(tree[0]))
    assert errors[0] < 1e-9


def test_linear_extensions_have_their_closed_forms():
    assert linear_extensions(np.zeros((30, 30))) == factorial(30)
    star = graph(21, *((0, k) for k in range(1, 21)))
    assert linear_extensions(star) == linear_extensions(star.T) == factorial(20)
    chain = graph(60, *((k, k + 1) for k in range(59)))
    assert linear_extensions(chain) == 1
    binary = graph(15, *(((k - 1) // 2, k) for k in range(1, 15)))
    # Hook-length formula for a forest: m! / Π (size of the subtree below each node).
    assert linear_extensions(binary) == factorial(15) // (15 * 7**2 * 3**4)
    fence = graph(
        8, *((i, j) for i in range(8) for j in range(8) if i % 2 == 0 and abs(i - j) == 1)
    )
    # Alternating permutations: the Euler zigzag number E_8.
    assert linear_extensions(fence) == 1385


def test_log_linear_extensions_repeat_for_repeated_draws():
    pool = np.stack([random_dag(9, 12, seed=s) for s in range(4)])
    draws = pool[[0, 1, 1, 2, 0, 3]]
    expected = [log(linear_extensions(A)) for A in draws]
    np.testing.assert_allclose(log_linear_extensions(draws), expected, rtol=1e-14)


def test_linear_extensions_stop_at_the_limit():
    A = random_dag(40, 70, seed=0)
    with pytest.raises(LimitError, match="needs more than limit=50 sets"):
        linear_extensions(A, limit=50)
    long = graph(600, *((k, k + 1) for k in range(599)))
    with pytest.raises(LimitError, match="600 nodes nests too deeply"):
        linear_extensions(long)


def test_cpdag_of_hand_worked_graphs():
    collider = graph(3, (0, 2), (1, 2))
    assert (cpdag(collider) == collider).all()
    chain = graph(3, (0, 1), (1, 2))
    assert (cpdag(chain) == chain | chain.T).all()
    # Rule 1: 0 → 2 ← 1 directs 2 → 3.
    tail = graph(4, (0, 2), (1, 2), (2, 3))
    assert (cpdag(tail) == tail).all()
    # Rule 3: 0 – 1 → 3 and 0 – 2 → 3 with 1, 2 apart direct 0 → 3.
    kite = graph(4, (0, 1), (0, 2), (0, 3), (1, 3), (2, 3))
    assert (cpdag(kite) == kite | graph(4, (1, 0), (2, 0))).all()


def test_cpdags_keep_the_order_of_the_draws():
    pool = np.stack([random_dag(8, 12, seed=s) for s in range(6)])
    draws = pool[[5, 0, 0, 3, 5]]
    assert (cpdags(draws) == np.stack([cpdag(A) for A in draws])).all()


def test_the_cpdag_routine_runs_on_a_cycle_only_if_told_to():
    triangle = graph(3, (0, 1), (1, 2), (2, 0))
    assert (cpdag(triangle, allow_cyclic=True) == triangle | triangle.T).all()
