"""`svidag methods`: how a posterior can be found, and what can be set."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from svidag.cli.messages import explain_errors, output, write_line


def methods(
    name: Annotated[
        str | None, typer.Argument(help="A method, to list its settings; all methods otherwise.")
    ] = None,
) -> None:
    """List the methods, or the settings of one with their defaults."""
    from svidag.methods.registry import METHODS, find_method

    with explain_errors():
        if name is None:
            table = Table("method", "mechanisms", "what it is", box=None)
            for known, method in METHODS.items():
                table.add_row(known, ", ".join(method.support.mechanisms), method.summary)
            output().print(table)
            write_line("`svidag methods NAME` lists the settings of one of them.")
            return
        method = find_method(name)
        write_line(f"{method.name}: {method.summary}")
        table = Table("setting", "default", "value", "what it does", box=None)
        for field in method.describe():
            table.add_row(field.name, repr(field.default), field.type, field.help)
        output().print(table)
        write_line("Set one by --set NAME=VALUE.")
