"""The graph with its probabilities as an image: SVG drawn here, PNG by matplotlib if it is there.

The same layers, colours and signs as in the report: width and colour are probability, a solid arrow
is decided, a dashed one favoured, a dashed line has no decided direction.
"""

from __future__ import annotations

import io
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from svidag.atomic import replacing
from svidag.posterior import Posterior
from svidag.posterior.decisions import Decisions, Direction, Pair, decisions
from svidag.posterior.text import counted, probability
from svidag.report.curves import Curve, Point, Route, routes
from svidag.report.layout import Layout, layered

FONT = 13.0
CHARACTER = 7.4
"""Width of a character of a name."""
LONGEST = 22
"""Characters of a name that are shown."""
HEIGHT, GAP, ROW, MARGIN = 34.0, 26.0, 96.0, 30.0
LEGEND = 74.0
"""Room for the legend below the graph."""
NARROWEST = 480.0
NUMBERED = 60
"""Connections up to which each has its probability beside it."""
HEAT, FAINT = (28, 55, 165), (195, 203, 224)
WARM, FAINT_WARM = (163, 74, 0), (230, 205, 181)
INK, MUTED, PAPER = "#151a2d", "#545c76", "#ffffff"
FORMATS = ("png", "svg")
"""Image formats."""


@dataclass(frozen=True)
class Line:
    """A curve, dashed or not, with a head or without."""

    curve: Curve
    width: float
    colour: str
    dashed: bool
    hollow: bool


@dataclass(frozen=True)
class Box:
    """A variable."""

    x: float
    y: float
    width: float
    text: str
    title: str
    alone: bool


@dataclass(frozen=True)
class Label:
    """A word at a place, from its middle or its left end on."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    middle: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawing of a posterior; a notebook shows it.

    Attributes
    ----------
    size
        Width and height.
    lines, boxes, labels
        What is drawn, from below to above.
    threshold
        What is less probable is not drawn.
    """

    size: tuple[float, float]
    lines: tuple[Line, ...]
    boxes: tuple[Box, ...]
    labels: tuple[Label, ...]
    threshold: float

    @property
    def svg(self) -> str:
        """The drawing as one SVG element."""
        width, height = self.size
        title = f"Causal graph of {counted(len(self.boxes), 'variable')}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="system-ui, '
            f'sans-serif"><title>{title}</title>'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>'
            + "".join([*map(_svg_line, self.lines), *map(_svg_box, self.boxes)])
            + "".join(map(_svg_label, self.labels))
            + "</svg>"
        )

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> Path:  # noqa: A002
        """Write the drawing; the ending, ``.svg`` or ``.png``, says the format unless it is given.

        Raises
        ------
        ImportError
            For PNG without matplotlib: install svidag[plot], or write SVG.
        """
        path = Path(path)
        kind = path.suffix.lstrip(".").lower() if format is None else format
        if kind not in FORMATS:
            raise ValueError(f"a drawing is written as .svg or .png; got {str(path)!r}")
        content = self.svg.encode("utf-8", "replace") if kind == "svg" else _png(self)
        with replacing(path) as file:
            file.write(content)
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        shown = counted(len(self.lines) - 3, "connection")
        return (
            f"Drawing of {counted(len(self.boxes), 'variable')} with {shown} of probability "
            f"{self.threshold:g} or more; .save('graph.svg') writes it"
        )


def draw(
    posterior: Posterior, path: str | os.PathLike[str] | None = None, threshold: float = 0.5
) -> Drawing:
    """Draw a posterior, and write the drawing if a path is given; see `Posterior.plot`."""
    if isinstance(threshold, bool) or not 0 < threshold <= 1:
        raise ValueError(f"threshold must be a probability above 0; got {threshold!r}")
    drawing = draw_decisions(posterior, decisions(posterior), threshold)
    if path is not None:
        drawing.save(path)
    return drawing


