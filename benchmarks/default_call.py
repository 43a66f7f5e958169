"""The default call as a user makes it: seconds, memory, sure arrows, and how far it is from BGe.

    python benchmarks/default_call.py gaussian t distorted --m 10 25 --seeds 0 2
    python benchmarks/default_call.py breast-cancer

A line for each fit of a fresh graph with 1.6 m arrows: mechanism, whether a mixture was made,
seconds and peak memory of the process and its workers, sure arrows (above 0.95) and those that are
wrong, summed |p − y|; for Gaussian noise also the mean and largest difference from
`mechanism="linear"`, over arrows above 0.05 in either.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import svidag
from svidag.posterior.sensitivity import SURE

KINDS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "curved": {"kind": "curved"},
    "t": {"noise": "t"},
    "lognormal": {"noise": "lognormal"},
    "uniform": {"noise": "uniform"},
    "growing": {"noise": "growing"},
    "distorted": {"distortion": "mixed"},
    "batches": {"batches": 4},
    "dependent": {"autocorrelation": 0.8},
    "hidden": {"hidden": 3},
    "measurement-error": {"measurement_error": 0.2},
}
SHOWN = 0.05  # an arrow counts in a comparison if either call gives it more than this


def main() -> None:
    parser = argparse.ArgumentParser(description="The default call, measured.")
    parser.add_argument("kinds", nargs="+", choices=[*KINDS, "breast-cancer"])
    parser.add_argument("--m", nargs="+", type=int, default=[10])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 1], metavar=("FROM", "TO"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore", svidag.FitWarning)
    for kind in asked.kinds:
        if kind == "breast-cancer":
            measure(kind, breast_cancer(), None)
            continue
        for m in asked.m:
            for seed in range(*asked.seeds):
                example = svidag.datasets.synthetic(
                    m=m,
                    edges=round(1.6 * m),
                    n=asked.rows,
                    seed=f"default call|{kind}|m={m}|{seed}",
                    **KINDS[kind],
                )
                name = f"{kind} m={m} n={asked.rows} seed {seed}"
                measure(name, example.data, example.truth.to_numpy(), compare=kind == "gaussian")


def breast_cancer() -> pd.DataFrame:
    """569 rows of 30 collinear measurements, and the diagnosis."""
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer(as_frame=True)
    return bunch.frame


def measure(
    name: str, table: pd.DataFrame, truth: np.ndarray | None, compare: bool = False
) -> None:
    """Fit a table by the default call, and print what came of it."""
    started = time.perf_counter()
    posterior = svidag.fit(table, progress=False)
    seconds = time.perf_counter() - started
    p, facts = posterior.edge_probabilities().to_numpy(), posterior.diagnostics
    assert facts is not None
    mixed = facts.sensitivity is not None and facts.sensitivity.mixed
    sure = p > SURE
    words = [
        f"{name}: {facts.mechanism}{', a mixture' if mixed else ''}, {facts.status}",
        f"{seconds:.0f} s, {memory_gb():.2f} GB",
        f"{sure.sum()} sure",
    ]
    if truth is not None:
        words[-1] += f" of {truth.sum()}, {(sure & (truth == 0)).sum()} wrong"
        words.append(f"sum |p - y| {np.abs(p - truth).sum():.2f}")
    if compare:
        linear = svidag.fit(table, mechanism="linear", progress=False)
        q = linear.edge_probabilities().to_numpy()
        gap = np.abs(p - q)[(p > SHOWN) | (q > SHOWN)]
        words.append(f"from linear {gap.mean():.4f} on average, {gap.max():.4f} at most")
    print("; ".join(words), flush=True)


def memory_gb() -> float:
    """The largest memory of this process so far, and of one of its workers."""
    own, workers = (
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return (own + workers) / 1e6


if __name__ == "__main__":
    main()
