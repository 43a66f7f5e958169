"""Tables that list every parent set, for problems small enough, and their parts by brute force."""

from itertools import combinations

import numpy as np

from svidag.scores import NodeTable, ScoreTables


def subsets(items):
    return [s for size in range(len(items) + 1) for s in combinations(items, size)]


def weight(model, prior, node, parents):
    """w_j(S) of one set: the score and the log odds of the pairs that are open."""
    chosen = np.zeros((1, len(prior.names)), dtype=bool)
    chosen[0, list(parents)] = True
    return model.family_scores(np.array([node]), chosen)[0] + sum(
        prior.logit[i, node] for i in parents if not prior.required[i, node]
    )


def complete_node(model, prior, node):
    """Every set of allowed parents that has the required ones."""
    candidates = np.flatnonzero(prior.allowed[:, node])
    masks = np.arange(1 << len(candidates))
    parents = np.zeros((len(masks), len(prior.names)), dtype=bool)
    parents[:, candidates] = masks[:, None] >> np.arange(len(candidates)) & 1 == 1
    held = (parents >= prior.required[:, node]).all(axis=1)
    masks, parents = masks[held], parents[held]
    odds = np.where(prior.free[:, node], prior.logit[:, node], 0.0)
    weights = model.family_scores(np.full(len(masks), node), parents) + parents @ odds
    return NodeTable(candidates, masks, weights)


def complete_tables(model, prior):
    return ScoreTables.of([complete_node(model, prior, j) for j in range(len(prior.names))], prior)


def log_sum(model, prior, node, before):
    """F_j(U) with one score after the other."""
    needed = set(np.flatnonzero(prior.required[:, node]).tolist())
    inside = [i for i in before if prior.allowed[i, node]]
    terms = [weight(model, prior, node, s) for s in subsets(inside) if needed <= set(s)]
    return np.logaddexp.reduce(terms) if terms else -np.inf


def log_evidence(model, prior, order):
    """log p(D | order)."""
    total = 0.0
    for t, j in enumerate(order):
        before = order[:t]
        total += log_sum(model, prior, j, before)
        total += sum(np.log1p(-prior.marginal[i, j]) for i in before if prior.free[i, j])
    return total
