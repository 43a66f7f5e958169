"""The command line, run in this process."""

from typing import Any

from typer.testing import CliRunner

from svidag.cli import app


def run(*arguments: object, columns: int = 160) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": str(columns)})


def done(*arguments: object, columns: int = 160) -> Any:
    result = run(*arguments, columns=columns)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result
