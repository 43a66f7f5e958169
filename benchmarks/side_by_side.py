"""Two revisions in turns: `python benchmarks/side_by_side.py REVISION [graphs]`.

Each fit runs alone in a process of its own, first here and then there, on the same table. A first
fit, not counted, compiles what is kept on disk. The last column is the ratio of the median times;
`--only WORDS` keeps the cells whose name has these words.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CELLS = {
    "linear p25 n100": ("linear", 25, 40, 100),
    "linear p25 n1000": ("linear", 25, 40, 1000),
    "linear p50 n100": ("linear", 50, 80, 100),
    "linear p50 n1000": ("linear", 50, 80, 1000),
    "linear p100 n1000": ("linear", 100, 160, 1000),
    "nonlinear p25 n100": ("nonlinear", 25, 40, 100),
    "nonlinear p25 n1000": ("nonlinear", 25, 40, 1000),
    "nonlinear p25 n10000": ("nonlinear", 25, 40, 10000),
    "nonlinear p50 n1000": ("nonlinear", 50, 80, 1000),
}

FIT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import svidag
kind, m, edges, n, seed = json.loads(sys.argv[1])
example = svidag.datasets.synthetic(m=m, edges=edges, n=n, kind=kind, seed=seed)
started = time.perf_counter()
posterior = svidag.fit(example.data, mechanism=kind, progress=False)
seconds = time.perf_counter() - started
level = "cpdag" if kind == "linear" else "dag"
shd = svidag.metrics.evaluate(posterior.sample(1000), example.truth, level=level)["e_shd"]
print(json.dumps([seconds, shd]))
"""


def fit(tree: Path, cell: tuple, seed: str) -> tuple[float, float]:
    """Seconds and expected SHD of one fit by the code of a tree."""
    command = [sys.executable, "-c", FIT, json.dumps([*cell, seed])]
    environment = {"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """A row for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("graphs", nargs="?", type=int, default=3)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "-f", there, asked.revision], cwd=here, check=True
        )
        try:
            compare(asked, here, there)
        finally:
            subprocess.run(["git", "worktree", "remove", "-f", there], cwd=here, check=True)


def compare(asked: argparse.Namespace, here: Path, there: Path) -> None:
    """Fit every cell by both trees."""
    print("| cell | seconds here | there | E-SHD here | there | ratio of medians |")
    print("|---|---|---|---|---|---|")
    for name, cell in CELLS.items():
        if not all(word in name.split() for word in asked.only.split()):
            continue
        for tree in (here, there):
            fit(tree, cell, "side by side|warm")
        pairs = [
            [fit(tree, cell, f"side by side|{name}|{graph}") for tree in (here, there)]
            for graph in range(asked.graphs)
        ]
        seconds = [[pair[tree][0] for pair in pairs] for tree in range(2)]
        distance = [statistics.mean(pair[tree][1] for pair in pairs) for tree in range(2)]
        own, other = map(statistics.median, seconds)
        listed = [", ".join(f"{one:.1f}" for one in side) for side in seconds]
        print(
            f"| {name} | {listed[0]} | {listed[1]} | {distance[0]:.2f} | {distance[1]:.2f} "
            f"| {own / other:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
