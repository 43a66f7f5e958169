"""What follows a fit of many variables: `python benchmarks/large_results.py FILE ...`.

A file is a saved posterior, such as `benchmarks/large.py --save` keeps. For each step, in one
process: seconds of CPU, the peak of memory so far, and the size of the file that it wrote.
`--write` adds a row for each file to results/large.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import svidag

ENDINGS = ("csv", "json", "dot", "gml", "graphml", "svg", "png")
RESULTS = Path(__file__).parents[1] / "results" / "large"


def measure(file: Path, folder: Path) -> dict:
    """Seconds, gigabytes and megabytes of every step."""
    steps = {}

    def step(name, work):
        began = time.process_time()
        found = work()
        steps[name] = {
            "cpu": round(time.process_time() - began, 2),
            "gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        }
        if isinstance(found, Path):
            steps[name]["mb"] = round(found.stat().st_size / 1e6, 3)
        print(f"  {name}: {steps[name]}", file=sys.stderr, flush=True)
        return found

    posterior = step("load", lambda: svidag.load(file))
    variables = len(posterior.names)
    step("save", lambda: posterior.save(folder / "again.svidag"))
    step("edge_probabilities", posterior.edge_probabilities)
    step("sample(100)", lambda: posterior.sample(100))
    step("decided", posterior.decided)
    step("consensus", posterior.consensus)
    step("ancestor_probabilities", posterior.ancestor_probabilities)
    step("cpdag", posterior.cpdag)
    step("top_graphs", posterior.top_graphs)
    step("markov_blanket", lambda: posterior.markov_blanket(posterior.names[0]))
    step("summary", posterior.summary)
    step("plot", posterior.plot)
    for ending in ENDINGS:
        step(ending, lambda to=folder / f"graph.{ending}": svidag.export.write(posterior, to))
    step("report", lambda: posterior.report(folder / "report.html"))
    return {"file": file.stem, "variables": variables, "steps": steps}


def main() -> None:
    """One table a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="add rows to results/large")
    parser.add_argument("--keep", type=Path, help="the folder for what is written")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for file in asked.files:
        with tempfile.TemporaryDirectory() as name:
            row = measure(file, asked.keep or Path(name))
        print(f"{row['file']}: {row['variables']} variables")
        for name, found in row["steps"].items():
            size = f"{found['mb']:8.2f} MB" if "mb" in found else ""
            print(f"  {name:24} {found['cpu']:8.2f} s {found['gb']:6.2f} GB {size}")
        if asked.write:
            RESULTS.mkdir(parents=True, exist_ok=True)
            with (RESULTS / "results.jsonl").open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
