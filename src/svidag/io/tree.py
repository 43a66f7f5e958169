"""Nested values as JSON, with their arrays kept apart.

JSON holds None, booleans, whole numbers, finite floats, text, lists and dictionaries by text as
they are. What it lacks is an object with a single key that begins with ``$``:

    {"$array": name}              an array, stored under that name
    {"$turned": name}             its transpose
    {"$bits": [name, kind, ...]}  an array of zeros and ones, stored as bits, and its shape
    {"$tuple": [...]}             a tuple
    {"$number": "nan"}            a float that is not finite
    {"$pairs": [[k, v], ...]}     a dictionary whose keys are not all plain text
    {"$object": [type, {...}]}    an object of a registered type, and its parts
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from svidag.io import types
from svidag.io.archive import KINDS

LARGE = 1 << 16  # bytes from which an array is compared with those stored already, to store it once


class Encoder:
    """Turns values into JSON and collects their arrays; what is met twice is kept once.

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
        self._kept: dict[int, tuple[dict[str, Any], Any]] = {}
        self._content: dict[bytes, str] = {}

    def encode(self, value: Any) -> Any:
        """The value as JSON; what is neither plain data nor of a known type is a ValueError."""
        if value is None or isinstance(value, bool | np.bool_ | int | np.integer | float | str):
            return _scalar(value)
        if isinstance(value, np.floating):
            return _scalar(float(value))
        if _is_array(value) and _is_plain(value):
            if id(value) not in self._kept:
                # The array stays alive, so that its id stays its own.
                self._kept[id(value)] = self._keep(np.asarray(value)), value
            return self._kept[id(value)][0]
        if (name := types.name_of(value)) is not None:
            return {"$object": [name, self.encode(types.parts_of(value))]}
        if isinstance(value, Mapping):
            return _mapping(value, self.encode)
        if isinstance(value, tuple):
            return {"$tuple": [self.encode(inner) for inner in value]}
        if isinstance(value, list):
            return [self.encode(inner) for inner in value]
        raise ValueError(f"a {type(value).__module__}.{type(value).__qualname__} cannot be saved")

    def _keep(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype in (np.uint8, np.bool_) and array.size and array.max() <= 1:
            kind = "b" if array.dtype == np.bool_ else "u"
            return {"$bits": [self._add(np.packbits(array)), kind, *array.shape]}
        if array.nbytes >= LARGE and array.ndim == 2:
            turned = self._content.get(_digest(array.T))
            if turned is not None:
                return {"$turned": turned}
        return {"$array": self._add(array)}

    def _add(self, array: np.ndarray) -> str:
        digest = _digest(array) if array.nbytes >= LARGE else b""
        if digest not in self._content:
            name = f"a{len(self.arrays)}"
            self.arrays[name] = array
            if not digest:
                return name
            self._content[digest] = name
        return self._content[digest]


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
    if mark == "$turned":
        return np.ascontiguousarray(arrays[content].T)
    if mark == "$bits":
        return _from_bits(arrays[content[0]], *content[1:])
    if mark == "$tuple":
        return tuple(decode(inner, arrays) for inner in content)
    if mark == "$number":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
    if mark == "$pairs":
        return {decode(key, arrays): decode(inner, arrays) for key, inner in content}
    if mark == "$object":
        name, parts = content
        return types.build(name, decode(parts, arrays))
    raise ValueError(f"unknown mark {mark!r}")


def _from_bits(bits: np.ndarray, kind: str, *shape: int) -> np.ndarray:
    count = math.prod(shape)
    if min(shape, default=0) < 0 or -(-count // 8) != len(bits):
        raise ValueError(f"an array of shape {shape} does not fill its bits")
    array = np.unpackbits(bits, count=count).reshape(shape)
    return array.view(np.bool_) if kind == "b" else array


def _digest(array: np.ndarray) -> bytes:
    """A digest of an array's type, shape and content."""
    content = np.ascontiguousarray(array)
    head = f"{content.dtype.str}{content.shape}".encode()
    return hashlib.sha256(head + content.tobytes()).digest()


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


def _is_array(value: Any) -> bool:
    """Whether it is an array of NumPy, or of JAX, which a default fit never imports."""
    jax = sys.modules.get("jax")
    return isinstance(value, np.ndarray) or (jax is not None and isinstance(value, jax.Array))


def _is_plain(array: Any) -> bool:
    """Whether the elements are numbers that NumPy itself knows, of at most eight bytes."""
    dtype = array.dtype
    return isinstance(dtype, np.dtype) and dtype.kind in KINDS and dtype.itemsize <= 8
