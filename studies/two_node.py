"""The paper's first experiment: what a prior does to the direction of one arrow.

Two variables with the true arrow x1 → x2, linear (the data cannot tell the direction) and nonlinear
(they can), three priors, 900 rows, 10 000 hard draws. Prints a Markdown table and writes it where
`--output` says; docs/two-node.md has the table and what it shows.

    python studies/two_node.py
    python studies/two_node.py --quick
    python studies/two_node.py --repeats 5
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import svidag

PRIORS = {"incorrect": (0.01, 0.99), "noninformative": (0.5, 0.5), "correct": (0.99, 0.01)}
KINDS = ("linear", "nonlinear")
# The experiment's own settings, the same for all six cases, chosen on other data and seeds; all
# others are those of the preset.
SETTINGS = {
    "iterations": 4000,
    "hidden": (16,),
    "particle_rate": 0.01,
    "edge_gradient": "difference",
}
QUICK = {"iterations": 200}
# Shares of x1 → x2, x1 ← x2 and no arrow in per cent: the paper's text, where it gives one, and
# the file that its author published.
PAPER = {
    ("linear", "incorrect"): "← 84.7",
    ("linear", "noninformative"): "balanced",
    ("linear", "correct"): "→ 83.2",
    ("nonlinear", "incorrect"): "none 86.4",
    ("nonlinear", "noninformative"): "",
    ("nonlinear", "correct"): "→ 95.2",
}
AUTHOR = {
    ("linear", "incorrect"): "0.6 / 63.8 / 35.6",
    ("linear", "noninformative"): "28.0 / 25.5 / 46.5",
    ("linear", "correct"): "64.5 / 0.9 / 34.6",
    ("nonlinear", "incorrect"): "1.2 / 38.3 / 60.5",
    ("nonlinear", "noninformative"): "28.0 / 18.5 / 53.5",
    ("nonlinear", "correct"): "69.2 / 0.6 / 30.2",
}
HEADER = (
    '| data | prior | `preset="paper"` | … with the published gradient | `preset="default"` '
    "| exact | paper's text | author's file |",
    "|---|---|---|---|---|---|---|---|",
)
REPEATED = ("| data | prior | seed | → / ← / none, % |", "|---|---|---|---|")


def shares(posterior: svidag.Posterior) -> str:
    """Per cent of 10 000 draws with x1 → x2, x1 ← x2 and no arrow."""
    draws = posterior.sample(10_000, seed=42)
    counts = draws[:, 0, 1].sum(), draws[:, 1, 0].sum(), (draws.sum(axis=(1, 2)) == 0).sum()
    percent = 100 * np.array(counts, dtype=float) / len(draws)
    return " / ".join(f"{share:.1f}" for share in percent)


def problem(kind: str, prior: str, seed: int | None = None) -> dict:
    """The rows, the paper's by default, and the prior of one case, as arguments of `fit`."""
    forward, backward = PRIORS[prior]
    beliefs = {("x1", "x2"): forward, ("x2", "x1"): backward}
    rows = svidag.datasets.two_node(kind, seed=seed).data.iloc[:900]
    return {"data": rows, "prior": svidag.Prior(beliefs=beliefs)}


def published(case: dict, seed: int, **settings) -> str:
    """Shares of Algorithm 1."""
    return shares(svidag.fit(**case, preset="paper", seed=seed, progress=False, **settings))


def table(settings: dict, seed: int) -> Iterator[str]:
    """The six cases on the paper's data beside the published figures, line by line."""
    yield from HEADER
    plain = {**settings, "edge_gradient": "straight-through"}
    for kind in KINDS:
        for prior in PRIORS:
            case = problem(kind, prior)
            ours = published(case, seed, **settings)
            straight = published(case, seed, **plain)
            default = shares(svidag.fit(**case, mechanism=kind, progress=False))
            exact = shares(svidag.exact.posterior(**case, mechanism=kind))
            known = f"{PAPER[kind, prior]} | {AUTHOR[kind, prior]}"
            yield f"| {kind} | {prior} | {ours} | {straight} | {default} | {exact} | {known} |"


def repeats(settings: dict, count: int, first: int) -> Iterator[str]:
    """The same fits on fresh data, each seed used for data and fit alike."""
    yield from REPEATED
    for kind in KINDS:
        for prior in PRIORS:
            for seed in range(first, first + count):
                ours = published(problem(kind, prior, seed), seed, **settings)
                yield f"| {kind} | {prior} | {seed} | {ours} |"


def main() -> None:
    """Make the table that was asked for, printing each line when it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 iterations: a trial run")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the fits; with --repeats, the first"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="N fresh data sets instead")
    parser.add_argument("--output", type=Path, default=Path("two-node-table.md"))
    arguments = parser.parse_args()
    settings = {**SETTINGS, **QUICK} if arguments.quick else SETTINGS
    made = (
        repeats(settings, arguments.repeats, arguments.seed)
        if arguments.repeats
        else table(settings, arguments.seed)
    )
    started, lines = time.perf_counter(), []
    for line in made:
        print(line, flush=True)
        lines.append(line)
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\n{time.perf_counter() - started:.0f} s; written to {arguments.output}")


if __name__ == "__main__":
    main()
