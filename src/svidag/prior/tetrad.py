"""Tetrad's knowledge text: `/knowledge`, then sections of tiers, edges and groups."""

import csv
import re
from typing import Any, TypeAlias

from svidag.prior.statement import Edge, brief, edge
from svidag.prior.words import every_pair, skipping

_SECTIONS = ("addtemporal", "forbiddirect", "requiredirect", "forbiddengroup", "requiredgroup")
_TIER = re.compile(r"(\d{1,6})([*-]{0,2})", re.ASCII)
_TOKEN = re.compile(r'"([^"]*)"|(\S+)')
_Row: TypeAlias = tuple[int, list[str]]


def recognises(text: str) -> bool:
    """Tell by its first line whether a text is Tetrad knowledge.

    Examples
    --------
    >>> recognises("/knowledge"), recognises("tiers: [[a], [b]]")
    (True, False)
    """
    first = next((line.split() for line in text.splitlines() if _has_content(line)), [""])
    return first[0].lower() in ("/knowledge", *_SECTIONS)


def read(text: str) -> dict[str, Any]:
    r"""Read Tetrad's sections into the words of `svidag.prior.words`.

    Examples
    --------
    >>> words = read("addtemporal\n1 age\n2* smoking diet\nrequiredirect\nage diet")
    >>> words["tiers"], words["closed_tiers"], words["required"]
    ([['age'], ['smoking', 'diet']], (1,), [('age', 'diet')])
    """
    rows = _rows(text)
    words = _tiers(rows["addtemporal"])
    words["forbidden"] += _pairs(rows["forbiddirect"]) + _groups(rows["forbiddengroup"])
    words["required"] = _pairs(rows["requiredirect"]) + _groups(rows["requiredgroup"])
    return words


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def _rows(text: str) -> dict[str, list[_Row]]:
    """Sort the lines, in tokens and with their numbers, into sections."""
    rows: dict[str, list[_Row]] = {section: [] for section in _SECTIONS}
    section, by_comma = "", False
    for k, line in enumerate(text.splitlines(), start=1):
        word = " ".join(line.lower().split())
        if word in ("/knowledge", "/knowledge comma"):
            by_comma = word.endswith("comma")
        elif word in rows:
            section = word
        elif _has_content(line) and not section:
            raise ValueError(f"line {k}: expected one of {_SECTIONS}, got {brief(line)}")
        elif _has_content(line):
            rows[section].append((k, _tokens(line, by_comma)))
    return rows


def _tokens(line: str, by_comma: bool) -> list[str]:
    if by_comma:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
    return [quoted or bare for quoted, bare in _TOKEN.findall(line)]


def _tiers(rows: list[_Row]) -> dict[str, Any]:
    """Read lines `2* a b`: the tier's number, * if it is closed, - if it causes only the next."""
    tier: dict[int, list[str]] = {}
    closed, only_next = set(), set()
    for k, (head, *names) in rows:
        match = _TIER.fullmatch(head)
        if match is None:
            raise ValueError(f"line {k}: a tier starts with its number (2 or 2*), got {head!r}")
        place = int(match[1])
        tier.setdefault(place, []).extend(names)
        closed |= {place} if "*" in match[2] else set()
        only_next |= {place} if "-" in match[2] else set()
    places = sorted(tier)
    return {
        "tiers": [tier[place] for place in places],
        "closed_tiers": tuple(places.index(place) for place in sorted(closed)),
        "forbidden": skipping(tier, sorted(only_next)),
    }


def _pairs(rows: list[_Row]) -> list[Edge]:
    return [edge(names, f"line {k}") for k, names in rows]


def _groups(rows: list[_Row]) -> list[Edge]:
    """Read pairs of lines: the causes, then the effects."""
    if len(rows) % 2:
        raise ValueError(f"line {rows[-1][0]}: a group is a line of causes and a line of effects")
    return [
        pair
        for (k, causes), (_, effects) in zip(rows[::2], rows[1::2], strict=True)
        for pair in every_pair(causes, effects, f"line {k}")
    ]
