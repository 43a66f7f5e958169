"""Curves over the sample size, as the paper draws them, and reliability diagrams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svidag.bench.cell import measure
from svidag.bench.measures import forecasts, pooled
from svidag.bench.rows import Row
from svidag.bench.study import Study
from svidag.bench.summary import Group, Line, groups
from svidag.bench.tables import GOAL, metric_format, tables
from svidag.metrics import expected_calibration_error, reliability

METRICS = ("brier", "e_shd", "e_f1", "auroc")
STYLE: Any = {
    "font.size": 9,
    "svg.hashsalt": "svidag",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def plot(study: Study, rows: Mapping[str, Row], published: Path, out: Path) -> list[Path]:
    """Draw what the study has rows for, each as PNG and SVG; give the files."""
    drawn = [*_curves(study, rows, published), *_reliabilities(study, rows)]
    return [path for name, picture in drawn for path in _save(picture, out, name)]


def _save(picture: Figure, out: Path, name: str) -> Iterator[Path]:
    out.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        path = out / f"{name}.{suffix}"
        with rc_context(STYLE):
            picture.savefig(path, dpi=150, metadata=metadata)
        yield path


def _curves(study: Study, rows: Mapping[str, Row], published: Path) -> Iterator[tuple[str, Figure]]:
    """For each data set and level, one panel a metric over the size of the data."""
    for table in tables(study, rows, published):
        if table.name != "scores":
            continue
        panels: dict[tuple[str, str, str], list[Line]] = {}
        for line in table.lines:
            if line.get(study.show.x) is not None:
                key = line["data"], line["level"], line["convention"]
                panels.setdefault(key, []).append(line)
        for (data, level, convention), lines in panels.items():
            if len({line[study.show.x] for line in lines}) > 1:
                title = f"{data}, {level.upper()} level, {convention} scoring"
                yield f"{data}-{level}-{convention}", _panels(lines, study.show.x, title)


def _panels(lines: list[Line], x: str, title: str) -> Figure:
    with rc_context(STYLE):
        picture = Figure(figsize=(11, 2.9), layout="constrained")
        picture.suptitle(f"{title}; dashed: published")
        axes = picture.subplots(1, len(METRICS))
        for ax, metric in zip(axes, METRICS, strict=True):
            _draw_curves(ax, lines, x, metric)
        handles, labels = axes[0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=8, frameon=False)
    return picture


def _draw_curves(ax: Axes, lines: list[Line], x: str, metric: str) -> None:
    curves: dict[str, list[Line]] = {}
    for line in lines:
        if line.get(metric) is not None and line["method"] != GOAL:
            curves.setdefault(_label(line), []).append(line)
    for label, points in curves.items():
        points = sorted(points, key=lambda line: line[x])
        theirs = points[0].get("published", False)
        ax.errorbar(
            [line[x] for line in points],
            [line[metric] for line in points],
            yerr=[line.get(f"{metric}_se") or 0.0 for line in points],
            label=label,
            marker="o",
            markersize=3,
            capsize=2,
            linewidth=0.8 if theirs else 1.6,
            linestyle="--" if theirs else "-",
        )
    how = metric_format(metric)
    ax.set(title=how.heading + (" ↑" if how.better > 0 else " ↓"), xlabel=x, xscale="log")


def _label(line: Line) -> str:
    if line.get("published"):
        return line["method"].split(",")[0]
    return " ".join(filter(None, [line["method"], line.get("prior", "")]))


def _reliabilities(study: Study, rows: Mapping[str, Row]) -> Iterator[tuple[str, Figure]]:
    found = [group for group in groups(study, rows) if group.rows and _forecasting(group)]
    if not found:
        return
    with rc_context(STYLE):
        columns = min(4, len(found))
        height = -(-len(found) // columns)
        picture = Figure(figsize=(2.8 * columns, 2.9 * height), layout="constrained")
        axes = np.atleast_1d(picture.subplots(height, columns, squeeze=False)).ravel()
        for ax, group in zip(axes, found, strict=False):
            _draw_reliability(ax, group)
        for ax in axes[len(found) :]:
            ax.set_axis_off()
    yield "reliability", picture


def _forecasting(group: Group) -> list[str]:
    """The measures of a setting whose rows hold the probability of every arrow."""
    return [name for name in group.cells[0].measures if measure(name).score is forecasts]


def _draw_reliability(ax: Axes, group: Group) -> None:
    name, *_ = _forecasting(group)
    p, y = pooled([row["metrics"][name] for row in group.rows])
    bins = reliability(p, y)
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    # The error bar is of the bin's frequency, were its forecasts right.
    spread = np.sqrt(bins.predicted * (1 - bins.predicted) / np.maximum(bins.count, 1))
    ax.errorbar(bins.predicted, bins.frequency, yerr=1.96 * spread, marker="o", markersize=3)
    error = expected_calibration_error(p, y)
    title = f"{group.labels['data']} / {group.labels['method']}\nerror {error:.4f}, {len(p)} arrows"
    ax.set(title=title, xlabel="probability", ylabel="frequency", xlim=(0, 1), ylim=(0, 1))
