"""Finding a data source, method or measure by its name in a study file.

A name is one of ours, or ``module:attribute`` of any importable module. So a new data set, method
or measure needs a function and its name in a study: nothing of ours changes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from svidag.run.settings import suggest


def find(table: Mapping[str, Any], what: str, name: str) -> Any:
    """Look a name up among ours, or import ``module:attribute``.

    Examples
    --------
    >>> find({"double": len}, "measure", "doubel")
    Traceback (most recent call last):
        ...
    ValueError: unknown measure 'doubel'; did you mean 'double'?
    >>> find({}, "measure", "math:sqrt")(4.0)
    2.0
    """
    if name in table:
        return table[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"unknown {what} {name!r}{suggest(name, table)}")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of the user's may fail in any way
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot load the {what} {name!r}: {reason}") from error
