"""Three ways to find parents given an order, on fresh data: `python benchmarks/edges.py`.

Tables of parent sets (`order-mcmc`, which is made to run chains for small problems too), a flow for
each node and independent edges for each node (both `svi-dag`). Ten variables also have an exact
posterior: the last columns say how far the edge probabilities are from it, on average and at worst.
"""

import time
import warnings

import numpy as np

import svidag
from svidag.methods import SVIDAG, OrderMCMC

CASES = ((10, 16, 200), (25, 40, 1000))  # variables, edges, rows
METRICS = ("brier", "e_shd", "e_f1", "auroc")
WAYS = {
    "table": OrderMCMC(exact=False),
    "flow": SVIDAG(guide="flow"),
    "mean-field": SVIDAG(guide="mean-field"),
}
SEED = "benchmark|edges"


def scores(example, method):
    """CPU seconds, the four metrics for CPDAGs, and the edge probabilities."""
    started = time.process_time()
    posterior = svidag.fit(example.data, method=method, mechanism="linear", progress=False)
    seconds = time.process_time() - started
    found = svidag.metrics.evaluate(posterior.sample(1000), example.truth, level="cpdag")
    values = posterior.edge_probabilities().to_numpy()
    return seconds, [found[name] for name in METRICS], values


def main():
    """One table, a row for each size and way."""
    print("| m | n | way | CPU seconds | Brier | E-SHD | E-F1 | AUROC | mean error | worst error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    warnings.simplefilter("ignore", svidag.FitWarning)
    for m, count, n in CASES:
        example = svidag.datasets.synthetic(m=m, edges=count, n=n, seed=SEED)
        exact = None
        if m <= 16:
            exact = svidag.exact.posterior(example.data).edge_probabilities().to_numpy()
        for way, method in WAYS.items():
            seconds, metrics, values = scores(example, method)
            brier, shd, f1, auroc = metrics
            row = f"| {m} | {n} | {way} | {seconds:.1f} | {brier:.4f} | {shd:.2f} | {f1:.3f} "
            row += f"| {auroc:.3f} "
            if exact is None:
                row += "| | |"
            else:
                error = np.abs(values - exact)
                row += f"| {error.mean():.4f} | {error.max():.3f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
