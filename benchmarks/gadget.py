"""Discrete networks beside Gadget: `python benchmarks/gadget.py child alarm --gadget PYTHON`.

Rows are drawn from each network and fitted by the default call of svidag and by Gadget (PyPI
`sumu`), each in a process of its own, in turns. A network is one of those that pgmpy brings along
(`child`, `insurance`, `alarm`, …), the path of a BIF file, or `random:25:40`, a random one of so
many variables and arrows. PYTHON is an interpreter that has `sumu`, in an environment of its own,
for it wants older versions of other packages than ours: with Python 3.11 it is built from its
source with NumPy < 2 and Cython < 3, after the C++ files that its source brings along for older
versions of Python are deleted. Both use BDeu with an equivalent sample size of 1 and give 1000
graphs; Gadget runs with the settings of its own first example unless told otherwise. The first fit
of ours is not counted: it compiles what is kept on disk. Columns that are constant in the rows
drawn are left out of both.

In sumu 0.1.2 a sum over parent sets is the difference of two others, and NaN where the two are too
close to tell apart (it means to add these up one by one, and adds an empty sum twice). That is so
in most discrete tables, whatever the version of NumPy: its chains then stand still, or it ends with
an error. `Sums` adds up the terms of such a sum, so that what is compared is the sampler as it is
meant; `--released` runs it without, and shows what happens.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

import svidag

OURS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, svidag
table = pd.read_csv(sys.argv[1]).astype("category")
clock, cpu = time.perf_counter(), time.process_time()
posterior = svidag.fit(table, progress=False)
draws = posterior.sample(1000)
print(json.dumps([time.perf_counter() - clock, time.process_time() - cpu]))
np.save(sys.argv[2], draws)
"""

GADGET = """
import json, sys, time
import numpy as np, sumu
codes = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, dtype=np.int32)
chains, steps, K, mode = *map(int, sys.argv[3:6]), sys.argv[6]

class Sums(sumu.CandidateRestrictedScore):
    # Over the parent sets within U that meet T; those that cancel are added one by one.

    def __new__(cls, scores, candidates, size):
        return super().__new__(cls, scores, candidates, size, 0.0)

    def __init__(self, scores, candidates, size):
        self.scores, self.sets = scores, np.arange(1 << size)

    def sum(self, v, U, T):
        found = super().sum(v, U, T)
        if T == 0 or found > super().sum(v, U, U) - 20:
            return found
        kept = (self.sets & ~U == 0) & (self.sets & T != 0)
        return np.logaddexp.reduce(self.scores[v][kept])

if mode == "repaired":
    sumu.gadget.CandidateRestrictedScore = Sums
np.random.seed(0)
clock, cpu = time.perf_counter(), time.process_time()
sampler = sumu.Gadget(
    data=sumu.Data(codes), scoref="bdeu", ess=1, max_id=-1, K=min(K, codes.shape[1] - 1), d=3,
    cp_algo="greedy-lite", mc3_chains=chains, burn_in=steps, iterations=steps,
    thinning=max(1, steps // 1000), tolerance=2**-32,
)
families, _ = sampler.sample()
spent = [time.perf_counter() - clock, time.process_time() - cpu]
graphs = np.zeros((len(families), codes.shape[1], codes.shape[1]), dtype=np.uint8)
for graph, nodes in zip(graphs, families):
    for node, *parents in nodes:
        for parent in parents[0] if parents else ():
            graph[parent, node] = 1
np.save(sys.argv[2], graphs)
print(json.dumps(spent))
"""


LEVELS, CONCENTRATION = (2, 3, 4), 0.5
"""Of a random network: levels of a variable, and of the Dirichlet distribution of each row of its
tables of probabilities."""


def draw(network: str, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of a network as codes from 0 on, and its graph."""
    if network.startswith("random:"):
        m, arrows = map(int, network.split(":")[1:])
        return draw_random(m, arrows, rows, seed)
    from pgmpy.readwrite import BIFReader

    bundled = files("pgmpy") / "utils" / "example_models" / f"{network}.bif.gz"
    text = (
        gzip.decompress(bundled.read_bytes()) if bundled.is_file() else Path(network).read_bytes()
    )
    model = BIFReader(string=text.decode()).get_model()
    drawn = model.simulate(n_samples=rows, seed=seed, show_progress=False)
    names = sorted(map(str, drawn.columns[drawn.nunique() > 1]))
    codes = pd.DataFrame({name: pd.Categorical(drawn[name]).codes for name in names})
    truth = np.zeros((len(names), len(names)), dtype=np.uint8)
    for cause, effect in model.edges:
        if cause in names and effect in names:
            truth[names.index(cause), names.index(effect)] = 1
    return codes, truth


def draw_random(m: int, arrows: int, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The same for a random network with tables of probabilities drawn at random."""
    graph = svidag.datasets.synthetic(m=m, edges=arrows, n=2, seed=seed).truth.to_numpy()
    rng = np.random.default_rng(seed)
    sizes, codes = rng.choice(LEVELS, m), np.zeros((rows, m), dtype=int)
    for j in nx.topological_sort(nx.from_numpy_array(graph, create_using=nx.DiGraph)):
        parents = np.flatnonzero(graph[:, j])
        place = np.ravel_multi_index(codes[:, parents].T, sizes[parents]) if len(parents) else 0
        count = int(np.prod(sizes[parents]))
        table = rng.dirichlet(np.full(sizes[j], CONCENTRATION), count)[place].reshape(-1, sizes[j])
        codes[:, j] = (
            (table.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=sizes[j] - 1)
        )
    kept = np.flatnonzero(np.ptp(codes, axis=0) > 0)
    names = [f"x{j}" for j in kept]
    return pd.DataFrame(codes[:, kept], columns=names), graph[np.ix_(kept, kept)].astype(np.uint8)


def run(python: str, program: str, table: Path, *more: str) -> tuple[list[float], np.ndarray]:
    """Seconds by the clock and of the processors, and the graphs that a program drew."""
    graphs = table.with_suffix(".npy")
    command = [python, "-c", program, str(table), str(graphs), *more]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1]), np.load(graphs)


def main() -> None:
    """A row for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--gadget", required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--chains", default="16")
    parser.add_argument("--steps", default="10000")
    parser.add_argument("--candidates", default="15")
    parser.add_argument("--released", action="store_true")
    asked = parser.parse_args()
    mode = "released" if asked.released else "repaired"
    settings = asked.chains, asked.steps, asked.candidates, mode
    print("| network | variables, arrows | | E-SHD (CPDAG) | (DAG) | seconds | of CPU |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        table, warm = Path(folder) / "table.csv", True
        for network in asked.networks:
            for seed in range(asked.tables):
                codes, truth = draw(network, asked.rows, seed)
                codes.to_csv(table, index=False)
                if warm:
                    run(sys.executable, OURS, table)
                    warm = False
                for name, python, program, more in (
                    ("svidag", sys.executable, OURS, ()),
                    (f"Gadget, {mode}", asked.gadget, GADGET, settings),
                ):
                    start = (
                        f"| {Path(network).stem} #{seed} | {len(truth)}, {truth.sum()} | {name} "
                    )
                    try:
                        (clock, cpu), graphs = run(python, program, table, *more)
                    except RuntimeError as error:
                        print(f"{start}| fails: {error} | | | |", flush=True)
                        continue
                    distance = [
                        svidag.metrics.evaluate(graphs, truth, level=level)["e_shd"]
                        for level in ("cpdag", "dag")
                    ]
                    print(
                        f"{start}| {distance[0]:.2f} | {distance[1]:.2f} | {clock:.0f} "
                        f"| {cpu:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
