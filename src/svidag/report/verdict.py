"""Whether a posterior may be relied on, in three words and with the reasons for them.

Every threshold is a constant below. What a fit does not report about itself is never taken as good.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from svidag.data import Finding
from svidag.posterior import Posterior
from svidag.report.misfit import misfit

AGREEMENT, DISAGREEMENT = 0.05, 0.15
"""Largest difference of an arrow's probability between two halves of the chains."""
ENOUGH_ORDERS = 100
"""Effective orders of all chains together."""
MISSING = 0.05
"""Share of the probability of a variable's parents that may be missing or left out."""
NOISY, UNKNOWN = 1.5, 2.0
"""Nats by which estimates of an order's evidence may scatter, and fall short, under a guide."""
ENOUGH_DRAWS, TOO_FEW_DRAWS = 400, 100
"""Effective draws after reweighting: standard errors of a probability up to 0.025 and 0.05."""
MANY_REJECTED = 0.05
"""Share of steps left out because they were not finite."""
CLIMBING = 0.02
"""Gain of the bound in the last tenth of the steps, as a share of the whole gain."""
CLOSE_CALL = 3.0
"""Nats between two mechanisms below which the choice between them is not clear."""
BROKEN = 1e-6
"""Probability from which hard knowledge is broken; rounding stays below."""
LISTED = 4
"""Columns named in a reason; the data section names them all."""


class Level(enum.StrEnum):
    """The three verdicts, best first."""

    TRUST = "trust"
    CAREFUL = "be careful"
    NOT = "do not trust"


SEVERITY = tuple(Level)


@dataclass(frozen=True)
class Reason:
    """One thing that was looked at: how it came out, and a sentence that says so."""

    level: Level
    text: str


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
    computed = [*_exact(facts), *_chains(facts), *_published(facts), *_weights(facts)]
    if not computed:
        text = "Nothing is recorded about how these graphs were computed."
        computed = [Reason(Level.CAREFUL, text)]
    reasons = [*computed, *_knowledge(posterior), *_choice(facts), *_data(posterior)]
    reasons.sort(key=lambda reason: -SEVERITY.index(reason.level))
    return Verdict(tuple(reasons), tuple(_assumptions(posterior)))


def findings(posterior: Posterior) -> tuple[Finding, ...]:
    """What the audit of the data found, where it is known."""
    if posterior.problem is not None:
        return posterior.problem.findings
    found = posterior.diagnostics.get("findings", ())
    return tuple(finding for finding in found if isinstance(finding, Finding))


