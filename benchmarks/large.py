"""Many variables: `python benchmarks/large.py [CELL ...]`, each in a process of its own.

A cell is `call:graph:m:rows`, for instance `linear:er:500:1000`; without any, the cells below. A
call is a mechanism that is asked for (`linear`, `nonlinear`), or `default-linear` and
`default-nonlinear`, the call that leaves everything open, on data of that kind. Graphs have 1.6
arrows a variable: `er` (Erdős–Rényi), `sf` (scale free), `chain` (one long path), `dense` (one
variable in ten belongs to groups of ten with three parents each, the rest is a sparse graph).

For each: seconds; the CPU of all threads; peak memory; expected SHD of equivalence classes (of
graphs if nonlinear) over the number of variables, from 50 draws; how the fit ended; and the longest
stages. On a machine with other work only the CPU means something. `--write` adds a row for each
to results/large, from which `benchmarks/large_page.py` makes the tables and the curve; `--save
FOLDER` keeps the posteriors, for `benchmarks/large_results.py`; `--minutes` ends a fit that takes
longer; `--workers` says with how many threads.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import svidag
from svidag.datasets.structural import LinearMechanism, StructuralModel
from svidag.graph import random_dag
from svidag.run.progress import Meter

CELLS = (
    "linear:er:25:1000",
    "linear:er:50:1000",
    "linear:er:100:1000",
    "linear:er:200:1000",
    "linear:er:500:1000",
    "linear:er:1000:1000",
    "linear:sf:200:1000",
    "linear:sf:500:1000",
    "linear:dense:200:1000",
    "linear:chain:200:1000",
    "nonlinear:er:100:1000",
    "nonlinear:er:200:1000",
    "linear:er:1000:100",
    "linear:er:100:1000000",
    "default-linear:er:100:1000",
    "default-nonlinear:er:100:1000",
    "default-linear:er:500:1000",
)
ARROWS = 1.6  # a variable
GROUP, GROUP_PARENTS = 10, 3  # variables of a dense group, and parents of each inside it
DRAWS = 50
RESULTS = Path(__file__).parents[1] / "results" / "large"


class Stages(Meter):
    """Remembers how long each stage took, how much CPU, and how many steps it made."""

    def __init__(self) -> None:
        self.spent = defaultdict(lambda: [0.0, 0.0, 0])
        self.lines = 0

    def open(self, title, done, total):
        """Begin a stage."""
        self._title, self._from, self._to = title.split(",")[0], done, done
        self._began = time.perf_counter(), time.process_time()

    def update(self, done, metrics):
        """Note how far it is."""
        self._to, self.lines = done, self.lines + 1

    def close(self):
        """Add what the stage took."""
        spent = self.spent[self._title]
        spent[0] += time.perf_counter() - self._began[0]
        spent[1] += time.process_time() - self._began[1]
        spent[2] += self._to - self._from


def draw(kind: str, graph: str, m: int, rows: int, seed: str):
    """A table and its true graph."""
    if graph in ("er", "sf"):
        example = svidag.datasets.synthetic(m, round(ARROWS * m), rows, kind, graph, seed=seed)
        return example.data, example.truth
    number = svidag.datasets.content_seed(seed)
    rng = np.random.default_rng(number)
    place = rng.permutation(m)
    A = np.zeros((m, m), dtype=np.uint8)
    if graph == "chain":
        A[place[:-1], place[1:]] = 1
    elif graph == "dense":
        groups = max(1, m // 10 // GROUP)
        for g in range(groups):
            members = place[g * GROUP : (g + 1) * GROUP]
            for k in range(1, GROUP):
                causes = rng.choice(k, min(k, GROUP_PARENTS), replace=False)
                A[members[causes], members[k]] = 1
        rest = place[groups * GROUP :]
        A[np.ix_(rest, rest)] = random_dag(len(rest), round(ARROWS * len(rest)), "er", seed=number)
        # Every group has effects in the rest, and so is a part of the graph and not one apart.
        A[place[: groups * GROUP], rng.choice(rest, groups * GROUP)] = 1
    else:
        raise SystemExit(f"no graph {graph!r}: er, sf, chain, dense")
    names = tuple(f"x{j + 1}" for j in range(m))
    sizes = [rng.uniform(0.3, 0.7, k) * rng.choice((-1, 1), k) for k in A.sum(axis=0)]
    mechanisms = tuple(map(LinearMechanism, sizes))
    model = StructuralModel(names, A, mechanisms, np.ones(m))
    return model.simulate(rows, seed=number), svidag.datasets.example.labelled(A, names)


def measure(cell: str, workers: int | None, save: str | None) -> dict[str, object]:
    """Fit one fresh table; figures as a dictionary."""
    call, graph, m, rows = cell.split(":")
    kind = call.removeprefix("default-")
    data, truth = draw(kind, graph, int(m), int(rows), f"benchmark|large|{kind}:{graph}:{m}:{rows}")
    asked = {} if call.startswith("default-") else {"mechanism": kind}
    stages = Stages()
    began, cpu = time.perf_counter(), time.process_time()
    posterior = svidag.fit(data, **asked, workers=workers, progress=stages)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    level = "cpdag" if kind == "linear" else "dag"
    scores = svidag.metrics.evaluate(posterior.sample(DRAWS), truth, level)
    facts = posterior.diagnostics
    sweeps = stages.spent.get("moving orders")
    if save is not None:
        posterior.save(Path(save) / f"{cell.replace(':', '-')}.svidag")
    return {
        "cell": cell,
        "cores": len(os.sched_getaffinity(0)),
        "seconds": round(seconds, 1),
        "cpu": round(cpu, 1),
        "gb": round(gigabytes, 2),
        "e_shd_per_variable": round(scores["e_shd"] / int(m), 4),
        "status": facts.status.value,
        "mechanism": facts.mechanism,
        "halves_differ": _rounded(getattr(facts.details, "half_disagreement", None)),
        "cpu_ms_per_sweep": sweeps and sweeps[2] and round(1e3 * sweeps[1] / sweeps[2], 2),
        "stages": {
            title: [round(each, 1) for each in spent[:2]] + [spent[2]]
            for title, spent in stages.spent.items()
        },
        "reports": stages.lines,
        "verdict": [reason.text for reason in facts.reasons],
    }


def _rounded(value):
    return None if value is None else round(float(value), 3)


def main() -> None:
    """One line a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=list(CELLS))
    parser.add_argument("--write", action="store_true", help="add rows to results/large")
    parser.add_argument("--save", help="the folder for posteriors")
    parser.add_argument("--minutes", type=float, default=40.0, help="of a cell at most")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--one", action="store_true", help="fit here and print the row alone")
    asked = parser.parse_args()
    if asked.one:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(asked.cells[0], asked.workers, asked.save)))
        return
    print("| cell | seconds | CPU | GB | E-SHD/m | status | halves differ by | longest stages |")
    print("|---|---|---|---|---|---|---|---|")
    for cell in asked.cells:
        command = [sys.executable, __file__, "--one", cell]
        command += ["--save", asked.save] if asked.save else []
        command += ["--workers", str(asked.workers)] if asked.workers else []
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, timeout=60 * asked.minutes
            )
        except subprocess.TimeoutExpired:
            row = {"cell": cell, "status": f"not finished after {asked.minutes:g} minutes"}
        else:
            failed = {"cell": cell, "status": f"ended with code {done.returncode}"}
            row = failed if done.returncode else json.loads(done.stdout.splitlines()[-1])
        print(line(row), flush=True)
        if asked.write:
            RESULTS.mkdir(parents=True, exist_ok=True)
            with (RESULTS / "rows.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def line(row: dict) -> str:
    """A row as a line of a table."""
    names = ("cell", "seconds", "cpu", "gb", "e_shd_per_variable", "status", "halves_differ")
    stages = sorted(row.get("stages", {}).items(), key=lambda item: -item[1][1])[:4]
    longest = ", ".join(f"{title} {cpu:.0f} s" for title, (_, cpu, _) in stages)
    return f"| {' | '.join(str(row.get(name, '')) for name in names)} | {longest} |"


if __name__ == "__main__":
    main()
