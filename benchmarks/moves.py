"""What moves orders best: `python benchmarks/moves.py [--seeds 3]`.

Tables are grown once for each problem, as the default fit does it; then chains run on them until
their halves agree, by relocations, by swaps of neighbours, or by both in turns (half of the sweeps
each), from the orders where searches ended and from random ones. Every kind of move has its turn
with every seed. Shown are medians over seeds: sweeps of a chain after burn-in (the budget if halves
never agreed), the last disagreement of the halves, CPU seconds, and effective orders by CPU second.
"""

import argparse
import contextlib
import statistics
import time
from typing import Any
from unittest.mock import patch

import numpy as np

import svidag
from svidag.methods import order_sampling
from svidag.run.convergence import effective_size, half_disagreement
from svidag.samplers import relocation as relocate
from svidag.samplers.order_chains import Schedule, run_chains
from svidag.search.parent_set_tables import chain_starts

PROBLEMS = {
    "m = 25, 40 arrows": (25, 40),
    "m = 50, 80 arrows": (50, 80),
}
MOVES = ("relocation", "swap", "both")
SWEEP = relocate.sweep
BUDGET = 1000  # orders kept from each chain at most, ten sweeps each: that of a fit


class _ChainsReachedError(Exception):
    """The fit came to its chains."""


def tables(m: int, edges: int) -> tuple[Any, Any, Schedule, np.ndarray]:
    """Tables, prior, schedule and starts of a default fit, at the moment it runs its chains."""
    data = svidag.datasets.synthetic(m=m, edges=edges, n=1000, seed=f"moves|{m}").data
    found: list[Any] = []

    def capture(sampling: Any, made: Any, _: Any) -> None:
        starts = chain_starts(made.starts, sampling.schedule.chains)
        found.extend([made.scores, sampling.problem.prior, sampling.schedule, starts])
        raise _ChainsReachedError

    here = patch.object(order_sampling, "_run_chains", capture)
    with here, contextlib.suppress(_ChainsReachedError):
        method = svidag.methods.OrderMCMC(exact=False)
        svidag.fit(data, method=method, mechanism="linear", progress=False)
    return tuple(found)


def _sweep_both(kind: int, replicas: Any, tables: Any, powers: Any, uniforms: np.ndarray,
                swaps: np.ndarray, *counts: Any) -> None:  # fmt: skip
    """Relocations in the first half of the sweeps, swaps of neighbours in the second."""
    half = len(uniforms) // 2
    for move, part in ((relocate.RELOCATION, slice(half)), (relocate.SWAP, slice(half, None))):
        SWEEP(move, replicas, tables, powers, uniforms[part], swaps[part], *counts)


def measure(problem: tuple, moves: str, starts: np.ndarray | None, seed: int) -> list[float]:
    """Sweeps, disagreement of halves, CPU seconds, effective orders a CPU second."""
    made, prior, schedule, _ = problem
    own = "relocation" if moves == "both" else moves
    sweep = _sweep_both if moves == "both" else SWEEP
    plan = Schedule(
        levels=schedule.levels, flattest=schedule.flattest, burn_in=schedule.burn_in,
        orders=BUDGET, check_every=25, moves=own,
    )  # fmt: skip
    began = time.process_time()
    with patch.object(relocate, "sweep", sweep):
        chains = run_chains(made, prior, plan, seed=seed, starts=starts)
    spent = time.process_time() - began
    worth = effective_size(chains.log_evidence)
    return [chains.sweeps, half_disagreement(chains.edges), spent, worth / spent]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose name has this text")
    asked = parser.parse_args()
    print("| problem | start | moves | sweeps | halves apart | CPU s | effective a CPU s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, (m, edges) in PROBLEMS.items():
        if asked.only not in name:
            continue
        problem = tables(m, edges)
        for start, orders in (("searches", problem[3]), ("random", None)):
            found: dict[str, list[list[float]]] = {moves: [] for moves in MOVES}
            for seed in range(asked.seeds):
                for moves in MOVES:
                    found[moves].append(measure(problem, moves, orders, seed))
            for moves, runs in found.items():
                medians = [statistics.median(run[k] for run in runs) for k in range(4)]
                print(
                    f"| {name} | {start} | {moves} | {medians[0]:.0f} | {medians[1]:.3f} "
                    f"| {medians[2]:.2f} | {medians[3]:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