def _exact(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if "exact" in (facts.get("method"), facts.get("status")):
        yield Reason(
            Level.TRUST,
            "Computed exactly: every graph and every order is accounted for, nothing is sampled.",
        )


def _chains(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if "half_disagreement" in facts:
        yield _halves(float(facts["half_disagreement"]))
    orders = float(facts.get("effective_orders", ENOUGH_ORDERS))
    if orders < ENOUGH_ORDERS:
        text = f"The chains are worth {orders:.0f} independent orders; run longer."
        yield Reason(Level.CAREFUL, text)
    yield from _tables(facts)
    yield from _guides(facts)


def _tables(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if "settled" not in facts:
        return
    outside, left_out = float(facts["outside"]), float(facts["left_out"])
    if facts["status"] == "time":
        text = "Time ran out before the chains agreed: what is stated here was cut short."
        yield Reason(Level.CAREFUL, text)
    if not facts["searched_again"]:
        yield Reason(
            Level.NOT,
            "Time ran out before a fresh search could look for possible parents that are missing.",
        )
    elif not facts["settled"] or outside > MISSING:
        yield Reason(
            Level.NOT,
            f"A fresh search still found possible parents that the fit had not considered (up to "
            f"{max(outside, MISSING):.0%} of the probability of a variable's parents): arrows are "
            "missing. Allow more time.",
        )
    elif not facts["searches_agree"]:
        yield Reason(
            Level.NOT,
            "Only one of several independent searches came to these graphs; better ones may exist.",
        )
    else:
        yield Reason(
            Level.TRUST,
            "Independent searches came to the same graphs, and a fresh one found no possible "
            "parents that the fit had missed.",
        )
    if left_out > MISSING:
        yield Reason(
            Level.CAREFUL,
            f"Up to {left_out:.0%} of the probability of a variable's parents is spread over very "
            "many sets, each of them improbable, that were left out.",
        )


def _guides(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if "estimate_spread" not in facts:
        return
    if facts["estimate_spread"] is None:
        text = "The guide was not corrected: its graphs follow the guide, not the posterior."
        yield Reason(Level.CAREFUL, text)
        return
    spread, missing = float(facts["estimate_spread"]), float(facts.get("kept_missing", 0.0))
    if not spread <= NOISY:
        yield Reason(
            Level.CAREFUL,
            f"The evidence of an order is known only up to {spread:.1f} nats, so that the chains "
            "stick; train the guide longer (`steps`).",
        )
    if not missing <= UNKNOWN:
        yield Reason(
            Level.CAREFUL,
            f"Orders close to those that were visited lack up to {missing:.1f} nats of their "
            "evidence, so that the chains may shun them; train the guide longer (`steps`).",
        )
    if spread <= NOISY and missing <= UNKNOWN:
        text = "The guide knows the evidence of the orders that matter well enough."
        yield Reason(Level.TRUST, text)


def _halves(difference: float) -> Reason:
    if math.isnan(difference):
        text = "There is a single chain, so that nothing can be compared with it."
        return Reason(Level.CAREFUL, text)
    text = f"Two independent halves of the chains differ by at most {difference:.3f} on any arrow"
    if difference <= AGREEMENT:
        return Reason(Level.TRUST, f"{text}.")
    if difference <= DISAGREEMENT:
        return Reason(Level.CAREFUL, f"{text}; run longer for probabilities closer than that.")
    return Reason(Level.NOT, f"{text}: they have not found the same graphs. Run longer.")


def _weights(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if "structure_ess" not in facts:
        return
    effective = float(facts["structure_ess"])
    text = f"Counting each graph once leaves {effective:.0f} effective draws"
    if effective >= ENOUGH_DRAWS:
        yield Reason(Level.TRUST, f"{text}.")
    elif effective >= TOO_FEW_DRAWS:
        yield Reason(Level.CAREFUL, f"{text}, so that probabilities are rough.")
    else:
        yield Reason(Level.NOT, f"{text}, too few for any probability.")


def _published(facts: Mapping[str, Any]) -> Iterator[Reason]:
    if facts.get("preset") != "paper":
        return
    yield Reason(
        Level.CAREFUL,
        "A variational approximation (Algorithm 1 as published): nothing in the run tells how far "
        "it is from the posterior. The default preset, or the exact posterior, does.",
    )
    trace = facts.get("trace", {})
    steps = int(facts.get("steps", 0))
    yield from _rejections(int(facts.get("rejected_steps", 0)), steps)
    if "bound" in trace:
        yield _bound(np.asarray(trace["bound"], dtype=float))


def _rejections(rejected: int, steps: int) -> Iterator[Reason]:
    if rejected:
        level = Level.NOT if rejected > MANY_REJECTED * steps else Level.CAREFUL
        yield Reason(level, f"{rejected} of {steps} steps were not finite and were left out.")


def _bound(bound: np.ndarray) -> Reason:
    tenth = len(bound) // 10
    if tenth < 2:
        return Reason(Level.NOT, f"{len(bound)} steps are too few to say anything.")
    first, before, last = bound[:tenth], bound[-2 * tenth : -tenth], bound[-tenth:]
    gain, whole = last.mean() - before.mean(), last.mean() - first.mean()
    noise = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / tenth)
    if not math.isfinite(gain) or whole <= 0:
        return Reason(Level.NOT, "The bound (ELBO) did not rise: the fit learned nothing.")
    if gain > CLIMBING * whole and gain > 2 * noise:
        text = f"The bound (ELBO) was still rising at the end ({gain:.1f} nats in the last tenth)."
        return Reason(Level.CAREFUL, text)
    return Reason(Level.TRUST, "The bound (ELBO) had levelled off.")


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


def _choice(facts: Mapping[str, Any]) -> Iterator[Reason]:
    margin = facts.get("mechanism_margin")
    if margin is not None and margin < CLOSE_CALL:
        yield Reason(
            Level.CAREFUL,
            f"Linear and nonlinear mechanisms explain the data about equally well ({margin:.1f} "
            f"nats apart); {facts['mechanism']} was chosen. Try the other one too.",
        )


def _data(posterior: Posterior) -> Iterator[Reason]:
    standardised = posterior.diagnostics.get("standardised", False) or (
        posterior.problem is not None and posterior.problem.scaling is not None
    )
    told = [f for f in findings(posterior) if not (standardised and f.kind == "varsortability")]
    for kind, group in groupby(sorted(told, key=lambda f: f.kind), key=lambda f: f.kind):
        yield from _finding_reasons(kind, list(group))
    if posterior.problem is None:
        yield Reason(Level.CAREFUL, "The data are not at hand, so that they cannot be judged.")
        return
    yield from _discrete(posterior)
    found = misfit(posterior)
    if found.rough:
        yield Reason(
            Level.CAREFUL,
            f"Given their probable causes, the noise of {_some(found.rough)} is far from Gaussian.",
        )
    if found.bent:
        yield Reason(
            Level.CAREFUL,
            f"The relation of {_some(found.bent)} to their causes is not a straight line, and the "
            'model takes it for one: try mechanism="nonlinear".',
        )


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
    names = [name for name, binary in zip(data.names, two, strict=True) if binary]
    if names:
        yield Reason(
            Level.CAREFUL,
            f"Only two different values in {_some(names)}: the model takes noise to be Gaussian, "
            "and what points to such a column is judged poorly.",
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return ", ".join(f"‘{name}’" for name in listed[:LISTED]) + more


def _assumptions(posterior: Posterior) -> Iterator[str]:
    mechanism = posterior.diagnostics.get("mechanism")
    yield "No common cause of two variables is missing from the table."
    yield "No feedback loops."
    yield "Rows are independent of each other."
    yield "Noise is additive and Gaussian."
    if mechanism == "linear":
        yield "Effects are linear in their causes."
    if posterior.problem is not None and posterior.problem.data.intervened.any():
        yield "A value set by an intervention does not depend on its causes."
    if posterior.diagnostics.get("graph_weights", "order") == "order":
        yield (
            "All orders of the variables are equally probable beforehand, which favours graphs "
            "that agree with many of them."
        )
