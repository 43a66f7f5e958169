"""Curves from variable to variable: side by side where they meet one, straight past layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]
Bend = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: start, two controls, end."""


@dataclass(frozen=True)
class Curve:
    """Bézier curves, one after the other, and the corners of a head where it has one."""

    bends: tuple[Bend, ...]
    head: tuple[Point, ...] = ()

    @classmethod
    def straight(cls, start: Point, end: Point, *, head: bool) -> Curve:
        """A level line, to the right."""
        stop = (end[0] - 11, end[1]) if head else end
        corners = (end, (stop[0] - 1, end[1] - 5), (stop[0] - 1, end[1] + 5)) if head else ()
        return cls(((start, start, stop, stop),), corners)

    @property
    def svg(self) -> str:
        """The curve as SVG writes it."""
        first = self.bends[0][0]
        rest = "".join(
            f"C{a[0]:.1f} {a[1]:.1f} {b[0]:.1f} {b[1]:.1f} {c[0]:.1f} {c[1]:.1f}"
            for _, a, b, c in self.bends
        )
        return f"M{first[0]:.1f} {first[1]:.1f}{rest}"

    def point(self, share: float) -> Point:
        """A point after this share of the bends.

        Examples
        --------
        >>> Curve.straight((0.0, 0.0), (8.0, 0.0), head=False).point(0.5)
        (4.0, 0.0)
        """
        along = share * len(self.bends)
        k = min(int(along), len(self.bends) - 1)
        t = along - k
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        x, y = (
            sum(w * p[axis] for w, p in zip(weights, self.bends[k], strict=True)) for axis in (0, 1)
        )
        return x, y


@dataclass(frozen=True)
class Route:
    """From a variable to another, past some points, with a head or without."""

    start: int
    end: int
    between: tuple[Point, ...]
    head: bool


def routes(
    ways: Sequence[Route], at: Sequence[Point], box: Point, strokes: Sequence[float]
) -> list[Curve]:
    """A curve for each way; where several meet a side of a variable, they stand side by side.

    Examples
    --------
    >>> (curve,) = routes([Route(0, 1, (), True)], [(0.0, 0.0), (0.0, 90.0)], (50.0, 30.0), [2.0])
    >>> curve.bends[0][0], curve.head[0]
    ((0.0, 15.0), (0.0, 74.0))
    """
    sides = [_sides(way, at) for way in ways]
    shift = _ports(ways, sides, at, box[0])
    return [
        _curve(way, side, (shift[k, 0], shift[k, 1]), at, box[1], stroke)
        for k, (way, side, stroke) in enumerate(zip(ways, sides, strokes, strict=True))
    ]


def _sides(way: Route, at: Sequence[Point]) -> tuple[int, int]:
    """The side (below is 1, above −1) at which a way leaves, and at which it arrives."""
    rise = at[way.end][1] - at[way.start][1]
    if abs(rise) < 1:
        return 1, 1
    return (1, -1) if rise > 0 else (-1, 1)


def _ports(
    ways: Sequence[Route], sides: Sequence[tuple[int, int]], at: Sequence[Point], width: float
) -> dict[tuple[int, int], float]:
    """How far from the middle each end is, sorted by where the ways come from."""
    meeting: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
    for k, (way, side) in enumerate(zip(ways, sides, strict=True)):
        first = way.between[0] if way.between else at[way.end]
        last = way.between[-1] if way.between else at[way.start]
        meeting.setdefault((way.start, side[0]), []).append((first[0], k, 0))
        meeting.setdefault((way.end, side[1]), []).append((last[0], k, 1))
    shift = {}
    for ends in meeting.values():
        step = min(13.0, (width - 14) / len(ends))
        for place, (_, k, end) in enumerate(sorted(ends)):
            shift[k, end] = (place - (len(ends) - 1) / 2) * step
    return shift


def _curve(
    way: Route,
    sides: tuple[int, int],
    shift: Point,
    at: Sequence[Point],
    height: float,
    stroke: float,
) -> Curve:
    out, into = sides
    start = (at[way.start][0] + shift[0], at[way.start][1] + out * height / 2)
    tip = (at[way.end][0] + shift[1], at[way.end][1] + into * (height / 2 + 1))
    head = 6 + 1.5 * stroke if way.head else 0.0
    stop = (tip[0], tip[1] + into * head)
    wide, base = 0.42 * head + 1, stop[1] + into
    corners = (tip, (tip[0] - wide, base), (tip[0] + wide, base)) if way.head else ()
    if out == into:  # side by side in one layer: a bow below both
        sag = min(60.0, 22 + 0.16 * abs(stop[0] - start[0]))
        low = (start[0], start[1] + sag), (stop[0], stop[1] + sag)
        return Curve(((start, *low, stop),), corners)
    points = [start]
    for x, y in way.between:  # past the variables of a layer it runs straight
        points += [(x, y - out * height / 2), (x, y + out * height / 2)]
    points.append(stop)
    bends = []
    for a, b in pairwise(points):
        half = (a[1] + b[1]) / 2
        bends.append((a, (a[0], half), (b[0], half), b))
    return Curve(tuple(bends), corners)
