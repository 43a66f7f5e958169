"""The paper's first experiment: what a prior does to the direction of one arrow.

Two variables, true arrow x1 → x2, linear (not identifiable) and nonlinear (identifiable), and three
priors; 900 rows, 10 000 hard draws. Prints the table of docs/two-node.md:

    python studies/two_node.py
"""

import argparse

import numpy as np

import svidag

PRIORS = {"incorrect": (0.01, 0.99), "noninformative": (0.5, 0.5), "correct": (0.99, 0.01)}
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


def shares(kind: str, beliefs: tuple[float, float], iterations: int, seed: int) -> np.ndarray:
    """Per cent of draws with x1 → x2, x1 ← x2 and no arrow."""
    rows = svidag.datasets.two_node(kind).data.iloc[:900]
    prior = svidag.Prior(beliefs={("x1", "x2"): beliefs[0], ("x2", "x1"): beliefs[1]})
    posterior = svidag.fit(
        rows, prior=prior, preset="paper", iterations=iterations, seed=seed, progress=False
    )
    draws = posterior.sample(10_000, seed=42)
    forward, backward = draws[:, 0, 1].mean(), draws[:, 1, 0].mean()
    return 100 * np.array([forward, backward, 1 - forward - backward])


def main() -> None:
    """Fit the six cases and print them beside the published figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| data | prior | → / ← / none, % | paper's text, % | author's file, % |")
    print("|---|---|---|---|---|")
    for kind in ("linear", "nonlinear"):
        for name, beliefs in PRIORS.items():
            ours = shares(kind, beliefs, arguments.iterations, arguments.seed)
            text = " / ".join(f"{share:.1f}" for share in ours)
            case = (kind, name)
            print(f"| {kind} | {name} | {text} | {PAPER[case]} | {AUTHOR[case]} |", flush=True)


if __name__ == "__main__":
    main()
