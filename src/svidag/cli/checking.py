"""`svidag check`: what a table asks for, as a table, and whether it can be fitted."""

from __future__ import annotations

import shlex

import numpy as np
from rich import box
from rich.table import Table

from svidag.cli.messages import as_options, output, printable, write_line, write_note
from svidag.cli.run_directory import Request
from svidag.data import Dataset
from svidag.data.columns import listing
from svidag.data.imputation import complete_rows, impute
from svidag.data.survey import Advice, survey

LISTED = 6
"""Columns named in a row of the table."""


def check_table(request: Request) -> None:
    """Print what is worth knowing about the table; raise what makes a fit impossible."""
    frame = request.frame()
    roles = [name for name in request.roles(frame.columns) if name in frame.columns]
    variables = frame.drop(columns=roles)
    found = survey(variables, request.kinds)
    if request.missing != "error":
        found = [advice for advice in found if not advice.option.startswith("--missing")]
    listed = ", ".join(repr(str(name)) for name in variables.columns)
    write_line(f"{len(frame)} rows, {variables.shape[1]} columns: {listed}")
    if found:
        output().print(advice_table(found))
        for line in _commands(request, found):
            write_line(line)
    table = request.dataset()
    for line in _kind_lines(table):
        write_line(line)
    table = _usable(table, request)
    findings = table.audit()
    prior = request.prior()
    if prior is not None:
        prior.bind(table.names)
    for finding in findings:
        if finding.kind != "varsortability":  # a fit standardises
            write_note(as_options(f"note: {finding.message}"))
    write_line("No problem was found: the table can be fitted.")


def advice_table(found: list[Advice]) -> Table:
    """What was found, one thing to a line."""
    table = Table(pad_edge=False, box=box.SIMPLE_HEAD)
    for head in ("columns", "found", "what to do", "option"):
        table.add_column(head, overflow="fold")
    for advice in found:
        more = len(advice.columns) - LISTED
        names = ", ".join(advice.columns[:LISTED]) + (f" and {more} more" if more > 0 else "")
        texts = (names or "the table", advice.found, advice.advice, advice.option)
        table.add_row(*map(printable, texts))
    return table


def _usable(data: Dataset, request: Request) -> Dataset:
    """The table without missing cells, where something was said about them."""
    if request.missing == "drop":
        return complete_rows(data)[0]
    if request.missing == "impute" and np.isnan(data.values).any():
        return impute(data, 1, np.random.default_rng(0))[0]
    return data


def _kind_lines(table: Dataset) -> list[str]:
    """Every column that is not continuous, with its levels."""
    lines = []
    for name, kind, levels in zip(table.names, table.kinds, table.levels, strict=True):
        if levels:
            lines.append(f"  {name!r} is {kind}: {listing(levels)}")
        elif kind != "continuous":
            lines.append(f"  {name!r} is a {kind}")
    if lines:
        others = table.m - len(lines)
        lines = ["Kinds of columns (--kind COLUMN=KIND says otherwise):", *lines]
        words = "other column is" if others == 1 else "other columns are"
        lines += [f"  {others} {words} continuous"] if others else []
    return lines


def _commands(request: Request, found: list[Advice]) -> list[str]:
    """What can be pasted: a fit that follows all advice, and a file with what is likely known."""
    fit, lines = _command(request, found), []
    if any(advice.option and not advice.option.startswith("--knowledge") for advice in found):
        lines.append(f"To do all of this: {fit}")
    for advice in found:
        if advice.option.startswith("--knowledge") and request.knowledge is None:
            content = shlex.quote(advice.advice.partition("knowledge.yaml: ")[2])
            lines.append(f"If nothing causes {listing(advice.columns)}:")
            lines += [f"  echo {content} > knowledge.yaml", f"  {fit} {advice.option}"]
    return lines


def _command(request: Request, found: list[Advice]) -> str:
    """One command that follows all advice; of several groups or batches the first is taken."""
    options: dict[str, list[str]] = {}
    for advice in found:
        name, _, value = advice.option.partition(" ")
        if name and name != "--knowledge":
            options.setdefault(name, []).append(shlex.split(value)[0])
    drop = [*request.drop, *options.pop("--drop", [])]
    parts = ["svidag", "fit", request.data, *_given(request)]
    parts += [text for name in drop for text in ("--drop", name)]
    for name, values in options.items():
        joined = ",".join(values) if name == "--environments" else values[0]
        parts += [name, joined]
    return shlex.join(parts)


def _given(request: Request) -> list[str]:
    """The options that were given, but for columns to drop."""
    single = {
        "--knowledge": request.knowledge,
        "--interventions": request.interventions,
        "--environments": request.environments,
        "--groups": request.groups,
        "--missing": None if request.missing == "error" else request.missing,
    }
    found = [text for name, value in single.items() if value for text in (name, value)]
    for name, value in (("--transform", request.transform), ("--kind", request.kinds)):
        if isinstance(value, str):
            found += [name, value]
        elif value:
            found += [text for pair in value.items() for text in (name, "=".join(pair))]
    return found
