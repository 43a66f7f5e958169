"""DiBS here beside the package of its authors: `python benchmarks/dibs_lib.py --dibs PYTHON`.

PYTHON is an interpreter that has `dibs-lib` (PyPI); it is best kept apart from ours, as it brings
Jupyter along. Both programs get the same standardised tables, the same prior, particles, steps,
graphs for a gradient and bandwidths, and weigh whole graphs (`ratio="graph"`), as the package does.
Particles of one run repel each other, so that the error of an edge probability is estimated from
the spread between runs, each from a seed of its own. A z-score is the difference of the two means
over its standard error; their root mean square is 1 where both sample the same distribution.
Cyclic particles are dropped from both. Seconds are by the clock: of the first run of a fresh
process, start and compilation included, and of a later one on average, where neither compiles.
With `--own`, ours has its own defaults where these differ. E-SHD is Σ |p − y| over ordered pairs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import svidag
from svidag.graph import are_dags

OURS = """
import json, sys, time, warnings
clock = time.perf_counter()
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, svidag
x, asked = np.loadtxt(sys.argv[1], delimiter=","), json.loads(sys.argv[2])
mlp = asked["mechanism"] == "mlp"
more = {} if asked["own"] else {"graph_draws": asked["graph_draws"], "ratio": "graph"}
method = svidag.methods.DiBS(
    particles=asked["particles"], iterations=asked["steps"], edges_per_node=asked["edges_per_node"],
    edge_slope=asked["edge_slope"], **more,
)
graphs, seconds = [], []
for seed in range(asked["runs"]):
    if seed:
        clock = time.perf_counter()
    posterior = svidag.fit(
        pd.DataFrame(x), method=method, mechanism=asked["mechanism"], standardise=False,
        seed=seed, progress=False,
    )
    seconds.append(time.perf_counter() - clock)
    found = posterior.diagnostics.details
    graphs.append([] if found.repaired else posterior.edge_probabilities().to_numpy().tolist())
    graphs[-1] = [graphs[-1], found.cyclic_share]
print(json.dumps([seconds, graphs]))
"""

THEIRS = """
import json, sys, time, warnings
clock = time.perf_counter()
warnings.simplefilter("ignore")
import jax, numpy as np
from dibs.inference import JointDiBS, MarginalDiBS
from dibs.models import BGe, DenseNonlinearGaussian, ErdosReniDAGDistribution
x, asked = np.loadtxt(sys.argv[1], delimiter=","), json.loads(sys.argv[2])
m = x.shape[1]
prior = ErdosReniDAGDistribution(n_vars=m, n_edges_per_node=asked["edges_per_node"])
if asked["mechanism"] == "linear":
    DiBS, model = MarginalDiBS, BGe(n_vars=m)
else:
    DiBS, model = JointDiBS, DenseNonlinearGaussian(n_vars=m, hidden_layers=(10,), obs_noise=0.1)
dibs = DiBS(
    x=jax.numpy.asarray(x), graph_model=prior, likelihood_model=model,
    alpha_linear=asked["edge_slope"], n_grad_mc_samples=asked["graph_draws"],
)
graphs, seconds = [], []
for seed in range(asked["runs"]):
    if seed:
        clock = time.perf_counter()
    found = dibs.sample(
        key=jax.random.PRNGKey(seed), n_particles=asked["particles"], steps=asked["steps"]
    )
    found = np.asarray(found[0] if asked["mechanism"] == "mlp" else found, dtype=int)
    seconds.append(time.perf_counter() - clock)
    graphs.append(found.tolist())
print(json.dumps([seconds, graphs]))
"""


def table(m: int, rows: int, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows of a sparse problem, and its graph."""
    example = svidag.datasets.synthetic(m=m, edges=m, n=rows, kind=kind, seed=seed)
    x = example.data.to_numpy()
    return (x - x.mean(axis=0)) / x.std(axis=0), np.asarray(example.truth)


def run(python: str, program: str, path: Path, asked: dict) -> list:
    """The seconds of every run, and what each found."""
    command = [python, "-c", program, str(path), json.dumps(asked)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def of_particles(graphs: list, m: int) -> tuple[list | np.ndarray, float]:
    """Edge probabilities over the particles without a cycle, and the share of those with one."""
    array = np.array(graphs, dtype=np.uint8).reshape(-1, m, m)
    kept = are_dags(array)
    return array[kept].mean(axis=0) if kept.any() else [], float((~kept).mean())


def compare(ours: list, theirs: list, m: int) -> tuple[float, float, float]:
    """Mean absolute difference, root mean square of z-scores, and the largest of them."""
    off = ~np.eye(m, dtype=bool)
    both = [np.array([p for p, _ in runs if len(p)])[:, off] for runs in (ours, theirs)]
    difference = both[0].mean(axis=0) - both[1].mean(axis=0)
    variance = np.sum([p.var(axis=0, ddof=1) / len(p) for p in both], axis=0)
    z = difference[variance > 0] / np.sqrt(variance[variance > 0])
    return np.abs(difference).mean(), np.sqrt(np.mean(z**2)), np.abs(z).max()


def main() -> None:
    """A row for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dibs", required=True, help="an interpreter that has dibs-lib")
    parser.add_argument("--mechanism", choices=("linear", "mlp"), default="linear")
    parser.add_argument("--variables", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--particles", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--graph-draws", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0, help="of the table")
    parser.add_argument("--own", action="store_true")
    given = parser.parse_args()
    linear, m = given.mechanism == "linear", given.variables
    asked = {
        "mechanism": given.mechanism,
        "particles": given.particles,
        "steps": given.steps,
        "runs": given.runs,
        "graph_draws": given.graph_draws,
        "edges_per_node": 1,
        "edge_slope": 1.0 if linear else 0.05,
        "own": given.own,
    }
    print(
        "| mechanism, variables, rows | mean abs. difference | z: root mean square, largest (of) "
        "| E-SHD: ours, theirs | cyclic: ours, theirs | first run, s: ours, theirs "
        "| later runs, s: ours, theirs |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        for rows in given.rows:
            x, truth = table(m, rows, "linear" if linear else "nonlinear", given.seed)
            np.savetxt(path, x, delimiter=",")
            times, ours = run(sys.executable, OURS, path, asked)
            their_times, found = run(given.dibs, THEIRS, path, asked)
            theirs = [of_particles(graphs, m) for graphs in found]
            gap, spread, largest = compare(ours, theirs, m)
            off = [
                np.mean([np.abs(p - truth).sum() for p, _ in runs if len(p)])
                for runs in (ours, theirs)
            ]
            cyclic = [np.mean([share for _, share in runs]) for runs in (ours, theirs)]
            later = [np.mean(t[1:]) if len(t) > 1 else np.nan for t in (times, their_times)]
            print(
                f"| {given.mechanism}, {m}, {rows} | {gap:.3f} | {spread:.2f}, {largest:.1f} "
                f"({m * (m - 1)}) | {off[0]:.1f}, {off[1]:.1f} | {cyclic[0]:.2f}, {cyclic[1]:.2f} "
                f"| {times[0]:.1f}, {their_times[0]:.1f} | {later[0]:.1f}, {later[1]:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
