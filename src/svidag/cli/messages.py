"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.status import Status

ONE_VALUE = re.compile(r"""\b(missing|mechanism|method)=(['"])([\w-]+)\2""")
BY_COLUMN = re.compile(
    r"""\b(transforms|kinds)=\{('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): '([\w-]+)'\}"""
)
"""Arguments of `svidag.fit` in messages, that the command line has as options."""
NAMED = re.compile(r"`(missing|mechanism|method|groups|coarsen|environments|bags|minutes)(?:=?)`")

BAD_INPUT = 2
FAILED_FIT = 1
INTERRUPTED = 130


def output() -> Console:
    """A console on standard output, for results; a new one each time follows redirection."""
    return Console(highlight=False, markup=False, emoji=False)


def write_line(text: str) -> None:
    """Print a line of a result, however long."""
    output().print(printable(text), soft_wrap=True)


def write_note(text: str) -> None:
    """Print text that is not a result on standard error."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.print("\n".join(map(printable, text.split("\n"))), soft_wrap=True)


def waiting(text: str) -> Status:
    """While this is open, a terminal shows what is being done."""
    return Console(stderr=True, highlight=False).status(text)


def printable(text: str) -> str:
    r"""The text with control characters and line ends written as escape sequences.

    Examples
    --------
    >>> printable("größe\x1b[2J")
    'größe\\x1b[2J'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def as_options(text: str) -> str:
    r"""The text with arguments of `svidag.fit` as the options that can be pasted into a command.

    Examples
    --------
    >>> as_options("consider transforms={'mean area': 'log'}, or missing=\"drop\"")
    "consider --transform 'mean area=log', or --missing drop"
    >>> as_options("name the column in `groups=`")
    'name the column in `--groups`'
    """

    def by_column(found: re.Match[str]) -> str:
        name, value = ast.literal_eval(found[2]), found[3]
        return f"--{found[1].removesuffix('s')} {shlex.quote(f'{name}={value}')}"

    return BY_COLUMN.sub(by_column, ONE_VALUE.sub(r"--\1 \3", NAMED.sub(r"`--\1`", text)))


@contextmanager
def explain_errors() -> Iterator[None]:
    """Print errors as one line and exit with a code; print warnings as notes.

    Codes: 2 if the input is wrong, 1 if the fit failed, 130 if it was interrupted.
    """
    from svidag.run.loop import FitError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _write_warning
            yield
    except FitError as error:
        write_note(f"error: {error}")
        raise typer.Exit(FAILED_FIT) from None
    except (ValueError, OSError, ImportError) as error:
        write_note(as_options(f"error: {error}"))
        raise typer.Exit(BAD_INPUT) from None
    except MemoryError as error:
        write_note(f"error: not enough memory. {error}".rstrip())
        raise typer.Exit(FAILED_FIT) from None
    except KeyboardInterrupt as interrupt:
        write_note(str(interrupt) or "interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _write_warning(message: Any, *_: Any, **__: Any) -> None:
    write_note(as_options(f"note: {message}"))
