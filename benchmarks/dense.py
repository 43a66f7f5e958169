"""Dense graphs by the default fit: `python benchmarks/dense.py [graphs]`.

For each cell, fresh graphs: seconds, expected SHD (of equivalence classes if linear), and the mean
log posterior of draws minus that of the true graph, in nats; beside it the best of the draws.

Draws from a posterior lie below its best graph on average, the more the wider it is. How far the
exact posterior itself lies below the true graph is in the column *given the order* of linear cells:
with the true order known, nodes separate, and the mean over the parent sets of a node is a sum over
sets (those that differ from the true parents by at most two arrows less and two more).
"""

import itertools
import sys
import time
import warnings

import networkx as nx
import numpy as np

import svidag
from svidag.methods.mechanism_building import MechanismBuilder

CELLS = (
    ("linear", 18, 54),  # summed exactly: what the posterior itself gives
    ("linear", 25, 60),
    ("linear", 25, 75),
    ("linear", 50, 150),
    ("nonlinear", 25, 75),
)
ROWS = 1000
SEED = "benchmark|dense"


def log_posteriors(model, prior, graphs):
    """Σ_j f_j(parents) + log odds of the arrows, for each graph."""
    S, m, _ = graphs.shape
    families = graphs.swapaxes(1, 2).reshape(S * m, m).astype(bool)
    scores = model.family_scores(np.tile(np.arange(m), S), families).reshape(S, m).sum(axis=1)
    return scores + (graphs * np.where(prior.free, prior.logit, 0.0)).sum(axis=(1, 2))


def given_the_order(model, prior, truth):
    """Σ_j E[log posterior of the parents of j] − log posterior of its true parents, order known."""
    m = len(truth)
    order = list(nx.topological_sort(nx.DiGraph(truth)))
    total = 0.0
    for place, j in enumerate(order):
        present = [i for i in order[:place] if truth[i, j]]
        absent = [i for i in order[:place] if not truth[i, j]]
        sets = [
            [*sorted(set(present) - set(less)), *more]
            for less in up_to_two(present)
            for more in up_to_two(absent)
        ]
        parents = np.zeros((len(sets), m), dtype=bool)
        for row, members in enumerate(sets):
            parents[row, members] = True
        scores = model.family_scores(np.full(len(sets), j), parents)
        scores += (parents * prior.free_log_odds[:, j]).sum(axis=1)
        share = np.exp(scores - np.logaddexp.reduce(scores))
        total += (share * (scores - scores[0])).sum()  # the first set is that of the true parents
    return total


def up_to_two(variables):
    """All sets of none, one and two of these."""
    return [chosen for k in range(3) for chosen in itertools.combinations(variables, k)]


def measure(kind, m, edges, number):
    """One fit."""
    example = svidag.datasets.synthetic(
        m=m, edges=edges, n=ROWS, kind=kind, seed=f"{SEED}|{kind}|{m}|{edges}|{number}"
    )
    started = time.perf_counter()
    posterior = svidag.fit(example.data, mechanism=kind, progress=False)
    seconds = time.perf_counter() - started
    prior = posterior.problem.prior
    build = MechanismBuilder(posterior.problem, 0)
    model = build.linear() if kind == "linear" else build.network(svidag.methods.OrderMCMC.units)
    draws, truth = posterior.sample(1000), example.truth.to_numpy()
    level = "cpdag" if kind == "linear" else "dag"
    shd = svidag.metrics.evaluate(draws, example.truth, level=level)["e_shd"]
    nats = log_posteriors(model, prior, draws[::20]) - log_posteriors(model, prior, truth[None])
    known = given_the_order(model, prior, truth) if kind == "linear" else np.nan
    return seconds, shd, nats.mean(), nats.max(), known, posterior.diagnostics.status


def main(graphs):
    """A row for each graph and the mean of each cell."""
    warnings.simplefilter("ignore")
    print(
        "| kind | variables | arrows | graph | seconds | E-SHD | nats | best draw "
        "| given the order | status |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, m, edges in CELLS:
        rows = []
        for number in range(graphs):
            seconds, shd, nats, best, known, status = measure(kind, m, edges, number)
            rows.append((seconds, shd, nats))
            cells = f"{seconds:.1f} | {shd:.2f} | {nats:.1f} | {best:.1f} | {known:.1f} | {status}"
            print(f"| {kind} | {m} | {edges} | {number} | {cells} |", flush=True)
        seconds, shd, nats = np.array(rows).T
        cells = f"{seconds.mean():.1f} | {shd.mean():.2f} | {np.sum(nats >= -5)} of {graphs} ≥ −5 |"
        print(f"| {kind} | {m} | {edges} | mean | {cells} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
