"""Plain data about edges ⇄ keyword arguments of `Prior`, in our words and in other programs'.

pgmpy's `ExpertKnowledge` has `required_edges`, `forbidden_edges`, `temporal_order` and
`search_space`; benchpress has `tiers`, `tier_settings`, `required_groups` and `forbidden_groups`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from svidag.prior.statement import Edge, arrow, brief, edge, edges, nearest, number, tiers

LARGEST_GROUP = 1_000_000
"""Pairs; a few long lists must not stand for more than memory holds."""

_PLAIN = ("p", "expected_parents", "shrink_to", "closed_tiers", "nu_min", "kappa", "eta")
_FIELDS = (*_PLAIN, "beliefs", "confidence", "required", "forbidden", "tiers", "search_space")
_FOREIGN = (
    *("required_edges", "forbidden_edges", "temporal_order"),
    *("required_groups", "forbidden_groups", "tier_settings"),
)
_WITHIN = ("forbid_within_tiers", "forbidden_within_tiers")
_NEXT = "can_only_cause_next_tier"
_UNSUPPORTED = ("context_all", "context_tier", "source_nodes")


def from_words(words: Any) -> dict[str, Any]:
    """Translate plain data into keyword arguments of `Prior`.

    Examples
    --------
    >>> from_words({"required_edges": [["a", "b"]], "tier_settings": None})
    {'required': (('a', 'b'),)}
    """
    if not isinstance(words, Mapping):
        raise ValueError(f"expected words such as 'beliefs' or 'required', got {brief(words)}")
    given = {key: value for key, value in words.items() if value is not None}
    _check_words(given)
    fields = {key: given[key] for key in _PLAIN if key in given}
    fields |= _beliefs(given.get("beliefs", {}), given.get("confidence"))
    fields |= _tiers(given)
    for name in ("required", "forbidden", "search_space"):
        found = [
            *fields.pop(name, ()),
            *_pairs(given.get(name, ()), name),
            *_pairs(given.get(f"{name}_edges", ()), f"{name}_edges"),
            *_groups(given.get(f"{name}_groups", ()), f"{name}_groups"),
        ]
        fields |= {name: tuple(dict.fromkeys(found))} if found else {}
    return fields


def _check_words(given: Mapping[Any, Any]) -> None:
    for key, value in given.items():
        if key in _UNSUPPORTED:
            if value:
                raise ValueError(f"{key!r} of benchpress has no counterpart here; remove it")
        elif key not in (*_FIELDS, *_FOREIGN):
            hint = nearest(str(key), (*_FIELDS, *_FOREIGN))
            raise ValueError(f"{brief(key)} is not a known word{hint or f'; known are {_FIELDS}'}")
    if "tiers" in given and "temporal_order" in given:
        raise ValueError("both 'tiers' and 'temporal_order' are given; keep one of the two")


def _beliefs(stated: Any, confidence: Any) -> dict[str, Any]:
    """Split entries {from, to, p, confidence} into the two arguments of `Prior`."""
    fields = {} if confidence is None else {"confidence": confidence}
    if isinstance(stated, Mapping | pd.DataFrame):
        return fields | ({"beliefs": stated} if len(stated) else {})
    p: dict[Edge, float] = {}
    own: dict[Edge, float] = {}
    for k, entry in enumerate(_listed(stated, "beliefs")):
        what = f"beliefs[{k}]"
        pair = _endpoints(entry, what, ("p", "confidence"))
        if "p" not in entry:
            raise ValueError(f"{what} ({arrow(pair)}) has no 'p'")
        _state(p, pair, number(entry["p"], f"p of {what} ({arrow(pair)})", high=1.0), what)
        if entry.get("confidence") is not None:
            _state(own, pair, number(entry["confidence"], f"confidence of {what}"), what)
    if own and isinstance(confidence, Mapping | pd.DataFrame):
        raise ValueError("confidence is given both in the beliefs and beside them; keep one")
    if own:
        shared = {} if confidence is None else dict.fromkeys(p, confidence)
        fields["confidence"] = shared | own
    return fields | {"beliefs": p}


def _state(stated: dict[Edge, float], pair: Edge, value: float, what: str) -> None:
    if stated.setdefault(pair, value) != value:
        raise ValueError(
            f"{what} gives {arrow(pair)} {value:g}, but an earlier entry gave {stated[pair]:g}"
        )


def _tiers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tiers, with benchpress's settings about all of them."""
    found = tiers(given.get("tiers", given.get("temporal_order", ())))
    settings = given.get("tier_settings", {})
    if not isinstance(settings, Mapping) or any(key not in (*_WITHIN, _NEXT) for key in settings):
        raise ValueError(f"tier_settings has the words {(*_WITHIN, _NEXT)}, got {brief(settings)}")
    fields: dict[str, Any] = {"tiers": found} if found else {}
    if any(settings.get(key) for key in _WITHIN):
        fields["closed_tiers"] = tuple(range(len(found)))
    if settings.get(_NEXT):
        fields["forbidden"] = skipping(dict(enumerate(found)), range(len(found)))
    return fields


