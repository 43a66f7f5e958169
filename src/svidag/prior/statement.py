"""What a user states about edges, checked and put into one form before any table is seen.

An edge is a pair of names (cause, effect). Every function here raises a ValueError that names the
argument, the entry and the remedy.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from numbers import Real
from sys import float_info
from typing import Any, TypeAlias

import pandas as pd

Edge: TypeAlias = tuple[str, str]

LARGEST = float_info.max


def arrow(edge: Edge) -> str:
    """Write an edge as messages show it.

    Examples
    --------
    >>> arrow(("a", "b"))
    "'a' → 'b'"
    """
    return f"{edge[0]!r} → {edge[1]!r}"


def brief(value: Any) -> str:
    """Show a value in a message, cut short if it is long.

    Examples
    --------
    >>> brief("a" * 100)[-6:]
    'aaa...'
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextmanager
def prefixed(place: object) -> Iterator[None]:
    """Put a place, such as a file or a line, in front of any ValueError raised inside.

    Examples
    --------
    >>> with prefixed("line 3"):
    ...     raise ValueError("not a number")
    Traceback (most recent call last):
    ValueError: line 3: not a number
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name most like this one, or say nothing.

    Examples
    --------
    >>> nearest("belief", ["beliefs", "tiers"])
    "; did you mean 'beliefs'?"
    """
    match = get_close_matches(name, list(known), n=1)
    return f"; did you mean {match[0]!r}?" if match else ""


def number(value: Any, what: str, low: float = 0.0, high: float = LARGEST) -> float:
    """Return a finite real number in [low, high] as a float.

    Examples
    --------
    >>> number(1, "p", high=1.0)
    1.0
    """
    real = _as_float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not low <= real <= high:
        wanted = f"at least {low:g}" if high == LARGEST else f"between {low:g} and {high:g}"
        raise ValueError(f"{what} must be a finite number {wanted}, got {brief(value)}")
    return real


def _as_float(value: Real) -> float:
    """The number in Python's own precision, in which it can be compared; ∞ if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def label(value: Any, what: str) -> str:
    """Return a variable name; names are text.

    Examples
    --------
    >>> label("PKA", "required")
    'PKA'
    """
    if not isinstance(value, str):
        raise ValueError(
            f"{what} must be a variable name, which is text; got {brief(value)}. In a file, put "
            'quotes around a name that reads as something else, such as "no", "null" or "1"'
        )
    return value


def edge(entry: Any, what: str) -> Edge:
    """Return one ordered pair of two different names.

    Examples
    --------
    >>> edge(["a", "b"], "required")
    ('a', 'b')
    """
    if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
        raise ValueError(f"{what} must be a pair (cause, effect), got {brief(entry)}")
    cause, effect = (label(name, what) for name in entry)
    if cause == effect:
        raise ValueError(f"{what} is {arrow((cause, effect))}: a variable cannot cause itself")
    return cause, effect


def edges(entries: Any, what: str) -> tuple[Edge, ...]:
    """Return a list of edges, each once, in the order given (sets are sorted).

    Examples
    --------
    >>> edges([("a", "b"), ["a", "b"]], "forbidden")
    (('a', 'b'),)
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        raise ValueError(f"{what} must be a list of pairs (cause, effect), got {brief(entries)}")
    found = [edge(entry, f"{what}[{k}]") for k, entry in enumerate(entries)]
    return tuple(dict.fromkeys(sorted(found) if isinstance(entries, set | frozenset) else found))


def values_by_edge(stated: Any, what: str, high: float = LARGEST) -> dict[Edge, float]:
    """Return {edge: number} from a mapping or from a labelled frame, cause by effect.

    Examples
    --------
    >>> values_by_edge({("a", "b"): 1}, "beliefs", high=1.0)
    {('a', 'b'): 1.0}
    """
    if isinstance(stated, pd.DataFrame):
        stated = _frame_entries(stated, what)
    if not isinstance(stated, Mapping):
        raise ValueError(
            f"{what} must map pairs (cause, effect) to numbers, or be a DataFrame with causes as "
            f"rows and effects as columns; got {type(stated).__name__}"
        )
    found = {}
    for entry, value in stated.items():
        pair = edge(entry, f"a key of {what}")
        found[pair] = number(value, f"{what}[{arrow(pair)}]", high=high)
    return found


def _frame_entries(frame: pd.DataFrame, what: str) -> dict[tuple[Any, Any], Any]:
    if frame.index.name == "effect" or frame.columns.name == "cause":
        raise ValueError(f"{what} has effects as rows; transpose it: rows are causes")
    for axis in (frame.index, frame.columns):
        if not axis.is_unique:
            raise ValueError(f"{what} lists {axis[axis.duplicated()][0]!r} twice on one axis")
    entries = {}
    for i, cause in enumerate(frame.index):
        for j, effect in enumerate(frame.columns):
            value = frame.iat[i, j]
            # The empty diagonal of an adjacency matrix is no statement.
            if not pd.isna(value) and not (cause == effect and value == 0):
                entries[cause, effect] = value
    return entries


