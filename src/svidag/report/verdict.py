"""Whether a posterior may be relied on, in three words and with the reasons for them.

The computation is judged by the reasons that the fit itself reports; here these meet what the audit
found in the data and how well the mechanisms fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from svidag.data import Finding
from svidag.methods.registry import METHODS
from svidag.posterior import Posterior
from svidag.posterior.diagnostics import Diagnostics, Level, Reason
from svidag.report.misfit import misfit

CLOSE_CALL = 3.0
"""Difference in log evidence below which the choice of the mechanism is not clear."""
BROKEN = 1e-6
"""Probability from which hard knowledge is broken; rounding stays below."""
LISTED = 4
"""Columns named in a reason; the data section names them all."""


SEVERITY = tuple(Level)


@dataclass(frozen=True)
class Verdict:
    """The worst of its reasons, which come worst first, and what the model takes for granted.

    Examples
    --------
    >>> Verdict((Reason(Level.TRUST, "computed exactly"),), ()).level
    <Level.TRUST: 'trust'>
    """

    reasons: tuple[Reason, ...]
    assumptions: tuple[str, ...]

    @property
    def level(self) -> Level:
        """The verdict in one word or three."""
        return max((reason.level for reason in self.reasons), key=SEVERITY.index)

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return {
            Level.TRUST: "The computation can be relied on, as far as the model's assumptions hold",
            Level.CAREFUL: "Usable, with the reservations below",
            Level.NOT: "These probabilities are not the posterior that was asked for",
        }[self.level]


def judge(posterior: Posterior) -> Verdict:
    """Weigh what the fit says about itself and what the audit found in the data.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> judge(svidag.exact.posterior(example.data)).level
    <Level.TRUST: 'trust'>
    """
    facts = posterior.diagnostics
    if facts is None:
        text = "Nothing is recorded about how these graphs were computed."
        computed = [Reason(Level.CAREFUL, text)]
    else:
        computed = [*facts.reasons, *_choice(facts), *_hints(posterior)]
    reasons = [*computed, *_knowledge(posterior), *_data(posterior)]
    reasons.sort(key=lambda reason: -SEVERITY.index(reason.level))
    return Verdict(tuple(reasons), tuple(_assumptions(posterior)))


def findings(posterior: Posterior) -> tuple[Finding, ...]:
    """What the audit of the data found, where it is known."""
    return () if posterior.problem is None else posterior.problem.findings


def _knowledge(posterior: Posterior) -> Iterator[Reason]:
    """Hard knowledge holds in every draw, or something is wrong with the fit."""
    if posterior.problem is None:
        return
    prior, edges = posterior.problem.prior, posterior.edge_probabilities().to_numpy()
    broken = (prior.required & (edges < 1 - BROKEN)) | (~prior.allowed & (edges > BROKEN))
    for i, j in np.argwhere(broken)[:LISTED]:
        arrow = f"‘{posterior.names[i]}’ → ‘{posterior.names[j]}’"
        kind = "required" if prior.required[i, j] else "ruled out"
        text = f"{arrow} was {kind}, and has a probability of {edges[i, j]:.3f}: the fit is wrong."
        yield Reason(Level.NOT, text)


def _choice(facts: Diagnostics) -> Iterator[Reason]:
    margin = facts.mechanism_margin
    if margin is not None and margin < CLOSE_CALL:
        yield Reason(
            Level.CAREFUL,
            f"{facts.mechanism.capitalize()} and {facts.mechanism_runner_up or 'other'} mechanisms "
            f"explain the data about equally well (a difference of {margin:.1f} in log evidence); "
            f"{facts.mechanism} was chosen. Try the other one too.",
        )


def _hints(posterior: Posterior) -> Iterator[Reason]:
    """What residuals hint at: a common cause that the table lacks, or rows that belong together."""
    facts = posterior.diagnostics
    check = None if facts is None or facts.sensitivity is None else facts.sensitivity.check
    if check is None:
        return
    if not check.explained:
        first, second = check.pair
        yield Reason(
            Level.CAREFUL,
            f"A hint: ‘{first}’ and ‘{second}’ may have a common cause that the table lacks, for "
            "what their probable causes do not explain of them is related. A mechanism of another "
            "form, batches or measurement error would leave the same trace. Hidden causes of "
            "linear Gaussian tables leave none, so that no hint is no proof.",
        )
    if not check.rows_independent:
        rows = 0 if posterior.problem is None else posterior.problem.data.n_rows
        worth = f" ({check.effective_rows(rows):,.0f} of {rows:,})" if rows else ""
        yield Reason(
            Level.CAREFUL,
            "A hint: rows seem to be in time order or to belong together, so that they are worth "
            f"fewer independent ones{worth}. Name the column of the subject or family in "
            "`groups=`, or that number in `coarsen=`.",
        )


def _data(posterior: Posterior) -> Iterator[Reason]:
    standardised = posterior.problem is not None and posterior.problem.scaling is not None
    unconcerned = {"varsortability"} if standardised else set()
    if posterior.mechanism == "flexible":
        unconcerned |= {"skew", "outlier"}  # noise may have any shape
    relevant = [f for f in findings(posterior) if f.kind not in unconcerned]
    for kind, group in groupby(sorted(relevant, key=lambda f: f.kind), key=lambda f: f.kind):
        yield from _finding_reasons(kind, list(group))
    if posterior.problem is None:
        yield Reason(
            Level.CAREFUL, "This posterior does not carry its data, so that they cannot be checked."
        )
        return
    yield from _discrete(posterior)
    found = misfit(posterior)
    if found.non_gaussian:
        curved = posterior.mechanism == "nonlinear"
        yield Reason(
            Level.NOT if curved else Level.CAREFUL,
            f"Given their probable causes, the noise of {_some(found.non_gaussian)} is far from "
            "Gaussian"
            + (
                ", which a network takes for curvature: arrows may be sure and wrong"
                if curved
                else ""
            )
            + ('. Try mechanism="flexible".' if _has_flexible(posterior) else "."),
        )
    if found.curved:
        yield Reason(
            Level.CAREFUL,
            f"The relation of {_some(found.curved)} to their causes is not a straight line, and "
            "the model takes it for one"
            + (': try mechanism="flexible".' if _has_flexible(posterior) else "."),
        )


def _has_flexible(posterior: Posterior) -> bool:
    """Whether the method could have taken flexible mechanisms."""
    facts = posterior.diagnostics
    method = None if facts is None else METHODS.get(facts.method)
    return method is not None and "flexible" in method.support.mechanisms


PLURAL = {
    "near-collinear": "columns are nearly linear combinations of others: arrows among them are "
    "hard to tell apart",
    "skew": "columns are heavily skewed, and the model takes noise to be Gaussian: transform them",
    "outlier": "columns have extreme values, and the model takes noise to be Gaussian",
}


def _finding_reasons(kind: str, group: Sequence[Finding]) -> Iterator[Reason]:
    if len(group) == 1 or kind not in PLURAL:
        for finding in group:
            yield Reason(Level.CAREFUL, f"{finding.message[:1].upper()}{finding.message[1:]}.")
        return
    text = f"{len(group)} {PLURAL[kind]} ({_some(f.columns[0] for f in group)})."
    yield Reason(Level.CAREFUL, text)


def _discrete(posterior: Posterior) -> Iterator[Reason]:
    assert posterior.problem is not None
    data = posterior.problem.data
    low, high = data.values.min(axis=0), data.values.max(axis=0)
    two = ((data.values == low) | (data.values == high)).all(axis=0)
    names = [data.names[j] for j in np.flatnonzero(two & data.continuous)]
    if names:
        yield Reason(
            Level.CAREFUL,
            f"Only two different values in {_some(names)}: the model takes values to be "
            "continuous, and what points to such a column is judged poorly.",
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return ", ".join(f"‘{name}’" for name in listed[:LISTED]) + more


def _assumptions(posterior: Posterior) -> Iterator[str]:
    facts = posterior.diagnostics
    yield "No common cause of two variables is missing from the table."
    yield "No feedback loops."
    yield "Rows are independent of each other."
    if posterior.problem is not None and posterior.problem.missing is not None:
        yield (
            "Values are missing at random: whether a cell is missing may depend on the known cells "
            "of its row, but not on its own value. The table cannot tell."
        )
    if facts is not None and facts.mechanism == "flexible":
        yield (
            "Noise is added to what causes do; it may have any smooth shape, and its size may "
            "change with the causes, but its shape does not."
        )
    elif facts is not None and facts.mechanism == "discrete":
        yield "Every combination of causes has its own probabilities."
    elif facts is not None and facts.mechanism == "mixed":
        yield (
            "Continuous variables, and log(1 + x) of counts, have additive Gaussian noise; "
            "discrete ones follow from their causes by logits."
        )
    else:
        yield "Noise is additive and Gaussian."
    if facts is not None and facts.mechanism == "linear":
        yield "Effects are linear in their causes."
    if posterior.problem is not None and posterior.problem.data.intervened.any():
        yield "A value set by an intervention does not depend on its causes."
    if posterior.problem is not None and posterior.problem.environments is not None:
        yield "Nothing in the table causes the environment of a row."
    if facts is None or facts.graph_weights == "order":
        yield (
            "All orders of the variables are equally probable beforehand, which favours graphs "
            "that agree with many of them."
        )
