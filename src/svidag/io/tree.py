"""Nested values as JSON, with their arrays kept apart.

JSON holds None, booleans, whole numbers, finite floats, text, lists and dictionaries by text as
they are. What it lacks is an object with a single key that begins with ``$``:

    {"$array": name}           an array, stored under that name
    {"$tuple": [...]}          a tuple
    {"$number": "nan"}         a float that is not finite
    {"$pairs": [[k, v], ...]}  a dictionary whose keys are not all plain text
    {"$finding": [...]}        a finding of the data's audit
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from svidag.data import Finding

KINDS = "biuf"
"""Kinds of array elements that are plain numbers: boolean, signed, unsigned, floating."""


class Encoder:
    """Turns values into JSON and collects their arrays; an array met twice is kept once.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = Encoder()
    >>> encoder.encode({"orders": np.arange(3), "at": (1, np.nan)})
    {'orders': {'$array': 'a0'}, 'at': {'$tuple': [1, {'$number': 'nan'}]}}
    >>> encoder.arrays["a0"].tolist()
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._kept: dict[int, tuple[str, Any]] = {}

    def encode(self, value: Any, *, lenient: bool = False) -> Any:
        """The value as JSON; what is no plain data becomes text if `lenient`, else a ValueError."""
        again = lambda inner: self.encode(inner, lenient=lenient)  # noqa: E731
        if value is None or isinstance(value, bool | np.bool_ | int | np.integer | float | str):
            return _scalar(value)
        if isinstance(value, np.floating):
            return _scalar(float(value))
        if isinstance(value, np.ndarray | jax.Array) and _is_plain(value):
            return {"$array": self._keep(value)}
        if isinstance(value, Mapping):
            return _mapping(value, again)
        if isinstance(value, tuple):
            return {"$tuple": [again(inner) for inner in value]}
        if isinstance(value, list):
            return [again(inner) for inner in value]
        if isinstance(value, Finding):
            return {"$finding": [value.kind, list(value.columns), value.message]}
        if lenient:
            return _text(value)
        raise ValueError(f"cannot save a value of type {type(value).__name__}")

    def _keep(self, array: Any) -> str:
        if id(array) not in self._kept:
            name = f"a{len(self.arrays)}"
            self.arrays[name] = np.asarray(array)
            self._kept[id(array)] = name, array  # alive, so that its id stays its own
        return self._kept[id(array)][0]


def decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that `Encoder.encode` was given.

    Examples
    --------
    >>> decode({"at": {"$tuple": [1, {"$number": "inf"}]}}, {})
    {'at': (1, inf)}
    """
    if isinstance(value, list):
        return [decode(inner, arrays) for inner in value]
    if not isinstance(value, dict):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: decode(inner, arrays) for key, inner in value.items()}
    ((mark, content),) = value.items()
    if mark == "$array":
        return arrays[content]
    if mark == "$tuple":
        return tuple(decode(inner, arrays) for inner in content)
    if mark == "$number":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
    if mark == "$pairs":
        return {decode(key, arrays): decode(inner, arrays) for key, inner in content}
    if mark == "$finding":
        kind, columns, message = content
        return Finding(kind, tuple(columns), message)
    raise ValueError(f"unknown mark {mark!r}")


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": str(float(value))}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return None if value is None else int(value)


def _mapping(value: Mapping[Any, Any], encode: Any) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {str(key): encode(inner) for key, inner in value.items()}
    return {"$pairs": [[encode(key), encode(inner)] for key, inner in value.items()]}


def _is_plain(array: Any) -> bool:
    """Whether the elements are numbers that NumPy itself knows, of at most eight bytes."""
    dtype = array.dtype
    return isinstance(dtype, np.dtype) and dtype.kind in KINDS and dtype.itemsize <= 8


def _text(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)
