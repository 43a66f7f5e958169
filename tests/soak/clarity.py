"""Whether an error is one that a user understands: ours, raised on purpose, about a named thing."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable
from pathlib import Path

import svidag

HOME = str(Path(svidag.__file__).parent)
PLAIN = (ValueError, TypeError, OSError, MemoryError)
"""Errors of Python's own that the project raises at its boundary, and subclasses of `OSError`."""
KEPT = 300
"""Characters of a message that are kept."""


def unclear(error: BaseException, names: Iterable[str]) -> str | None:
    """Why an error is unclear; None if it is clear.

    A clear error is of a plain type or of one that svidag defines, comes from a ``raise`` of
    svidag's own (an error of the file system may come from Python, if it names the file), and its
    message has one of the names: an argument, a setting, a column or a file.
    """
    message = str(error)
    kind = type(error)
    if isinstance(error, Warning):
        return _told(error, "a warning of a library")
    ours = kind.__module__.startswith("svidag.")
    if not ours and kind not in PLAIN and not isinstance(error, OSError):
        return _told(error, "of a type that is not for users")
    if not message.strip():
        return _told(error, "without a message")
    if not any(name in message for name in names):
        return _told(error, "names no argument, setting, column or file")
    if isinstance(error, OSError) and error.filename is not None:
        return None
    return None if _raised_on_purpose(error) else _told(error, "not raised by svidag itself")


def _raised_on_purpose(error: BaseException) -> bool:
    """Whether the last line of the traceback is a ``raise`` in the package."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return last.filename.startswith(HOME) and line.startswith("raise")


def _told(error: BaseException, why: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"
    ours = [f for f in frames if f.filename.startswith(HOME)]
    if ours:
        where += f", from {Path(ours[-1].filename).relative_to(HOME)}:{ours[-1].lineno}"
    return f"{why}: {type(error).__name__} at {where}: {str(error)[:KEPT]}"