def skipping(tier: Mapping[int, Sequence[str]], only_next: Iterable[int]) -> list[Edge]:
    """List the pairs from a tier that may only cause the next one to any tier beyond that.

    Examples
    --------
    >>> skipping({1: ["a"], 2: ["b"], 3: ["c"]}, [1])
    [('a', 'c')]
    """
    return [
        pair
        for place in only_next
        for beyond in tier
        if beyond > place + 1
        for pair in every_pair(tier[place], tier[beyond], f"tier {place}")
    ]


def every_pair(causes: Sequence[Any], effects: Sequence[Any], what: str) -> list[Edge]:
    """List every cause with every effect.

    Examples
    --------
    >>> every_pair(["a"], ["b", "c"], "group")
    [('a', 'b'), ('a', 'c')]
    """
    if len(causes) * len(effects) > LARGEST_GROUP:
        raise ValueError(f"{what} stands for more than {LARGEST_GROUP} pairs")
    return [edge(pair, what) for pair in product(causes, effects)]


def _pairs(entries: Any, what: str) -> tuple[Edge, ...]:
    if isinstance(entries, set | frozenset):
        return edges(entries, what)
    return tuple(
        _endpoints(entry, f"{what}[{k}]", ()) for k, entry in enumerate(_listed(entries, what))
    )


def _endpoints(entry: Any, what: str, others: tuple[str, ...]) -> Edge:
    """Give the pair of {from: a, to: b}, or of [a, b] where nothing else may be stated."""
    if not isinstance(entry, Mapping):
        if others:
            raise ValueError(f"{what} must be {{from: …, to: …, p: …}}, got {brief(entry)}")
        return edge(entry, what)
    known = ("from", "to", *others)
    for key in entry:
        if key not in known:
            raise ValueError(f"{what} has the unknown word {brief(key)}{nearest(str(key), known)}")
    if "from" not in entry or "to" not in entry:
        raise ValueError(f"{what} must have 'from' and 'to', got {brief(entry)}")
    return edge((entry["from"], entry["to"]), what)


def _groups(entries: Any, what: str) -> list[Edge]:
    """Every cause with every effect, for groups {cause: [...], effect: [...]}."""
    found = []
    for k, entry in enumerate(_listed(entries, what)):
        if not isinstance(entry, Mapping) or set(entry) != {"cause", "effect"}:
            raise ValueError(f"{what}[{k}] must have 'cause' and 'effect', got {brief(entry)}")
        causes, effects = (
            _listed(entry[side], f"{side} of {what}[{k}]") for side in ("cause", "effect")
        )
        found += every_pair(causes, effects, f"{what}[{k}]")
    return found


def _listed(entries: Any, what: str) -> Sequence[Any]:
    if not isinstance(entries, list | tuple):
        raise ValueError(f"{what} must be a list, got {brief(entries)}")
    return entries


def to_words(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the fields of a `Prior` that differ from the defaults into plain data.

    Examples
    --------
    >>> to_words({"required": (("a", "b"),)}, {"required": ()})
    {'required': [['a', 'b']]}
    """
    words = {key: _plain(value) for key, value in fields.items() if value != defaults[key]}
    own = words.pop("confidence") if isinstance(words.get("confidence"), Mapping) else {}
    if "beliefs" in words:
        words["beliefs"] = [
            {"from": pair[0], "to": pair[1], "p": p}
            | ({"confidence": own[pair]} if pair in own else {})
            for pair, p in words["beliefs"].items()
        ]
    return words


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