def tiers(entries: Any) -> tuple[tuple[str, ...], ...]:
    """Return tiers of names, earliest first; no variable is in two.

    Examples
    --------
    >>> tiers([["age"], ["smoking", "diet"]])
    (('age',), ('smoking', 'diet'))
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        raise ValueError(f"tiers must be a list of lists of names, got {brief(entries)}")
    found: list[tuple[str, ...]] = []
    home: dict[str, int] = {}
    for k, entry in enumerate(entries):
        if isinstance(entry, str | Mapping) or not isinstance(entry, Collection):
            raise ValueError(f"tiers[{k}] must be a list of names, got {brief(entry)}")
        names = [label(name, f"an entry of tiers[{k}]") for name in entry]
        for name in names:
            if home.setdefault(name, k) != k:
                raise ValueError(f"{name!r} is in tiers[{home[name]}] and in tiers[{k}]; keep one")
        ordered = sorted(names) if isinstance(entry, set | frozenset) else names
        found.append(tuple(dict.fromkeys(ordered)))
    return tuple(found)


def closed_tiers(entries: Any, count: int) -> tuple[int, ...]:
    """Return the places, from 0, of the tiers that allow no edge within.

    Examples
    --------
    >>> closed_tiers([1, 1], count=2)
    (1,)
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        raise ValueError(f"closed_tiers must be a list of places in tiers, got {brief(entries)}")
    places = list(entries)
    for place in places:
        if type(place) is not int or not 0 <= place < count:
            raise ValueError(
                f"closed_tiers lists {place!r}; it must be the place of one of the {count} tiers, "
                "counted from 0"
            )
    return tuple(sorted(set(places)))


@dataclass(frozen=True)
class Deletions:
    """The ordered pairs that hard knowledge deletes, and why.

    Examples
    --------
    >>> rules = Deletions.of((), (("age",), ("smoking",)), (), ())
    >>> rules.reason(("smoking", "age"))
    "'smoking' is in tiers[1], later than 'age' in tiers[0]"
    >>> rules.reason(("age", "smoking")) is None
    True
    """

    forbidden: frozenset[Edge]
    tier: Mapping[str, int]
    closed: frozenset[int]
    search_space: frozenset[Edge]

    @classmethod
    def of(
        cls,
        forbidden: Iterable[Edge],
        tiers: Sequence[Sequence[str]],
        closed: Iterable[int],
        search_space: Iterable[Edge],
    ) -> "Deletions":
        """Collect the rules; an empty search space restricts nothing."""
        tier = {name: k for k, names in enumerate(tiers) for name in names}
        return cls(frozenset(forbidden), tier, frozenset(closed), frozenset(search_space))

    def reason(self, pair: Edge) -> str | None:
        """Say why the pair may not be an edge, or None if it may."""
        cause, effect = pair
        if pair in self.forbidden:
            return "forbidden lists it"
        if self.search_space and pair not in self.search_space:
            return "search_space does not list it"
        early, late = self.tier.get(effect), self.tier.get(cause)
        if early is None or late is None:
            return None
        if late > early:
            return f"{cause!r} is in tiers[{late}], later than {effect!r} in tiers[{early}]"
        if late == early and late in self.closed:
            return f"both are in tiers[{late}], which is closed"
        return None


def check_required(required: Iterable[Edge], deletions: Deletions) -> None:
    """Raise if a required edge is deleted, or if required edges form a cycle.

    Examples
    --------
    >>> check_required([("a", "b"), ("b", "a")], Deletions.of((), (), (), ()))
    Traceback (most recent call last):
    ValueError: required edges form a cycle: 'a' → 'b' → 'a'; no graph without cycles has them all
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for pair in required:
        reason = deletions.reason(pair)
        if reason is not None:
            raise ValueError(f"required lists {arrow(pair)}, but {reason}; keep one of the two")
        sorter.add(pair[1], pair[0])
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " → ".join(repr(name) for name in _from_least(error.args[1]))
        raise ValueError(
            f"required edges form a cycle: {cycle}; no graph without cycles has them all"
        ) from None


def _from_least(cycle: list[str]) -> list[str]:
    """Start a closed walk at its least name, so that the message does not depend on chance."""
    start = cycle.index(min(cycle))
    return [*cycle[start:-1], *cycle[:start], cycle[start]]


def check_beliefs(
    beliefs: Mapping[Edge, float], required: Collection[Edge], deletions: Deletions
) -> None:
    """Raise if a belief says the opposite of hard knowledge about the same pair.

    Examples
    --------
    >>> check_beliefs({("a", "b"): 0.9}, (), Deletions.of([("a", "b")], (), (), ()))
    Traceback (most recent call last):
    ValueError: beliefs give 'a' → 'b' 0.9, but forbidden lists it; keep one of the two
    """
    for pair, p in beliefs.items():
        reason = deletions.reason(pair)
        if p > 0.5 and reason is not None:
            raise ValueError(f"beliefs give {arrow(pair)} {p:g}, but {reason}; keep one of the two")
        if p < 0.5 and pair in required:
            raise ValueError(
                f"beliefs give {arrow(pair)} {p:g}, but required lists it; keep one of the two"
            )


def check_columns(stated: Iterable[tuple[str, str]], names: Sequence[str]) -> None:
    """Raise if a stated name (argument, name) is not a column.

    Examples
    --------
    >>> check_columns([("required", "PKX")], ["PKA", "Raf"])
    Traceback (most recent call last):
    ValueError: required names 'PKX', which is not a column; did you mean 'PKA'?
    """
    known = set(names)
    for argument, name in stated:
        if name not in known:
            hint = nearest(name, names) or f"; the columns are {', '.join(map(repr, names))}"
            raise ValueError(f"{argument} names {name!r}, which is not a column{hint}")