def draw_decisions(posterior: Posterior, found: Decisions, threshold: float = 0.5) -> Drawing:
    """Draw the pairs that are at least so probable.

    Examples
    --------
    >>> import svidag
    >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
    >>> draw_decisions(posterior, decisions(posterior))
    Drawing of 2 variables with 1 connection of probability 0.5 or more; .save('graph.svg') ...
    """
    layout = layered(posterior.edge_probabilities().to_numpy())
    cut = [_cut(name) for name in posterior.names]
    width = max(46.0, CHARACTER * max(map(_columns, cut)) + 22)
    drawn = sorted(
        (pair for pair in found.pairs if pair.strength >= threshold), key=lambda p: p.strength
    )
    columns, depth = layout.size
    across = max(NARROWEST, 2 * MARGIN + (columns - 1) * (width + GAP) + width)
    left = (across - (columns - 1) * (width + GAP)) / 2
    down = 2 * MARGIN + (depth - 1) * ROW + HEIGHT

    def place(point: Point) -> Point:
        return left + point[0] * (width + GAP), MARGIN + HEIGHT / 2 + point[1] * ROW

    at = [place(point) for point in layout.places]
    ways = [Route(p.cause, p.effect, _between(layout, p, place), p.sign == "→") for p in drawn]
    curves = routes(ways, at, (width, HEIGHT), [_stroke(pair) for pair in drawn])
    lines = [_line(pair, curve) for pair, curve in zip(drawn, curves, strict=True)]
    touched = {node for pair in drawn for node in (pair.cause, pair.effect)}
    boxes = [
        Box(x, y, width, text, name, alone=k not in touched)
        for k, ((x, y), text, name) in enumerate(zip(at, cut, posterior.names, strict=True))
    ]
    legend = list(_legend_lines(down))
    labels = [*_numbers(drawn, curves, at, width), *_legend_words(down, threshold)]
    return Drawing(
        (across, down + LEGEND), (*lines, *legend), tuple(boxes), tuple(labels), threshold
    )


def _between(layout: Layout, pair: Pair, place) -> tuple[Point, ...]:
    """The way of a pair past the layers between its variables."""
    down = layout.routes.get((pair.cause, pair.effect))
    up = layout.routes.get((pair.effect, pair.cause))
    way = down if down is not None else (up or ())[::-1]
    return tuple(place(point) for point in way)


def _stroke(pair: Pair) -> float:
    return 1 + 3.6 * pair.strength**2


def _line(pair: Pair, curve: Curve) -> Line:
    decided = pair.direction is Direction.DECIDED
    ends = (FAINT, HEAT) if decided else (FAINT_WARM, WARM)
    colour = _mixed(*ends, pair.strength)
    hollow = pair.direction is Direction.FAVOURED
    return Line(curve, _stroke(pair), colour, dashed=not decided, hollow=hollow)


