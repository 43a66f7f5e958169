"""`python -m soak`: run cases for some minutes, or one case by its name."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="soak", description="Random inputs, fits and faults.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers")
    parser.add_argument("--case", help="only this one, such as fault/kill/order-mcmc/17")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds until it is a hang")
    parser.add_argument("--write", action="store_true", help="the figures to results/reliability")
    return parser


def main() -> int:
    """Run the cases and say what came of them; 1 if anything failed."""
    asked = _parser().parse_args()
    # One core: then nothing in this process starts threads, which a fork would not have.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        # Compiled programs of JAX are shared by the processes; set before it is imported.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
        from soak import figures
        from soak.driver import Driver
        from soak.warming import warm

        warm()
        driver = Driver(asked.seed, folder, asked.patience, show=True)
        if asked.case is not None:
            driver.repeat(asked.case)
        else:
            driver.run(asked.minutes)
        found = driver.figures.as_json(driver.minutes)
        sys.stdout.write(figures.table(found))
        if asked.write:
            figures.write(found)
        return 1 if driver.figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
