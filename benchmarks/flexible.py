"""Flexible mechanisms against the truth: all parent sets scored, the exact posterior over orders.

    python benchmarks/flexible.py --kinds t3 lognormal --seeds 0 8 --m 7

For every kind of data: summed |p − y| per graph, sure arrows (above 0.95) and those that are wrong,
and how far linear Gaussian data are from BGe, over pairs above 0.05 in either.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from svidag.exact.orders import ExactOrders, parent_weights
from svidag.graph import random_dag, topological_order
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.prior import Prior

KINDS = ("gaussian", "t3", "lognormal", "uniform", "growing", "curved")


def table(kind: str, m: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A graph with 1.5 m arrows and data of it, standardised."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    graph = np.asarray(random_dag(m, int(1.5 * m), seed=int(rng.integers(2**31))))
    x = np.zeros((n, m))
    for j in topological_order(graph):
        parents = np.flatnonzero(graph[:, j])
        weights = rng.uniform(0.5, 2.0, len(parents)) * rng.choice([-1, 1], len(parents))
        noise, location = _noise(kind, n, rng), x[:, parents] @ weights
        if kind == "growing" and len(parents):
            grows = x[:, rng.choice(parents)]
            standard = (grows - grows.mean()) / grows.std()
            noise *= np.exp(standard) if rng.random() < 0.5 else 0.3 + np.abs(standard)
        if kind == "curved":
            location = _curve(x[:, parents], rng)
        x[:, j] = location + noise
    return graph, (x - x.mean(axis=0)) / x.std(axis=0)


def _noise(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "t3":
        return rng.standard_t(3, n)
    if kind == "lognormal":
        return np.exp(rng.standard_normal(n))
    if kind == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    return (0.5 if kind == "curved" else 1.0) * rng.standard_normal(n)


def _curve(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random network of eight tanh units, with unit variance."""
    if x.shape[1] == 0:
        return np.zeros(len(x))
    hidden = np.tanh(x @ rng.normal(0, 1.5, (x.shape[1], 8)) + rng.normal(0, 1.0, 8))
    location = hidden @ rng.standard_normal(8)
    return location / location.std()


def edges(scores: np.ndarray, m: int) -> np.ndarray:
    """Exact edge probabilities with the default prior."""
    names = tuple(f"x{i}" for i in range(m))
    prior = Prior().bind(names)
    exact = ExactOrders.build(parent_weights(scores, prior), prior.required)
    return np.asarray(exact.edge_probabilities())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5])
    parser.add_argument("--m", type=int, default=6)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--linear", action="store_true", help="linear locations alone")
    parser.add_argument(
        "--screen", action="store_true", help="fit only parents that explain something"
    )
    asked = parser.parse_args()
    names = tuple(f"x{i}" for i in range(asked.m))
    locations = ("linear",) if asked.linear else ("linear", "network")
    for kind in asked.kinds:
        sums, sure, wrong, gaps, failures, started = [], 0, 0, [], 0, time.perf_counter()
        bge_sums, true = [], 0
        for seed in range(*asked.seeds):
            graph, x = table(kind, asked.m, asked.n, seed)
            model = FlexibleMechanism.from_values(x, names, locations=locations, seed=seed)
            tables = (ScreenedFlexible.of(model) if asked.screen else model).score_tables()
            p, bge = edges(tables, asked.m), edges(model.linear.score_tables(), asked.m)
            sums.append(np.abs(p - graph).sum())
            bge_sums.append(np.abs(bge - graph).sum())
            sure, wrong = sure + (p > 0.95).sum(), wrong + ((p > 0.95) & (graph == 0)).sum()
            true += graph.sum()
            gaps.append(np.abs(p - bge)[np.maximum(p, bge) > 0.05])
            failures += model.counts["failures"]
        gaps = np.concatenate(gaps)
        seconds = (time.perf_counter() - started) / len(sums)
        print(
            f"{kind:10s} m={asked.m} |p-y| {np.mean(sums):5.2f} (worst {max(sums):5.2f}; "
            f"BGe {np.mean(bge_sums):5.2f})  sure {sure}, wrong {wrong}, true {true}  "
            f"from BGe: mean {gaps.mean():.3f} worst {gaps.max():.3f}  failed fits {failures}  "
            f"{seconds:.1f} s a graph",
            flush=True,
        )


if __name__ == "__main__":
    main()
