"""Discrete networks beside Gadget: `python benchmarks/gadget.py FILE.bif … --gadget PYTHON`.

Rows are drawn from each network (a BIF file, read by pgmpy) and fitted by the default call of
svidag and by Gadget (PyPI `sumu`), each in a process of its own, in turns. PYTHON is an
interpreter that has `sumu`, which wants older versions of other packages than ours: with Python
3.11 it was built from its source with Cython < 3 and NumPy < 2. Both use BDeu with an equivalent
sample size of 1 and give 1000 graphs; Gadget runs with the settings of its own first example
unless told otherwise. The first fit of ours is not counted: it compiles what is kept on disk.
Columns that are constant in the rows drawn are left out of both.

In sumu 0.1.2 a sum over parent sets is the difference of two others, and NaN where the two are
too close to tell apart, as they are in most discrete tables; its chains then stand still. `Sums`
adds up the terms of such a sum instead, so that what is compared is the sampler as it is meant.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

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
chains, steps = map(int, sys.argv[3:])

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

sumu.gadget.CandidateRestrictedScore = Sums
np.random.seed(0)
clock, cpu = time.perf_counter(), time.process_time()
sampler = sumu.Gadget(
    data=sumu.Data(codes), scoref="bdeu", ess=1, max_id=-1, K=min(15, codes.shape[1] - 1), d=3,
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


def draw(path: Path, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of a network as codes from 0 on, and its graph."""
    from pgmpy.readwrite import BIFReader

    network = BIFReader(str(path)).get_model()
    drawn = network.simulate(n_samples=rows, seed=seed, show_progress=False)
    names = sorted(name for name in drawn if drawn[name].nunique() > 1)
    codes = pd.DataFrame({name: pd.Categorical(drawn[name]).codes for name in names})
    truth = np.zeros((len(names), len(names)), dtype=np.uint8)
    for cause, effect in network.edges:
        if cause in names and effect in names:
            truth[names.index(cause), names.index(effect)] = 1
    return codes, truth


def run(python: str, program: str, table: Path, *more: str) -> tuple[list[float], np.ndarray]:
    """Seconds by the clock and of the processors, and the graphs that a program drew."""
    graphs = table.with_suffix(".npy")
    command = [python, "-c", program, str(table), str(graphs), *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]), np.load(graphs)


def main() -> None:
    """A row for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--gadget", required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--chains", default="16")
    parser.add_argument("--steps", default="10000")
    asked = parser.parse_args()
    print("| network | variables, arrows | | E-SHD (CPDAG) | (DAG) | seconds | of CPU |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        table, warm = Path(folder) / "table.csv", True
        for path in asked.files:
            for seed in range(asked.tables):
                codes, truth = draw(path, asked.rows, seed)
                codes.to_csv(table, index=False)
                if warm:
                    run(sys.executable, OURS, table)
                    warm = False
                for name, python, program, more in (
                    ("svidag", sys.executable, OURS, ()),
                    ("Gadget", asked.gadget, GADGET, (asked.chains, asked.steps)),
                ):
                    (clock, cpu), graphs = run(python, program, table, *more)
                    distance = [
                        svidag.metrics.evaluate(graphs, truth, level=level)["e_shd"]
                        for level in ("cpdag", "dag")
                    ]
                    print(
                        f"| {path.stem} #{seed} | {len(truth)}, {truth.sum()} | {name} "
                        f"| {distance[0]:.2f} | {distance[1]:.2f} | {clock:.0f} | {cpu:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
