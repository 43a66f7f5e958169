"""Tables and the curve of `docs/large.md`, from the rows in results/large.

`python benchmarks/large_page.py` writes what stands between the marks of that page, and the plot.
Of several rows of a cell the last counts. Exponents are of straight lines through the logarithms,
from 100 variables on.
"""

import json
import math
from pathlib import Path

import numpy as np
from large import CELLS
from matplotlib import rc_context
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "large", ROOT / "docs" / "large.md"
PLOT = ROOT / "docs" / "plots" / "large.svg"
STYLE = {
    "font.size": 9,
    "svg.hashsalt": "svidag",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
CURVE = "linear:er:{}:1000"
FROM = 100  # variables from which exponents are fitted
ASKED = {
    "linear:er:200:1000": 60,
    "linear:er:500:1000": 300,
    "linear:er:1000:1000": 1200,
    "nonlinear:er:100:1000": 120,
    "nonlinear:er:200:1000": 400,
    "linear:er:1000:100": 600,
    "linear:er:100:1000000": 300,
}
"""Seconds on two cores at most: the goals."""


def rows_of(name: str, key: str) -> dict[str, dict]:
    """The last row of each cell."""
    path = RESULTS / name
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row[key]: row for row in map(json.loads, lines)}


def table(head: list[str], lines: list[list]) -> str:
    """Markdown."""
    shown = [["" if value is None else str(value) for value in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *shown])


def fits(rows: dict[str, dict]) -> str:
    """What every fit took."""
    head = [
        "call",
        "graph",
        "variables",
        "rows",
        "CPU, s",
        "goal, s on two cores",
        "GB",
        "E-SHD per variable",
        "how it ended",
        "halves differ by",
    ]
    lines = []
    for cell, row in sorted(rows.items(), key=lambda item: _rank(item[0])):
        call, graph, m, n = cell.split(":")
        lines.append(
            [
                call,
                graph,
                m,
                f"{int(n):,}",
                row.get("cpu"),
                ASKED.get(cell),
                row.get("gb"),
                row.get("e_shd_per_variable"),
                row["status"],
                row.get("halves_differ"),
            ]
        )
    return table(head, lines)


def _rank(cell: str) -> tuple:
    """The order of lines: calls and graphs as they first come in `CELLS`, by rows and variables."""
    call, graph, m, n = cell.split(":")
    calls = list(dict.fromkeys(known.split(":")[0] for known in CELLS))
    graphs = list(dict.fromkeys(known.split(":")[1] for known in CELLS))
    return calls.index(call), graphs.index(graph), n != "1000", int(m)


def points(rows: dict[str, dict], name: str) -> tuple[list[int], list[float]]:
    """A figure of the linear Erdős–Rényi graphs with 1000 rows, by variables."""
    found = {
        int(cell.split(":")[2]): row[name]
        for cell, row in rows.items()
        if cell == CURVE.format(cell.split(":")[2]) and row.get(name)
    }
    return sorted(found), [found[m] for m in sorted(found)]


def exponent(rows: dict[str, dict], name: str) -> float:
    """Of m, from `FROM` variables on."""
    kept = [(m, y) for m, y in zip(*points(rows, name), strict=True) if m >= FROM]
    if len(kept) < 2:
        return math.nan
    return float(np.polyfit(*np.log(np.array(kept, float)).T, 1)[0])


def growth(rows: dict[str, dict]) -> str:
    """The exponents, and the figures behind the curve."""
    names = {
        "cpu": "CPU of the fit, s",
        "cpu_ms_per_sweep": "CPU of a sweep, ms",
        "gb": "memory, GB",
        "e_shd_per_variable": "E-SHD per variable",
    }
    sizes = points(rows, "cpu")[0]
    lines = [[str(m), *(rows[CURVE.format(m)].get(name) for name in names)] for m in sizes] + [
        ["exponent of m", *(f"{exponent(rows, name):.2f}" for name in names)]
    ]
    return table(["variables", *names.values()], lines)


def results(rows: dict[str, dict]) -> str:
    """What follows a fit."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row["steps"]))
    lines = []
    for name in names:
        cells = []
        for row in rows.values():
            step = row["steps"].get(name, {})
            size = f", {step['mb']:.2f} MB" if "mb" in step else ""
            cells.append(f"{step['cpu']:.1f} s{size}" if step else None)
        lines.append([f"`{name}`", *cells])
    peak = [
        "peak of memory",
        *(f"{max(s.get('gb', 0) for s in row['steps'].values())} GB" for row in rows.values()),
    ]
    return table(["step", *(f"{r['variables']} variables" for r in rows.values())], [*lines, peak])


def draw(rows: dict[str, dict]) -> None:
    """Cost and quality against the number of variables."""
    with rc_context(STYLE):
        picture = Figure(figsize=(9, 2.9), layout="constrained")
        panels = picture.subplots(1, 3)
        for ax, (name, title) in zip(
            panels,
            {
                "cpu": "CPU of a fit, seconds",
                "cpu_ms_per_sweep": "CPU of a sweep, ms",
                "e_shd_per_variable": "E-SHD per variable",
            }.items(),
            strict=True,
        ):
            m, y = points(rows, name)
            power = "" if name.startswith("e_") else f": m^{exponent(rows, name):.2f}"
            ax.plot(m, y, marker="o", markersize=3)
            ax.set(title=title + power, xlabel="variables m", xscale="log")
            if name.startswith("e_"):
                ax.set_ylim(0, 1.2 * max(y))
            else:
                ax.set_yscale("log")
        PLOT.parent.mkdir(exist_ok=True)
        picture.savefig(PLOT, metadata={"Date": None})


def page(text: str) -> str:
    """The page with its parts written anew."""
    rows, after = rows_of("rows.jsonl", "cell"), rows_of("results.jsonl", "variables")
    parts = {"fits": fits(rows), "growth": growth(rows), "results": results(after)}
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{part}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """Write the page's parts and the plot."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    draw(rows_of("rows.jsonl", "cell"))


if __name__ == "__main__":
    main()
