"""How each kind of law is taken apart into plain values and arrays, and put together again.

A kind has a name that never changes, the class it stands for, and two functions, whose module is
imported when the kind is met: ``pack_x(law, problem)`` gives the parts, without those that the
problem holds, and ``unpack_x(parts, problem)`` the law.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from svidag import __version__
from svidag.data import Scaling
from svidag.problem import Problem


@dataclass(frozen=True)
class Kind:
    """A law's class, ``module:name``, and the functions that know it, ``module:suffix``."""

    law: str
    functions: str

    def fits(self, law: object) -> bool:
        """Whether a law is of this kind."""
        return self.law == f"{type(law).__module__}:{type(law).__name__}"

    def pack(self, law: Any, problem: Problem | None) -> dict[str, Any]:
        """The parts of a law."""
        return self._function("pack")(law, problem)

    def unpack(self, parts: Mapping[str, Any], problem: Problem | None) -> Any:
        """The law of these parts."""
        return self._function("unpack")(parts, problem)

    def _function(self, verb: str) -> Any:
        module, suffix = self.functions.split(":")
        return getattr(importlib.import_module(module), f"{verb}_{suffix}")


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "graphs": Kind("svidag.posterior:DrawnGraphs", "svidag.io.graph_laws:graphs"),
        "exact orders": Kind("svidag.exact.orders:OrderLaw", "svidag.io.exact_laws:orders"),
        "exact structures": Kind(
            "svidag.exact.structures:StructureLaw", "svidag.io.exact_laws:structures"
        ),
        "orders": Kind("svidag.inference.order_law:OrderLaw", "svidag.io.graph_laws:orders"),
        "visited graphs": Kind(
            "svidag.inference.order_law:VisitedGraphs", "svidag.io.graph_laws:visited"
        ),
        "guide": Kind("svidag.inference.fitted:GuideLaw", "svidag.io.network_laws:guide"),
        "linear": Kind("svidag.mechanisms.linear_law:LinearLaw", "svidag.io.collapsed_laws:linear"),
        "wide": Kind("svidag.mechanisms.wide_law:WideLaw", "svidag.io.collapsed_laws:wide"),
        "networks": Kind("svidag.inference.fitted:NetworkLaw", "svidag.io.network_laws:networks"),
    }
)
"""Every kind by its name in a file."""


def pack(law: object, problem: Problem | None) -> dict[str, Any] | None:
    """A law as its kind and its parts; no law is None.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.posterior import DrawnGraphs
    >>> pack(DrawnGraphs(np.zeros((1, 2, 2), np.uint8), np.ones(1)), None)["kind"]
    'graphs'
    """
    if law is None:
        return None
    for name, kind in KINDS.items():
        if kind.fits(law):
            return {"kind": name, "parts": kind.pack(law, problem)}
    raise ValueError(
        f"a posterior with a {type(law).__module__}.{type(law).__name__} cannot be saved; "
        f"known kinds are {list(KINDS)}. Its draws can: "
        "Posterior(names, DrawnGraphs(posterior.sample(1000), np.full(1000, 1e-3)))"
    )


def unpack(packed: Mapping[str, Any] | None, problem: Problem | None) -> Any:
    """The law that `pack` was given."""
    if packed is None:
        return None
    if packed["kind"] not in KINDS:
        raise ValueError(
            f"a law of the kind {packed['kind']!r} is unknown to svidag {__version__}; "
            f"known kinds are {list(KINDS)}"
        )
    return KINDS[packed["kind"]].unpack(packed["parts"], problem)


def require_shape(array: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return an array that has this shape; −1 stands for any size."""
    if not isinstance(array, np.ndarray) or array.ndim != len(shape):
        raise ValueError(f"{what} must be an array of {len(shape)} axes")
    if any(wanted not in (-1, found) for wanted, found in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{what} has the shape {array.shape}; expected {shape}")
    return array


def pack_scaling(scaling: Scaling | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Centre and scale of every column."""
    return None if scaling is None else (scaling.centre, scaling.scale)


def unpack_scaling(parts: tuple[np.ndarray, np.ndarray] | None) -> Scaling | None:
    """The units of the table."""
    return None if parts is None else Scaling(*parts)
