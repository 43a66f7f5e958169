"""What commands tell a person: results on standard output, all else on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

BAD_INPUT = 2
FAILED_FIT = 1
INTERRUPTED = 130


def output() -> Console:
    """Standard output, for results. Made anew, so that it follows redirection."""
    return Console(highlight=False, markup=False, emoji=False)


def tell(text: str) -> None:
    """Print a line of a result, however long."""
    output().print(printable(text), soft_wrap=True)


def note(text: str) -> None:
    """Tell something that is no result."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.print("\n".join(map(printable, text.split("\n"))), soft_wrap=True)


def printable(text: str) -> str:
    r"""The text with all that would steer a terminal, or end the line, spelt out.

    Examples
    --------
    >>> printable("größe\x1b[2J")
    'größe\\x1b[2J'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def told() -> Iterator[None]:
    """Turn errors into one clear line and an exit code, warnings into notes.

    2: the input is wrong; 1: the fit failed; 130: interrupted, with what was done saved.
    """
    from svidag.run.loop import FitError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _note_warning
            yield
    except FitError as error:
        note(f"error: {error}")
        raise typer.Exit(FAILED_FIT) from None
    except (ValueError, OSError, ImportError) as error:
        note(f"error: {error}")
        raise typer.Exit(BAD_INPUT) from None
    except MemoryError as error:
        note(f"error: not enough memory. {error}".rstrip())
        raise typer.Exit(FAILED_FIT) from None
    except KeyboardInterrupt as interrupt:
        note(str(interrupt) or "interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _note_warning(message: Any, *_: Any, **__: Any) -> None:
    note(f"note: {message}")
