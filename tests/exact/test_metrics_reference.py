"""Reference scores against plain loops; intervention distance against paths and effects."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from svidag.graph import all_dags, cpdag, random_dag
from svidag.metrics import evaluate, sid

NAMES = ("praf", "pmek", "plcg", "PIP2", "PIP3", "p44/42", "pakts473", "PKA", "PKC", "P38", "pjnk")
CHILDREN = {
    "praf": ["pmek"],
    "pmek": ["p44/42"],
    "plcg": ["PIP2", "PKC"],
    "PIP2": ["PKC", "PIP3"],
    "PIP3": ["plcg", "pakts473"],
    "PKA": ["P38", "praf", "pakts473", "pmek", "p44/42", "pjnk"],
    "PKC": ["pjnk", "P38", "praf", "pmek"],
}


def sachs_18():
    A = np.zeros((11, 11), dtype=np.uint8)
    for cause, effects in CHILDREN.items():
        A[NAMES.index(cause), [NAMES.index(effect) for effect in effects]] = 1
    return A


def slow_cpdag(A):
    """Sets of arrows and of lines by v-structures, then one application of a rule at a time."""
    d = len(A)
    adjacent = {frozenset(map(int, e)) for e in np.argwhere(A)}
    arrows = {
        (i, j)
        for j in range(d)
        for i, k in permutations(np.flatnonzero(A[:, j]).tolist(), 2)
        if frozenset((i, k)) not in adjacent
    }
    lines = {e for e in adjacent if not any(frozenset(a) == e for a in arrows)}

    def forced(i, j):
        near_i = [k for k in range(d) if frozenset((i, k)) in lines]
        return (
            any((k, i) in arrows and frozenset((k, j)) not in adjacent for k in range(d) if k != j)
            or any((i, k) in arrows and (k, j) in arrows for k in range(d))
            or any(
                (k, j) in arrows and (h, j) in arrows and frozenset((k, h)) not in adjacent
                for k, h in combinations(near_i, 2)
            )
        )

    moved = True
    while moved:
        moved = False
        for i, j in [(i, j) for i in range(d) for j in range(d) if frozenset((i, j)) in lines]:
            if frozenset((i, j)) in lines and forced(i, j):
                arrows.add((i, j))
                lines.remove(frozenset((i, j)))
                moved = True
    return arrows, lines


def slow_auroc(scores, labels):
    wins = [
        1.0 if s > t else 0.5 if s == t else 0.0
        for s, y in zip(scores, labels, strict=True)
        if y
        for t, z in zip(scores, labels, strict=True)
        if not z
    ]
    return sum(wins) / len(wins)


def slow_f1(predicted, true):
    right = len(predicted & true)
    if not predicted or not right:
        return 0.0
    precision, recall = right / len(predicted), right / len(true)
    return 2 * precision * recall / (precision + recall)


def edge_set(A):
    return {(int(i), int(j)) for i, j in np.argwhere(A)}


def slow_dag_scores(draws, truth):
    d, true = len(truth), edge_set(truth)
    ordered = [(i, j) for i in range(d) for j in range(d) if i != j]
    p = [sum(int(A[e]) for A in draws) / len(draws) for e in ordered]
    y = [e in true for e in ordered]
    return {
        "brier": sum((a - b) ** 2 for a, b in zip(p, y, strict=True)) / (d * (d - 1)),
        "e_shd": sum(len(edge_set(A) ^ true) for A in draws) / len(draws),
        "e_f1": sum(slow_f1(edge_set(A), true) for A in draws) / len(draws),
        "auroc": slow_auroc(p, y),
    }


def slow_cpdag_shd(first, second):
    arrows, lines = first
    arrows_, lines_ = second
    skeleton = lines | {frozenset(a) for a in arrows}
    skeleton_ = lines_ | {frozenset(a) for a in arrows_}

    def mark(e, arrows):
        return next((a for a in arrows if frozenset(a) == e), None)

    shared = skeleton & skeleton_
    return len(skeleton ^ skeleton_) + sum(mark(e, arrows) != mark(e, arrows_) for e in shared)


def slow_cpdag_scores(draws, truth):
    d = len(truth)
    skeleton = {frozenset(e) for e in edge_set(truth)}
    unordered = list(combinations(range(d), 2))
    frequency = np.mean([A.astype(float) for A in draws], axis=0)
    p = [max(frequency[i, j], frequency[j, i]) for i, j in unordered]
    y = [frozenset(e) in skeleton for e in unordered]
    completed = slow_cpdag(truth)
    return {
        "brier": sum((a - b) ** 2 for a, b in zip(p, y, strict=True)) / len(unordered),
        "e_shd": np.mean([slow_cpdag_shd(slow_cpdag(A), completed) for A in draws]),
        "e_f1": np.mean([slow_f1({frozenset(e) for e in edge_set(A)}, skeleton) for A in draws]),
        "auroc": slow_auroc(p, y),
    }


def near_truth(truth, seed, draws=15):
    """Draws that share much with the truth: subsets of it joined with forward edges."""
    rng = np.random.default_rng(seed)
    other = [random_dag(len(truth), int(truth.sum()), seed=seed + k) for k in range(draws)]
    order = np.argsort(rng.random(len(truth)))
    flipped = np.zeros_like(truth)
    for i, j in edge_set(truth | truth.T):
        flipped[(i, j) if order[i] < order[j] else (j, i)] = 1
    kept = [flipped * (rng.random(truth.shape) < 0.8) for _ in range(draws)]
    return np.stack([*other, *kept]).astype(np.uint8)


CASES = [(5, 5, "er"), (7, 9, "sf"), (10, 16, "er"), (12, 20, "sf")]


@pytest.mark.parametrize(("m", "edges", "kind"), CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_reference_scores_agree_with_loops(m, edges, kind, seed):
    truth = random_dag(m, edges, kind, seed=seed)
    draws = near_truth(truth, 100 * seed + m)
    dag = evaluate(draws, truth, "dag", "reference")
    assert dag == pytest.approx(slow_dag_scores(draws, truth), abs=1e-9)
    completed = evaluate(draws, truth, "cpdag", "reference")
    assert completed == pytest.approx(slow_cpdag_scores(draws, truth), abs=1e-9)


def test_an_empty_posterior_scores_the_number_of_edges():
    truth = random_dag(25, 40, seed=0)
    empty = np.zeros((3, 25, 25), dtype=np.uint8)
    for level in ("dag", "cpdag"):
        assert evaluate(empty, truth, level, "reference")["e_shd"] == 40


def test_the_cyclic_sachs_graph_in_the_reference_convention():
    truth = sachs_18()
    assert truth.sum() == 18
    completed = cpdag(truth, allow_cyclic=True)
    undirected = {frozenset((NAMES[i], NAMES[j])) for i, j in edge_set(completed & completed.T)}
    assert (completed & ~completed.T).sum() == 12
    assert len(undirected) == 6
    loop = {frozenset(pair) for pair in combinations(("plcg", "PIP2", "PIP3"), 2)}
    assert loop <= undirected
    draws = np.stack([random_dag(11, 17, seed=s) for s in range(20)])
    found = evaluate(draws, truth, "cpdag", "reference", allow_cyclic_truth=True)
    assert found == pytest.approx(slow_cpdag_scores(draws, truth), abs=1e-9)


def paths(A, i, j, seen=()):
    """All paths without repeated nodes from i to j, whatever the direction of the arrows."""
    if i == j:
        yield (*seen, j)
        return
    for k in np.flatnonzero(A[i] | A[:, i]).tolist():
        if k not in seen and k != i:
            yield from paths(A, k, j, (*seen, i))


def descendants(A, i):
    found = {i}
    while True:
        more = found | {int(k) for v in found for k in np.flatnonzero(A[v])}
        if more == found:
            return found
        found = more


def is_open(A, path, Z):
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        if A[a, b] and A[c, b]:
            if not descendants(A, b) & Z:
                return False
        elif b in Z:
            return False
    return True


def slow_sid(truth, estimate):
    """Definition by paths: valid adjustment for the parents that the estimate gives."""
    wrong = 0
    for i, j in permutations(range(len(truth)), 2):
        Z = set(np.flatnonzero(estimate[:, i]).tolist())
        if j in Z:
            wrong += j in descendants(truth, i)
            continue
        every = list(paths(truth, i, j))
        directed = [p for p in every if all(truth[a, b] for a, b in pairwise(p))]
        forbidden = {d for p in directed for v in p[1:] for d in descendants(truth, v)}
        wrong += bool(forbidden & Z) or any(
            is_open(truth, p, Z) for p in every if p not in directed
        )
    return wrong


def test_intervention_distance_agrees_with_paths():
    graphs = all_dags(3)
    for truth in graphs[::2]:
        for estimate in graphs:
            assert sid(truth, estimate) == slow_sid(truth, estimate)
    for seed in range(60):
        truth = random_dag(5, 3 + seed % 6, seed=seed)
        estimate = random_dag(5, 2 + seed % 7, seed=1000 + seed)
        assert sid(truth, estimate) == slow_sid(truth, estimate)


def effect_errors(truth, estimate, rng):
    """Wrong total effects in a random linear model, adjusting for the estimate's parents."""
    m = len(truth)
    weights = truth * rng.uniform(0.5, 2, (m, m)) * rng.choice([-1, 1], (m, m))
    total = np.linalg.inv(np.eye(m) - weights)
    covariance = total.T @ np.diag(rng.uniform(0.5, 2, m)) @ total
    wrong = 0
    for i, j in permutations(range(m), 2):
        Z = np.flatnonzero(estimate[:, i])
        if j in Z:
            effect = 0.0
        else:
            given = [i, *Z]
            effect = np.linalg.solve(covariance[np.ix_(given, given)], covariance[given, j])[0]
        wrong += abs(effect - total[i, j]) > 1e-8
    return wrong


def test_intervention_distance_counts_wrong_effects_of_linear_models():
    rng = np.random.default_rng(0)
    for seed in range(60):
        truth = random_dag(6, 4 + seed % 8, seed=seed)
        estimate = random_dag(6, 3 + seed % 9, seed=500 + seed)
        assert sid(truth, estimate) == effect_errors(truth, estimate, rng)


def test_intervention_distance_of_the_published_example():
    # Peters & Bühlmann: X1, X2 → Y1, Y2, Y3 and X1 → X2; an extra Y1 → Y2 does no harm, a
    # reversed X1 – X2 spoils eight effects, though both are at Hamming distance one.
    truth = np.zeros((5, 5), dtype=np.uint8)
    truth[:2, 2:] = 1
    truth[0, 1] = 1
    extra, flipped = truth.copy(), truth.copy()
    extra[2, 3] = 1
    flipped[0, 1], flipped[1, 0] = 0, 1
    assert sid(truth, extra) == 0
    assert sid(truth, flipped) == 8
