"""Summaries as text: Markdown, LaTeX or CSV, with published results beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from svidag.bench import published
from svidag.bench.cell import PARTS
from svidag.bench.rows import Row
from svidag.bench.study import Study
from svidag.bench.summary import Line, costs, summarise

GOAL = "goal"
"""The method name under which goals, set before the study was run, are listed."""

MEASURED = ("level", "convention", "truth")
"""Dimensions that come from a measure rather than from the study."""


@dataclass(frozen=True)
class MetricFormat:
    """How a metric is shown: heading, digits, and whether more (1) or less (−1) is better.

    `scale` multiplies what is shown.
    """

    heading: str
    digits: int
    better: int = 0
    scale: float = 1.0


METRIC_FORMATS: Mapping[str, MetricFormat] = MappingProxyType(
    {
        "brier": MetricFormat("Brier", 4, -1),
        "e_shd": MetricFormat("E-SHD", 2, -1),
        "e_f1": MetricFormat("E-F1", 3, 1),
        "auroc": MetricFormat("AUROC", 4, 1),
        "mec_coverage": MetricFormat("MEC coverage", 3, 1),
        "mec_mass": MetricFormat("MEC mass", 3, 1),
        "mec_size": MetricFormat("MEC size", 1),
        "forward": MetricFormat("→, %", 1, scale=100.0),
        "backward": MetricFormat("←, %", 1, scale=100.0),
        "none": MetricFormat("no arrow, %", 1, scale=100.0),
        "mean_error": MetricFormat("mean error", 4, -1),
        "worst_error": MetricFormat("worst error", 3, -1),
        "draws_error": MetricFormat("worst error of draws", 3, -1),
        "nats_from_truth": MetricFormat("log posterior of draws minus truth", 1),
        "ece": MetricFormat("calibration error", 4, -1),
        "band_low": MetricFormat("band, from", 4),
        "band_high": MetricFormat("band, to", 4),
        "verdict": MetricFormat("band", 0),
        "mean_forecast": MetricFormat("mean forecast", 3),
        "frequency": MetricFormat("frequency", 3),
        "true_arrows": MetricFormat("true arrows", 0),
        "sure": MetricFormat("sure arrows", 0),
        "sure_wrong": MetricFormat("of them wrong", 0, -1),
        "wrong_share": MetricFormat("wrong, %", 1, -1, scale=100.0),
        "absolute_error": MetricFormat("Σ abs(p − y) per graph", 2, -1),
        "seconds": MetricFormat("fit, s", 1, -1),
        "compile_seconds": MetricFormat("of it compiling, s", 1, -1),
        "total_seconds": MetricFormat("whole process, s", 1),
        "peak_gb": MetricFormat("peak memory, GB", 2, -1),
    }
)

SHOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "scores": ("brier", "e_shd", "e_f1", "auroc", "seconds"),
        "truths": ("brier", "e_shd", "e_f1", "auroc"),
        "mec": ("mec_coverage", "mec_mass", "mec_size", "seconds"),
        "shares": ("forward", "backward", "none", "seconds"),
        "exact": ("mean_error", "worst_error", "draws_error", "seconds"),
        "truth": ("nats_from_truth", "seconds"),
        "forecasts": ("ece", "band_low", "band_high", "verdict", "brier", "seconds"),
        "sureness": (
            "true_arrows",
            "sure",
            "sure_wrong",
            "wrong_share",
            "absolute_error",
            "ece",
            "brier",
            "seconds",
        ),
        "costs": ("seconds", "compile_seconds", "total_seconds", "peak_gb"),
    }
)
"""The metrics shown for each measure; a measure that is not listed shows all that it has."""

MACHINE_DEPENDENT = SHOWN["costs"]
"""Metrics that depend on the machine: published ones are shown, but not compared with ours."""


@dataclass(frozen=True, eq=False)
class StudyTable:
    """One table: its name, its lines, and which entries are dimensions and which are metrics."""

    name: str
    lines: list[Line]
    dimensions: tuple[str, ...]
    metrics: tuple[str, ...]

    def settings(self) -> list[list[Line]]:
        """The lines that compete: same data, size, level, convention and truth.

        A published line that leaves one of these open competes wherever the others agree.
        """
        places = [name for name in self.dimensions if name not in ("method", "prior")]
        found: dict[tuple, list[Line]] = {}
        for line in self.lines:
            if not line.get("published"):
                found.setdefault(_key(line, places), []).append(line)
        theirs = [line for line in self.lines if line.get("published")]
        for key, setting in found.items():
            for line in theirs:
                stated = zip(_key(line, places), key, strict=True)
                if all(value is None or value == ours for value, ours in stated):
                    setting.append(line)
        return list(found.values())

    def competing(self, setting: list[Line], name: str) -> list[Line]:
        """The lines of a setting that have a metric which can be compared with ours."""
        return [
            line
            for line in setting
            if line.get(name) is not None
            and (
                name not in MACHINE_DEPENDENT or not line.get("published") or line["method"] == GOAL
            )
        ]


def tables(study: Study, rows: Mapping[str, Row], folder: Path) -> Iterator[StudyTable]:
    """Every table of a study that has rows: one for each measure, and one of costs.

    `folder` holds the published metrics.
    """
    theirs = published.read(folder, study.show.published)
    for name in study.measures:
        ours = [line for line in summarise(study, rows, name) if _wanted(line, study)]
        if ours:
            yield _table(name, _beside(ours, theirs, name), study)
    spent = costs(study, rows)
    if spent:
        yield _table("costs", _beside(spent, theirs, "costs"), study)


def _wanted(line: Line, study: Study) -> bool:
    """Whether the study shows this level and convention."""
    if "level" not in line:
        return True
    level = study.show.levels.get(line["data"], line["level"])
    return line["level"] == level and line["convention"] in study.show.conventions


def _beside(ours: list[Line], theirs: list[Line], name: str) -> list[Line]:
    """Ours, each setting followed by the published lines about it."""
    theirs = [line for line in theirs if line.get("measure", "scores") == name]
    places = [k for k in ("data", "n", *MEASURED, "prior") if any(k in line for line in theirs)]
    groups: dict[tuple, list[Line]] = {}
    for line in ours:
        groups.setdefault(_key(line, places), []).append(line)
    for line in theirs:
        if _key(line, places) in groups:
            groups[_key(line, places)].append(line)
    return [line for group in groups.values() for line in group]


def _key(line: Line, places: Sequence[str]) -> tuple:
    return tuple(line.get(name) for name in places)


def _table(name: str, lines: list[Line], study: Study) -> StudyTable:
    known = SHOWN.get(name, ())
    present = dict.fromkeys(k for line in lines for k, v in line.items() if v is not None)
    metrics = [metric for metric in known if metric in present]
    if not metrics:
        metrics = [k for k in present if f"{k}_se" in present]
    options = dict.fromkeys(label for cell in study.cells for label in cell.labels)
    options |= {study.show.x: None}
    places = ["data", *(k for k in options if k not in PARTS), *MEASURED, "method", "prior"]
    varied = [k for k in places if len({line.get(k) or None for line in lines}) > 1]
    dimensions = [k for k in places if k in varied or k in ("data", "method")]
    return StudyTable(name, lines, tuple(dimensions), tuple(metrics))


def markdown(table: StudyTable) -> str:
    """A Markdown table; the best of each setting in bold."""
    head, body = _cells(table, lambda text: f"**{text}**", " ± ")
    lines = ["| " + " | ".join(line) + " |" for line in [head, *body]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def latex(table: StudyTable) -> str:
    """A LaTeX tabular with booktabs rules."""
    head, body = _cells(table, lambda text: rf"\textbf{{{text}}}", r" $\pm$ ")
    alignment = "l" * len(table.dimensions) + "r" * (len(head) - len(table.dimensions))
    lines = [" & ".join(map(_escaped, line)) + r" \\" for line in [head, *body]]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def csv(table: StudyTable) -> str:
    """Everything that is known, one column for each metric and its standard error."""
    return pd.DataFrame(table.lines).to_csv(index=False)


FORMATS: Mapping[str, Callable[[StudyTable], str]] = MappingProxyType(
    {"md": markdown, "latex": latex, "csv": csv}
)


def _cells(
    table: StudyTable, bold: Callable[[str], str], between: str
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines as text."""
    best = _best(table)
    head = [
        *table.dimensions,
        *(metric_format(name).heading for name in table.metrics),
        "replicates",
    ]
    body = []
    for line in table.lines:
        cells = [_dimension(line, name) for name in table.dimensions]
        for name in table.metrics:
            text = shown(line, name, between)
            cells.append(bold(text) if (id(line), name) in best else text)
        body.append([*cells, _replicates(line)])
    return head, body