def _mixed(faint: tuple[int, ...], full: tuple[int, ...], p: float) -> str:
    parts = (round(a + (b - a) * min(1.0, p)) for a, b in zip(faint, full, strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _numbers(
    drawn: Sequence[Pair], curves: Sequence[Curve], at: Sequence[Point], width: float
) -> Iterator[Label]:
    """The probability beside each connection, where it hides as little as possible."""
    if len(drawn) > NUMBERED:
        return
    taken = [(x, y, width / 2 + 4, HEIGHT / 2 + 4) for x, y in at]
    for pair, curve in reversed(list(zip(drawn, curves, strict=True))):
        text = probability(pair.strength)
        half = (3.3 * len(text) + 2, 7.0)
        spots = [curve.point(share) for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78)]
        free = [spot for spot in spots if not any(_overlap(spot, half, box) for box in taken)]
        x, y = (free or spots)[0]
        taken.append((x, y, *half))
        yield Label(x, y, text, 11.0, INK)


def _overlap(spot: Point, half: Point, box: tuple[float, float, float, float]) -> bool:
    x, y, wide, high = box
    return abs(spot[0] - x) < half[0] + wide and abs(spot[1] - y) < half[1] + high


_WORDS = ("direction decided", "direction favoured, not decided", "connected, direction open")


def _legend_lines(top: float) -> Iterator[Line]:
    for k, direction in enumerate((Direction.DECIDED, Direction.FAVOURED, Direction.OPEN)):
        y = top + 8 + 18 * k
        curve = Curve.straight((MARGIN, y), (MARGIN + 44, y), head=direction is not Direction.OPEN)
        decided = direction is Direction.DECIDED
        colour = _mixed(FAINT, HEAT, 1.0) if decided else _mixed(FAINT_WARM, WARM, 1.0)
        yield Line(curve, 3.0, colour, not decided, direction is Direction.FAVOURED)


def _legend_words(top: float, threshold: float) -> Iterator[Label]:
    for k, words in enumerate(_WORDS):
        yield Label(MARGIN + 54, top + 8 + 18 * k, words, 11.0, MUTED, middle=False)
    text = f"Probabilities of {threshold:g} or more."
    yield Label(MARGIN + 260, top + 8, text, 11.0, MUTED, middle=False)


def _columns(text: str) -> int:
    """Widths of a character that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _clean(text: str) -> str:
    """Text that may stand in XML."""
    whole = text.encode("utf-8", "replace").decode()
    legal = (c if c >= " " and c not in "\ufffe\uffff" else "\ufffd" for c in whole)
    return escape("".join(legal))


def _svg_line(line: Line) -> str:
    dashes = ' stroke-dasharray="7 5"' if line.dashed else ""
    drawn = (
        f'<path d="{line.curve.svg}" fill="none" stroke="{line.colour}" '
        f'stroke-width="{line.width:.2f}"{dashes}/>'
    )
    if line.curve.head:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.curve.head)
        fill = PAPER if line.hollow else line.colour
        drawn += (
            f'<polygon points="{points}" fill="{fill}" stroke="{line.colour}" '
            'stroke-width="1.8" stroke-linejoin="round"/>'
        )
    return drawn


def _svg_box(box: Box) -> str:
    dashes = ' stroke-dasharray="3 3"' if box.alone else ""
    return (
        f'<g><title>{_clean(box.title)}</title><rect x="{box.x - box.width / 2:.1f}" '
        f'y="{box.y - HEIGHT / 2:.1f}" width="{box.width:.1f}" height="{HEIGHT:.0f}" rx="9" '
        f'fill="{PAPER}" stroke="{MUTED}" stroke-width="1.2"{dashes}/>'
        f'<text x="{box.x:.1f}" y="{box.y + 4.5:.1f}" font-size="{FONT:g}" font-weight="550" '
        f'text-anchor="middle" fill="{MUTED if box.alone else INK}">{_clean(box.text)}</text></g>'
    )


def _svg_label(label: Label) -> str:
    anchor, back = ("middle", _svg_back(label)) if label.middle else ("start", "")
    return (
        f'{back}<text x="{label.x:.1f}" y="{label.y + 4:.1f}" font-size="{label.size:g}" '
        f'text-anchor="{anchor}" fill="{label.colour}">{_clean(label.text)}</text>'
    )


def _svg_back(label: Label) -> str:
    half = 3.3 * len(label.text) + 2
    return (
        f'<rect x="{label.x - half:.1f}" y="{label.y - 7:.1f}" width="{2 * half:.1f}" '
        f'height="14" rx="4" fill="{PAPER}"/>'
    )


def _png(drawing: Drawing) -> bytes:
    try:
        from svidag.report.raster import raster
    except ImportError as error:
        raise ImportError(
            "a PNG needs matplotlib: install svidag with its extra 'plot', svidag[plot], or write "
            "an .svg, which needs nothing"
        ) from error
    stream = io.BytesIO()
    raster(drawing, stream)
    return stream.getvalue()
