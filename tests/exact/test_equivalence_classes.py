"""CPDAGs and equivalence classes against enumeration of all small DAGs."""

from collections import defaultdict
from itertools import combinations, product
from math import factorial, prod

import numpy as np
import pytest

from svidag.graph import (
    LimitError,
    all_dags,
    are_dags,
    cpdag,
    cpdags,
    members,
    random_dag,
    size,
)


def pattern(A):
    """Verma & Pearl: two DAGs are equivalent iff skeleton and v-structures agree."""
    skeleton = frozenset(frozenset((i, j)) for i, j in np.argwhere(A).tolist())
    colliders = frozenset(
        (i, j, k)
        for j in range(len(A))
        for i, k in combinations(np.flatnonzero(A[:, j]).tolist(), 2)
        if frozenset((i, k)) not in skeleton
    )
    return skeleton, colliders


def classes(m):
    found = defaultdict(list)
    for A in all_dags(m):
        found[pattern(A)].append(A)
    return [np.stack(graphs) for graphs in found.values()]


def as_set(graphs):
    return {A.tobytes() for A in graphs}


@pytest.fixture(scope="module")
def classes_of_four():
    return classes(4)


@pytest.fixture(scope="module")
def classes_of_five():
    return classes(5)


def test_number_of_classes(classes_of_four, classes_of_five):
    assert len(classes_of_four) == 185
    assert len(classes_of_five) == 8782


def test_cpdag_is_constant_on_a_class_and_differs_between_classes(classes_of_four):
    seen = set()
    for graphs in classes_of_four:
        completed = as_set(cpdags(graphs))
        assert len(completed) == 1
        seen |= completed
    assert len(seen) == 185


def test_cpdag_is_the_union_of_its_class(classes_of_five):
    first = np.stack([graphs[0] for graphs in classes_of_five])
    last = np.stack([graphs[-1] for graphs in classes_of_five])
    union = np.stack([graphs.max(axis=0) for graphs in classes_of_five])
    assert (cpdags(first) == union).all()
    assert (cpdags(last) == union).all()


@pytest.mark.parametrize("targets", [[(0,)], [(1,), (2,)], [(0, 2)], [(0, 1), (3,)]])
def test_told_directions_give_the_essential_graph_of_the_interventions(classes_of_four, targets):
    """Two DAGs agree under interventions iff also the arrows into and out of targets agree."""
    inside = np.array([[k in target for k in range(4)] for target in targets])
    known = (inside[:, :, None] != inside[:, None, :]).any(axis=0)
    for graphs in classes_of_four:
        smaller = defaultdict(list)
        for A in graphs:
            smaller[(A * known).tobytes()].append(A)
        for alike in smaller.values():
            union = np.stack(alike).max(axis=0)
            assert (cpdags(np.stack(alike), known_directions=known) == union).all()


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (2, 3)], [(0, 2), (1, 3), (2, 3)]])
def test_any_known_directions_give_what_all_graphs_that_agree_on_them_share(classes_of_four, pairs):
    """Knowledge of single pairs, for which Meek's fourth rule is needed."""
    told = np.zeros((4, 4), dtype=bool)
    for i, j in pairs:
        told[i, j] = told[j, i] = True
    for graphs in classes_of_four:
        smaller = defaultdict(list)
        for A in graphs:
            smaller[(A * told).tobytes()].append(A)
        for alike in smaller.values():
            union = np.stack(alike).max(axis=0)
            assert (cpdags(np.stack(alike), known_directions=told) == union).all()


def test_members_are_the_class(classes_of_four, classes_of_five):
    for graphs in [*classes_of_four[::2], *classes_of_five[::100]]:
        found = members(graphs[0])
        assert len(found) == len(graphs) == size(graphs[-1])
        assert as_set(found) == as_set(graphs)


def test_members_do_not_depend_on_the_representative(classes_of_four):
    for graphs in classes_of_four[::4]:
        assert (members(graphs[0]) == members(graphs[-1])).all()


def test_members_of_larger_classes_agree_with_trying_every_orientation():
    for seed in range(12):
        A = random_dag(9, 11, ("er", "sf")[seed % 2], seed=seed)
        completed = cpdag(A)
        undirected = [(i, j) for i, j in np.argwhere(completed & completed.T).tolist() if i < j]
        assert len(undirected) <= 11
        tried = []
        for flips in product((False, True), repeat=len(undirected)):
            B = completed & ~completed.T
            for (i, j), flip in zip(undirected, flips, strict=True):
                B[(j, i) if flip else (i, j)] = 1
            tried.append(B)
        tried = np.stack(tried)
        equivalent = [B for B in tried[are_dags(tried)] if pattern(B) == pattern(A)]
        assert as_set(members(A)) == as_set(equivalent)


def checked_members(A):
    """Members, once they are distinct, acyclic and equivalent."""
    found = members(A, limit=10**6)
    assert are_dags(found).all()
    assert len(as_set(found)) == len(found)
    assert len(as_set(cpdags(found))) == 1
    return found


def test_size_has_its_closed_forms():
    complete = np.triu(np.ones((30, 30), dtype=np.uint8), 1)
    assert size(complete) == factorial(30)
    tree = np.zeros((40, 40), dtype=np.uint8)
    for k in range(1, 40):
        tree[(k - 1) // 3, k] = 1
    assert size(tree) == 40
    blocks = np.zeros((12, 12), dtype=np.uint8)
    for start, width in [(0, 5), (5, 4), (9, 3)]:
        part = slice(start, start + width)
        blocks[part, part] = np.triu(np.ones((width, width)), 1)
    assert size(blocks) == prod(map(factorial, (5, 4, 3)))


def test_size_counts_what_members_lists_in_chordal_graphs():
    rng = np.random.default_rng(0)
    for width in (2, 3):
        for _ in range(5):
            A = np.zeros((9, 9), dtype=np.uint8)
            for node in range(1, 9):
                # Parents form a clique, so there is no v-structure: one chordal component.
                clique = [int(rng.integers(node))]
                clique += [v for v in range(node) if A[v, clique[0]]][: width - 1]
                A[clique, node] = 1
            assert (cpdag(A) == A | A.T).all()
            assert size(A) == len(checked_members(A))


def test_members_stop_at_the_limit_and_say_the_size():
    complete = np.triu(np.ones((12, 12), dtype=np.uint8), 1)
    with pytest.raises(LimitError, match="has 479001600 members, more than limit=100000"):
        members(complete)
