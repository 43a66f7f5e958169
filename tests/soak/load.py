"""Ten fits at once on one machine: none fails, and together they stay within the stated memory.

`python -m soak.load --write` starts ten processes of `svidag fit` at the same moment and watches
their resident memory and their threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

import svidag
from soak.figures import RESULTS

STATED_GB = 1.0
"""What the documentation states for one fit of a table of this size."""
EVERY = 0.2
"""Seconds between two looks."""


def run(fits: int, m: int, rows: int, folder: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Fit so many tables at the same time, each in a process; returns the figures."""
    commands = []
    for seed in range(fits):
        example = svidag.datasets.synthetic(m=m, edges=round(1.6 * m), n=rows, seed=seed)
        file = folder / f"table{seed}.csv"
        example.data.to_csv(file, index=False)
        words = ["fit", str(file), "-o", str(folder / f"run{seed}"), "--quiet", *more]
        commands.append([sys.executable, "-c", "from svidag.cli import app; app()", *words])
    began = time.monotonic()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, **quiet) for command in commands]
    peak_each, peak_all, threads = [0.0] * fits, 0.0, 0
    while any(process.poll() is None for process in processes):
        sizes = [_family(process.pid) for process in processes]
        peak_each = [max(old, size) for old, (size, _) in zip(peak_each, sizes, strict=True)]
        peak_all = max(peak_all, sum(size for size, _ in sizes))
        threads = max([threads, *(busy for _, busy in sizes)])
        time.sleep(EVERY)
    failed = [
        (process.stderr.read() if process.stderr else b"").decode(errors="replace")[-300:]
        for process in processes
        if process.returncode
    ]
    whole = sum((folder / f"run{seed}" / "posterior.svidag").exists() for seed in range(fits))
    return {
        "fits": fits,
        "variables": m,
        "rows": rows,
        "cores": len(os.sched_getaffinity(0)),
        "seconds": round(time.monotonic() - began, 1),
        "results": whole,
        "failed": failed,
        "stated_gb_of_a_fit": STATED_GB,
        "largest_gb_of_a_fit": round(max(peak_each), 3),
        "largest_gb_together": round(peak_all, 3),
        "most_threads_of_a_fit": threads,
    }


def _family(pid: int) -> tuple[float, int]:
    """Resident memory in GB and threads of a process and those that it started."""
    size, threads = 0, 0
    try:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            size += each.memory_info().rss
            threads = max(threads, each.num_threads())
    except psutil.Error:  # it has just ended
        return 0.0, 0
    return size / 2**30, threads


def main() -> int:
    """Run, print and perhaps write the figures; 1 if a fit failed or took too much."""
    parser = argparse.ArgumentParser(prog="soak.load", description=__doc__)
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--variables", type=int, default=15)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="the figures to results/reliability")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        found = run(asked.fits, asked.variables, asked.rows, Path(name))
    text = json.dumps(found, indent=1) + "\n"
    sys.stdout.write(text)
    if asked.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "load.json").write_text(text, encoding="utf-8")
    fine = found["results"] == asked.fits and not found["failed"]
    return 0 if fine and found["largest_gb_of_a_fit"] <= STATED_GB else 1


if __name__ == "__main__":
    sys.exit(main())