def _dimension(line: Line, name: str) -> str:
    value = line.get(name)
    theirs = name == "method" and line.get("published") and value != GOAL
    return f"{value} (published)" if theirs else "" if value is None else str(value)


def shown(line: Line, name: str, between: str = " ± ") -> str:
    """A metric with its standard error, as text.

    Examples
    --------
    >>> shown({"e_shd": 3.25, "e_shd_se": 0.5}, "e_shd")
    '3.25 ± 0.50'
    """
    value, how = line.get(name), metric_format(name)
    if value is None or isinstance(value, str):
        return value or ""
    error = line.get(f"{name}_se")
    text = f"{how.scale * value:z.{how.digits}f}"
    return text if error is None else f"{text}{between}{how.scale * error:.{how.digits}f}"


def _replicates(line: Line) -> str:
    if "count" not in line:
        return ""
    count, asked = line["count"], line["asked"]
    return str(count) if count == asked else f"{count} of {asked}"


def metric_format(name: str) -> MetricFormat:
    """How a metric is shown."""
    return METRIC_FORMATS.get(name, MetricFormat(name, 3))


def _best(table: StudyTable) -> set[tuple[int, str]]:
    """The lines and metrics that are the best of all their settings; goals take no part."""
    best, beaten = set(), set()
    for setting in table.settings():
        for name in table.metrics:
            better = metric_format(name).better
            lines = [line for line in table.competing(setting, name) if line["method"] != GOAL]
            if better and len(lines) > 1:
                top = max(better * line[name] for line in lines)
                for line in lines:
                    (best if better * line[name] == top else beaten).add((id(line), name))
    return best - beaten


def _escaped(text: str) -> str:
    for sign in "%_&#":
        text = text.replace(sign, rf"\{sign}")
    return text.replace("→", r"$\to$").replace("←", r"$\gets$")
