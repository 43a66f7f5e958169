"""`svi-dag` against exact edge probabilities: `python benchmarks/svi_dag_exact.py [label] [graphs]`.

Random linear graphs with 8, 10 and 12 variables and 1.6 edges a variable, 50, 100 and 500 rows, without
correction and with it. Errors are of the probabilities of all arrows i → j, i ≠ j. Settings are chosen
with the label `tuning` and reported with others; a graph is as good as its label is new.
"""

import sys
import time
import warnings

import numpy as np

import svidag
from svidag.methods import SVIDAG

SIZES, ROWS = (8, 10, 12), (50, 100, 500)
CORRECTIONS = ("none", "pseudo-marginal")


def compare(m, n, seed, corrections=CORRECTIONS, **settings):
    """For each correction: mean and worst error, CPU seconds and status, on one graph."""
    example = svidag.datasets.synthetic(m=m, edges=round(1.6 * m), n=n, seed=seed)
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
    print("| m | n | graph | correction | mean error | worst error | CPU seconds | status |")
    print("|---|---|---|---|---|---|---|---|")
    found = {correction: [] for correction in CORRECTIONS}
    for m in SIZES:
        for n in ROWS:
            for graph in range(int(graphs)):
                seed = f"benchmark|svi-dag-exact|{label}|{m}|{n}|{graph}"
                for correction, mean, worst, seconds, status in compare(m, n, seed):
                    found[correction].append((mean, worst, seconds))
                    row = f"| {m} | {n} | {graph} | {correction} | {mean:.4f} | {worst:.3f} "
                    print(f"{row}| {seconds:.1f} | {status} |", flush=True)
    for correction, rows in found.items():
        mean, worst, seconds = np.transpose(rows)
        print(
            f"{correction}: mean error {mean.mean():.4f}, at most {mean.max():.4f}; worst error at most "
            f"{worst.max():.3f}, above 0.15 in {(worst > 0.15).sum()} of {len(rows)}; "
            f"{seconds.mean():.1f} CPU seconds a fit"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
