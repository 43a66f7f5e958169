"""Many variables: `python benchmarks/large.py [CELL ...]`, each in a process of its own.

A cell is `kind:graph:m:rows`, for instance `linear:er:500:1000`; without any, the cells below. For
each: seconds, compilation not included where numba has kept it; the CPU of all threads; peak
memory; expected SHD of equivalence classes (of graphs if nonlinear) over the number of variables,
from 50 draws; and how the fit ended. At the end the exponents of seconds and CPU in m for linear
Erdős–Rényi graphs with 1000 rows. On a machine with other work only the CPU means something.
"""

import json
import math
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

import svidag

CELLS = (
    "linear:er:100:1000",
    "linear:er:200:1000",
    "linear:er:500:1000",
    "linear:er:1000:1000",
    "linear:sf:200:1000",
    "linear:sf:500:1000",
    "nonlinear:er:100:1000",
    "nonlinear:er:200:1000",
    "linear:er:1000:100",
    "linear:er:100:1000000",
)
ARROWS = 1.6  # a variable
DRAWS = 50


def measure(cell: str) -> dict[str, object]:
    """Fit one fresh table; figures as a dictionary."""
    kind, graph, m, rows = cell.split(":")
    edges = round(ARROWS * int(m))
    example = svidag.datasets.synthetic(
        int(m), edges, int(rows), kind, graph, seed=f"benchmark|large|{cell}"
    )
    began, cpu = time.perf_counter(), time.process_time()
    posterior = svidag.fit(example.data, mechanism=kind, progress=False)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    level = "cpdag" if kind == "linear" else "dag"
    scores = svidag.metrics.evaluate(posterior.sample(DRAWS), example.truth, level)
    facts = posterior.diagnostics
    return {
        "cell": cell,
        "seconds": round(seconds, 1),
        "cpu": round(cpu, 1),
        "gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "shd": round(scores["e_shd"] / int(m), 4),
        "status": facts.status.value,
        "disagreement": round(facts.details.half_disagreement, 3),
    }


def main(cells: list[str]) -> None:
    """One line a cell."""
    print("| cell | seconds | CPU | GB | E-SHD/m | status | halves differ by |")
    print("|---|---|---|---|---|---|---|")
    times: dict[int, tuple[float, float]] = {}
    for cell in cells:
        done = subprocess.run(
            [sys.executable, __file__, "--one", cell], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"| {' | '.join(str(value) for value in found.values())} |", flush=True)
        kind, graph, m, rows = cell.split(":")
        if (kind, graph, rows) == ("linear", "er", "1000"):
            times[int(m)] = found["seconds"], found["cpu"]
    if len(times) > 1:
        slopes = np.polyfit([math.log(m) for m in times], np.log(list(times.values())), 1)[0]
        print(f"seconds ∝ m^{slopes[0]:.2f}, CPU ∝ m^{slopes[1]:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(sys.argv[1:] or list(CELLS))
