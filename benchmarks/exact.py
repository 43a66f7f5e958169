"""Time and memory of the exact posterior: `python benchmarks/exact.py`."""

import multiprocessing
import resource
import time

import svidag


def measure(m: int, graph_weights: str) -> tuple[float, float, float]:
    """Seconds for the edge probabilities, seconds for 1000 draws, peak memory in GB."""
    example = svidag.datasets.synthetic(m=m, edges=2 * m, n=500, seed=m)
    svidag.exact.posterior(example.data.iloc[:, :2])  # imports are not what is measured
    started = time.perf_counter()
    posterior = svidag.exact.posterior(example.data, graph_weights=graph_weights)
    posterior.edge_probabilities()
    known = time.perf_counter()
    posterior.sample(1000)
    drawn = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return known - started, drawn - known, peak


def main() -> None:
    """One fresh process a row, so that each peak is its own."""
    print("| m | weights | edge probabilities, s | 1000 draws, s | peak memory, GB |")
    print("|---|---|---|---|---|")
    cases = [(m, "order") for m in (8, 12, 16, 18)] + [(m, "structure") for m in (8, 12)]
    context = multiprocessing.get_context("spawn")
    for case in cases:
        with context.Pool(1) as pool:
            known, drawn, peak = pool.apply(measure, case)
        print(f"| {case[0]} | {case[1]} | {known:.1f} | {drawn:.1f} | {peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
