"""Finding a data source, method or measure by its name in a study file.

A name is one of ours, or ``module:attribute`` of a module of the user's. So a new data set, method
or measure needs a function and its name in a study: nothing of ours changes. Modules of Python and
of installed packages are refused, so that a study file alone can run nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sysconfig
from collections.abc import Mapping
from pathlib import Path
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
    >>> find({}, "measure", "os:system")
    Traceback (most recent call last):
        ...
    ValueError: cannot load the measure 'os:system': os is no module of your own; write one ...
    """
    if name in table:
        return table[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"unknown {what} {name!r}{suggest(name, table)}")
    if not _is_own(module.partition(".")[0]):
        raise ValueError(
            f"cannot load the {what} {name!r}: {module} is no module of your own; write one beside "
            "the study file that imports what you need"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of the user's may fail in any way
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot load the {what} {name!r}: {reason}") from error


def _is_own(package: str) -> bool:
    """Whether it is a Python file outside of Python and of installed packages; imports nothing."""
    try:
        found = importlib.util.find_spec(package)
    except (ValueError, ImportError):
        return False
    if found is None:
        return True  # to import it is an error, which says so
    if found.origin is None or not found.has_location:
        return False
    installed = {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    file = Path(found.origin).resolve()
    return not any(file.is_relative_to(Path(folder).resolve()) for folder in installed)
