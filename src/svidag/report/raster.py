"""A drawing as pixels, by matplotlib; imported only for a PNG."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

if TYPE_CHECKING:
    from svidag.report.drawing import Drawing

DOTS = 192
"""Dots per inch; a unit of the drawing is 1/96 inch, so that a PNG has twice the pixels."""
MOST_PIXELS = 1.6e7
"""Of an image: drawings of many hundred variables have fewer dots per inch, for files of a few
megabytes."""
POINT = 72 / 96
"""A unit of the drawing in points, in which matplotlib measures lines and letters."""


def raster(drawing: Drawing, stream: BytesIO) -> None:
    """Write the drawing as a PNG."""
    from svidag.report.drawing import HEIGHT, INK, MUTED, PAPER

    width, height = drawing.size
    dots = min(DOTS, 96 * (MOST_PIXELS / (width * height)) ** 0.5)
    figure = Figure(figsize=(width / 96, height / 96), dpi=dots, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    for line in drawing.lines:
        points = [line.curve.bends[0][0], *(p for bend in line.curve.bends for p in bend[1:])]
        codes = [Path.MOVETO] + [Path.CURVE4] * (len(points) - 1)
        style = (0, (7 / line.width, 5 / line.width)) if line.dashed else "solid"
        axes.add_patch(
            PathPatch(
                Path(points, codes),
                facecolor="none",
                edgecolor=line.colour,
                linewidth=line.width * POINT,
                linestyle=style,
                capstyle="butt",
            )
        )
        if line.curve.head:
            fill = PAPER if line.hollow else line.colour
            axes.add_patch(
                Polygon(
                    line.curve.head,
                    facecolor=fill,
                    edgecolor=line.colour,
                    linewidth=1.8 * POINT,
                    joinstyle="round",
                )
            )
    for box in drawing.boxes:
        axes.add_patch(
            FancyBboxPatch(
                (box.x - box.width / 2 + 9, box.y - HEIGHT / 2 + 9),
                box.width - 18,
                HEIGHT - 18,
                boxstyle="round,pad=9,rounding_size=9",
                facecolor=PAPER,
                edgecolor=MUTED,
                linewidth=1.2 * POINT,
                linestyle="dotted" if box.alone else "solid",
            )
        )
        colour = MUTED if box.alone else INK
        axes.text(
            box.x, box.y, box.text, size=12 * POINT, color=colour, parse_math=False,
            ha="center", va="center_baseline",
        )  # fmt: skip
    for label in drawing.labels:
        back = {"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": "none"}
        axes.text(
            label.x, label.y, label.text, size=label.size * POINT, color=label.colour,
            parse_math=False, ha="center" if label.middle else "left", va="center_baseline",
            bbox=back if label.middle else None,
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks is a box
        figure.savefig(stream, format="png", dpi=dots, facecolor=PAPER)
