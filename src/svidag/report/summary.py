"""A posterior in a few lines: the verdict, the mechanism, and what is known of each pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape

from svidag.posterior import Posterior
from svidag.posterior.decisions import Decisions, Pair, PairStatus, decisions
from svidag.posterior.diagnostics import Diagnostics
from svidag.posterior.mixture import MixtureDetails
from svidag.posterior.sensitivity import SURE
from svidag.posterior.text import counted, probability
from svidag.report.drawing import draw_decisions
from svidag.report.verdict import Verdict, judge

PAIRS = 40
"""Pairs listed; the report has all of them."""
HEADS = ("pair", "status", "P(→)", "P(←)", "P(connected)", "direction rests on")
"""Columns of the table by pair, in terminal, notebook and report."""
DRAWN = 30
"""Variables up to which a notebook shows the drawing beside the table."""


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What a posterior says, to print.

    Attributes
    ----------
    title
        What it is the posterior of.
    mechanism
        How effects follow from causes, and whether the fit chose that.
    verdict
        Whether it may be relied on, and why.
    decisions
        What is known of each pair.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.two_node("linear", n=500)
    >>> print(str(svidag.exact.posterior(example.data).summary()).splitlines()[0])
    Posterior over graphs of 2 variables (x1, x2); exact, linear mechanisms, exact; 500 rows
    """

    title: str
    mechanism: str
    verdict: Verdict
    decisions: Decisions
    drawing: str = ""

    @property
    def counts(self) -> str:
        """How many pairs have each status, in a sentence."""
        return count_line(self.decisions)

    def __str__(self) -> str:
        table = _aligned([HEADS, *pair_rows(self.decisions)[:PAIRS]])
        lines = [self.title, self.mechanism, *verdict_lines(self.verdict), self.counts]
        return "\n".join([*lines, *table, *more_line(self.decisions)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """The same as a piece of HTML, with the drawing where it is legible."""
        reasons = "".join(f"<li>{escape(r.text)}</li>" for r in self.verdict.reasons)
        heads = "".join(f"<th>{escape(head)}</th>" for head in HEADS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in pair_rows(self.decisions)[:PAIRS]
        )
        more = "".join(f"<p>{escape(line)}</p>" for line in more_line(self.decisions))
        return (
            f"<div><p>{escape(self.title)}. {escape(self.mechanism)}</p>"
            f"<p><strong>{escape(self.verdict.level.capitalize())}.</strong> "
            f"{escape(self.verdict.headline)}.</p><ul>{reasons}</ul>{self.drawing}"
            f"<p>{escape(self.counts)}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
        )


def summarise(posterior: Posterior) -> Summary:
    """The summary of a posterior; see `Posterior.summary`."""
    found = decisions(posterior)
    drawn = len(posterior.names) <= DRAWN
    return Summary(
        title=repr(posterior),
        mechanism=mechanism_line(posterior),
        verdict=judge(posterior),
        decisions=found,
        drawing=draw_decisions(posterior, found).svg if drawn else "",
    )


def mechanism_line(posterior: Posterior) -> str:
    """How effects follow from causes in the fit, and by how much that was preferred."""
    facts = posterior.diagnostics
    if facts is None:
        return "How effects follow from causes is not recorded."
    return " ".join([_mechanism(facts), *_changes(posterior)])


def _changes(posterior: Posterior) -> list[str]:
    """Which mechanisms change with the environment."""
    problem, facts = posterior.problem, posterior.diagnostics
    if facts is None or facts.changes is None:
        return []
    found = posterior.changes()["changes"].to_dict()
    named = () if problem is None or problem.environments is None else problem.environments.columns
    where = "with " + " and ".join(named) if named else "with the environment"
    sure = [str(name) for name, p in found.items() if p > SURE]
    open_ = [f"{name} ({p:.2f})" for name, p in found.items() if 1 - SURE <= p <= SURE]
    subject = f"That of {', '.join(sure)}" if sure else "None surely"
    first = f"{subject} changes {where}."
    return [first, *([f"Open: {', '.join(open_)}."] if open_ else [])]


def _mechanism(facts: Diagnostics) -> str:
    if isinstance(facts.details, MixtureDetails):
        return _mixed(facts.details)
    if facts.mechanism_margin is None:
        return f"Mechanisms: {facts.mechanism}."
    return (
        f"Mechanisms: {facts.mechanism}, chosen by the fit over "
        f"{facts.mechanism_runner_up or 'other'} ones by "
        f"{facts.mechanism_margin:,.1f} in log evidence{_form(facts)}."
    )


def _form(facts: Diagnostics) -> str:
    return "" if facts.mechanism == "linear" else "; other mechanisms may turn favoured arrows"


def _mixed(details: MixtureDetails) -> str:
    kinds = Counter(
        f"{each['mechanism']} on {each['margins']} values" for each in details.specifications
    )
    listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
    return f"Mechanisms: a mixture of {details.fits} fits of {details.bag_rows:,} rows ({listed})."


def count_line(found: Decisions) -> str:
    """How many pairs have each status, in the words of the report.

    Examples
    --------
    >>> count_line(Decisions(("a", "b"), ()))
    'Of 0 pairs: 0 decided arrows, 0 favoured, 0 connected with direction open, ...'
    """
    count = found.count
    return (
        f"Of {counted(len(found.pairs), 'pair')}: "
        f"{counted(count[PairStatus.DECIDED], 'decided arrow')}, "
        f"{count[PairStatus.FAVOURED]} favoured, "
        f"{count[PairStatus.CONNECTED]} connected with direction open, "
        f"{count[PairStatus.OPEN]} open, {count[PairStatus.ABSENT]} not connected."
    )


def pair_rows(found: Decisions) -> list[tuple[str, ...]]:
    """The table by pair, without pairs that are hardly connected."""
    return [_row(found.names, pair) for pair in found.shown()]


def _row(names: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    return (
        f"{names[pair.cause]} {pair.sign} {names[pair.effect]}",
        str(pair.status),
        probability(pair.forward),
        probability(pair.backward),
        probability(pair.connected),
        pair.basis or "open",
    )


def more_line(found: Decisions) -> list[str]:
    """How many pairs the table leaves out."""
    left = len(found.shown()) - PAIRS
    return [f"and {counted(left, 'pair')} more, in the report"] if left > 0 else []


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict and its reasons, worst first."""
    return [
        f"Verdict: {verdict.level}. {verdict.headline}.",
        *(f"  {r.text}" for r in verdict.reasons),
    ]


def _aligned(table: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
