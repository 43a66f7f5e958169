"""Counts of a soak test, as JSON and as a table."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import svidag
from soak.cases import DONE, FAILURES, REFUSED, Outcome

GOALS = {"inputs": 100_000, "fits": 2_000, "faults": 500}
RESULTS = Path(__file__).parents[2] / "results" / "reliability"


class Figures:
    """What came of all cases so far."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.failures: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Count one case: by what it was, and by what came of it."""
        group, kind, *rest = outcome.case.split("/")
        key = f"{group}/{kind}"
        self.counts[key].update(outcome.counts)
        if group == "fault" and outcome.counts:
            self.counts[f"method/{rest[0]}"]["faults"] += 1
        self.seconds[key] += outcome.seconds
        if outcome.failed:
            self.failures.append(outcome)

    def total(self, name: str) -> int:
        """How many inputs, fits or faults, or how many with one verdict."""
        parts = (c[name] for key, c in self.counts.items() if not key.startswith("method/"))
        return sum(parts)

    def as_json(self, minutes: float) -> dict[str, Any]:
        """All counts as plain data."""
        names = [*GOALS, DONE, REFUSED, *FAILURES]
        return {
            "svidag": svidag.__version__,
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": self.seed,
            "minutes": round(minutes, 1),
            "goals": GOALS,
            "totals": {name: self.total(name) for name in names},
            "parts": {key: dict(counts) for key, counts in sorted(self.counts.items())},
            "failures": [
                {"case": o.case, "what": o.verdict, "why": o.detail} for o in self.failures
            ],
        }


def table(figures: dict[str, Any]) -> str:
    """The counts as Markdown."""
    totals, goals = figures["totals"], figures["goals"]
    lines = [
        f"Seed {figures['seed']}, {figures['minutes']} minutes on "
        f"{figures['cores']} core{'s' if figures['cores'] > 1 else ''}, {figures['date']}.",
        "",
        "| | count | goal |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {totals[name]:,} | {goal:,} |" for name, goal in goals.items()]
    lines += [f"| {name}s | {totals[name]} | 0 |" for name in FAILURES]
    lines += [
        "",
        "| kind | cases | right result | clear refusal | failures |",
        "|---|---|---|---|---|",
    ]
    for key, counts in figures["parts"].items():
        cases = sum(counts.get(name, 0) for name in GOALS)
        if key.startswith("method/") or not cases:
            continue
        failed = sum(counts.get(name, 0) for name in FAILURES)
        row = (key.replace("/", ": "), cases, counts.get(DONE, 0), counts.get(REFUSED, 0), failed)
        lines.append("| " + " | ".join(map(str, row)) + " |")
    struck = [
        f"{key.partition('/')[2]} {counts['faults']}"
        for key, counts in figures["parts"].items()
        if key.startswith("method/")
    ]
    if struck:
        lines += ["", f"Fits that faults hit, by method: {', '.join(struck)}."]
    if figures["failures"]:
        lines += ["", "Failures:", ""]
        lines += [f"- `{one['case']}`, {one['what']}: {one['why']}" for one in figures["failures"]]
    return "\n".join(lines) + "\n"


def write(figures: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    (folder / "soak.json").write_text(text, encoding="utf-8")
    (folder / "soak.md").write_text(table(figures), encoding="utf-8")
