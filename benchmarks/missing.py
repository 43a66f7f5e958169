"""Lost cells: `python benchmarks/missing.py --kinds mixed --lost random`, or others.

Each table is fitted complete, with the rows that lost a cell left out, and imputed, all by the
exact posterior. Distance is Σ |p − p of the complete table| per graph, with its standard error;
the band is what a perfect forecaster would show in 95 of 100 such runs. `--lost given` is missing
at random given the first column; `own` is not at random. `--share 0` measures complete tables
alone. With 40 graphs of four variables the band ends at .05: a smaller error needs more of them.
"""

import argparse
import warnings

import numpy as np

import svidag
from svidag.bench.mixed_tables import KINDS, lose_cells, mixed
from svidag.bench.sources import synthetic
from svidag.metrics import brier, calibration_band, expected_calibration_error

DISCRETE = ["binary", "categorical", "ordinal"]


def main() -> None:
    """A row for each way to treat the cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", choices=["continuous", "discrete", "mixed"], default="mixed")
    parser.add_argument("--lost", choices=["random", "given", "own"], default="random")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--first", type=int, default=5000, help="the seed of the first graph")
    parser.add_argument("--m", type=int, default=4)
    parser.add_argument("--edges", type=int, default=4)
    parser.add_argument("--rows", type=int, default=500)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", svidag.DataWarning)
    choices = ["complete", *(["drop", "impute"] if asked.share else [])]
    off = ~np.eye(asked.m, dtype=bool)
    found: dict[str, list[np.ndarray]] = {choice: [] for choice in choices}
    arrows = []
    for graph in range(asked.graphs):
        seed = asked.first + graph
        size = {"m": asked.m, "edges": asked.edges, "n": asked.rows, "seed": seed, "replicate": 0}
        if asked.kinds == "continuous":
            whole = synthetic(**size)
        else:
            whole = mixed(**size, kinds=DISCRETE if asked.kinds == "discrete" else KINDS)
        holed = lose_cells(whole, asked.share, asked.lost, seed)
        arrows.append(whole.truth.to_numpy()[off])
        for choice, edges in found.items():
            data = whole.data if choice == "complete" else holed.data
            missing = "error" if choice == "complete" else choice
            mechanism = "linear" if asked.kinds == "continuous" else "auto"
            posterior = svidag.fit(
                data, method="exact", mechanism=mechanism, missing=missing, progress=False
            )
            edges.append(np.clip(posterior.graphs.edge_probabilities()[off], 0, 1))
    y = np.concatenate(arrows)
    print("| | distance | calibration error | band | Brier score | sure, wrong of them |")
    print("|---|---|---|---|---|---|")
    for choice, edges in found.items():
        p = np.concatenate(edges)
        pairs = zip(edges, found["complete"], strict=True)
        away = np.array([np.abs(one - other).sum() for one, other in pairs])
        sure = p > 0.95
        print(
            f"| {choice} | {away.mean():.2f} ± {away.std() / len(away) ** 0.5:.2f} "
            f"| {expected_calibration_error(p, y):.3f} | to {calibration_band(p)[1]:.3f} "
            f"| {brier(p, y):.3f} | {sure.sum()}, {(sure & (y == 0)).sum()} |"
        )


if __name__ == "__main__":
    main()
