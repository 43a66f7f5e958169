"""`svi-dag` against exact edge probabilities: `python benchmarks/svi_dag_exact.py fresh 2`.

The arguments are a label, from which the seeds come, and how many graphs there are of each kind:
random linear graphs with 8, 10 and 12 variables, 50, 100 and 500 rows. The first graph of a kind
has 1.6 edges a variable, the second 2.5, and so on in turn. Each is fitted without correction and
with it. Errors are of the probabilities of all arrows i → j, i ≠ j. Settings are chosen with the
label `tuning` and reported with another.
"""

import itertools
import sys
import time
import warnings

import numpy as np

import svidag
from svidag.methods import SVIDAG

SIZES, ROWS, DENSITIES = (8, 10, 12), (50, 100, 500), (1.6, 2.5)
CORRECTIONS = ("none", "pseudo-marginal")


def compare(m, edges, n, seed, corrections=CORRECTIONS, **settings):
    """For each correction: mean and worst error, CPU seconds and status, on one graph."""
    example = svidag.datasets.synthetic(m=m, edges=edges, n=n, seed=seed)
    exact = svidag.exact.posterior(example.data, mechanism="linear").edge_probabilities().to_numpy()
    for correction in corrections:
        method = SVIDAG(correction=correction, **settings)
        started = time.process_time()
        found = svidag.fit(example.data, method=method, mechanism="linear", progress=False)
        seconds = time.process_time() - started
        error = np.abs(found.edge_probabilities().to_numpy() - exact)[~np.eye(m, dtype=bool)]
        yield correction, error.mean(), error.max(), seconds, found.diagnostics.status


def main(label="fresh", graphs=1):
    """One row for each fit, then the worst of each correction."""
    warnings.simplefilter("ignore", svidag.FitWarning)
    print("| m | edges | n | correction | mean error | worst error | CPU seconds | status |")
    print("|---|---|---|---|---|---|---|---|")
    found = {correction: [] for correction in CORRECTIONS}
    for graph, m, n in itertools.product(range(int(graphs)), SIZES, ROWS):
        edges = round(DENSITIES[graph % 2] * m)
        seed = f"benchmark|svi-dag-exact|{label}|{m}|{n}|{graph}"
        for correction, mean, worst, seconds, status in compare(m, edges, n, seed):
            found[correction].append((mean, worst, seconds))
            row = f"| {m} | {edges} | {n} | {correction} | {mean:.4f} | {worst:.3f} "
            print(f"{row}| {seconds:.1f} | {status} |", flush=True)
    for correction, rows in found.items():
        mean, worst, seconds = np.transpose(rows)
        print(
            f"{correction}: mean error at most {mean.max():.4f}, worst at most {worst.max():.3f} "
            f"({len(rows)} fits, {seconds.mean():.1f} CPU seconds each)"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
