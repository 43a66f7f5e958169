"""The parts of a study: data sets, methods and priors, each a named table of options."""

from __future__ import annotations

import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from svidag.bench.methods import DEFAULT, check_options, method
from svidag.bench.registry import find
from svidag.bench.schema import Table
from svidag.bench.sources import SOURCES
from svidag.prior import Prior
from svidag.run.settings import fits, suggest, type_in_words

SUPPLIED = ("seed", "replicate")
"""Arguments that every data source receives besides its options."""


def read_parts(kind: str, table: Table, quick: Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every data set, method or prior, with what the quick size changes in it."""
    stated = dict(table.named(kind))
    changes = dict(quick.named(kind))
    for name, change in changes.items():
        if name not in stated:
            raise change.error(
                "", f"changes {kind}.{name}, which the study does not define{suggest(name, stated)}"
            )
    for name, entry in stated.items():
        change = changes.get(name)
        merged = entry if change is None else entry.changed_by(change)
        for option, value in merged.values.items():
            if not _plain(value):
                raise merged.error(option, f"must be text, a number, true or false, got {value!r}")
            if value == [] and kind != "prior":
                raise merged.error(option, "is an empty list, so there would be no cell")
        CHECKS[kind](merged)
        options = dict(merged.values)
        yield name, {"method": DEFAULT} | options if kind == "method" else options


def _plain(value: Any) -> bool:
    """Whether a value can be written to a row as JSON; dates and times cannot."""
    if isinstance(value, dict):
        return all(map(_plain, value.values()))
    if isinstance(value, list):
        return all(map(_plain, value))
    return isinstance(value, str | int | float | bool)


def _check_data(entry: Table) -> None:
    name = entry.text("source")
    if not name:
        raise entry.error("source", f"is missing; known are {', '.join(SOURCES)}")
    source = look_up(entry, "source", lambda: find(SOURCES, "data source", name))
    pattern = entry.text("seed", "")
    hints = typing.get_type_hints(source)
    options = {k: p for k, p in inspect.signature(source).parameters.items() if k not in SUPPLIED}
    for option, parameter in options.items():
        value = entry.take(option)
        if value is None and parameter.default is inspect.Parameter.empty:
            raise entry.error(option, f"is missing: the source {name!r} needs it")
        if value is not None:
            for each in values(value):
                hint = hints.get(option, Any)
                if not fits(each, hint):
                    wanted = type_in_words(hint).removesuffix(" or None")  # TOML has no None
                    raise entry.error(option, f"must be {wanted}, got {each!r}")
    entry.close()
    stated = [option for option in options if option in entry.values]
    try:
        pattern.format(**dict.fromkeys(stated, 0), replicate=0)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise entry.error(
            "seed", f"may only refer to `replicate` and to options stated here: {error}"
        ) from None


def _check_method(entry: Table) -> None:
    name = entry.text("method", DEFAULT)
    look_up(entry, "method", lambda: method(name))
    for options, _ in combinations({k: v for k, v in entry.values.items() if k != "method"}):
        try:
            check_options(name, options)
        except (ValueError, TypeError) as error:
            words = str(error)
            start = words.partition("; known")[0]
            named = [o for o in options if re.search(rf"\b{re.escape(o)}s?\b", start)]
            raise entry.error(named[0] if named else "", f"cannot be used: {words}") from None


def _check_prior(entry: Table) -> None:
    try:
        Prior.from_dict(entry.values)
    except ValueError as error:
        raise entry.error("", f"is not a valid prior: {error}") from None


CHECKS = types.MappingProxyType(
    {"data": _check_data, "method": _check_method, "prior": _check_prior}
)


def look_up(entry: Table, key: str, function: Callable[[], Any]) -> Any:
    """The result of a function; a `ValueError` becomes one that names the key and its line."""
    try:
        return function()
    except ValueError as error:
        raise entry.error(key, f"cannot be used: {error}") from None


def combinations(part: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of listed values, and the values of the lists alone.

    Examples
    --------
    >>> list(combinations({"m": 5, "n": [10, 20]}))
    [({'m': 5, 'n': 10}, {'n': 10}), ({'m': 5, 'n': 20}, {'n': 20})]
    """
    listed = [name for name, value in part.items() if isinstance(value, list)]
    for choice in itertools.product(*(values(value) for value in part.values())):
        options = dict(zip(part, choice, strict=True))
        yield options, {name: options[name] for name in listed if len(part[name]) > 1}


def values(value: Any) -> list[Any]:
    """The entries of a list, or the value itself as the only one."""
    return value if isinstance(value, list) else [value]
