"""What commands tell a person: results on standard output, all else on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

BAD_INPUT = 2
FAILED_FIT = 1
INTERRUPTED = 130


def output() -> Console:
    """Standard output, for results. Made anew, so that it follows redirection."""
    return Console(highlight=False)


def note(text: str) -> None:
    """Tell something that is no result."""
    Console(stderr=True, highlight=False).print(escape(text), soft_wrap=True)


@contextmanager
def told() -> Iterator[None]:
    """Turn errors into one clear line and an exit code, warnings into notes.

    2: the input is wrong; 1: the fit failed; 130: interrupted, with what was done saved.
    """
    from svidag.inference.loop import FitError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _note_warning
            yield
    except FitError as error:
        note(f"error: {error}")
        raise typer.Exit(FAILED_FIT) from None
    except (ValueError, OSError) as error:
        note(f"error: {error}")
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt as interrupt:
        note(str(interrupt) or "interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _note_warning(message: Any, *_: Any, **__: Any) -> None:
    note(f"note: {message}")
