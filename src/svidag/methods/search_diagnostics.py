"""What searches for parent sets report about what the tables lack, and how it is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from svidag.methods.chain_diagnostics import ChainDiagnostics
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.search.growth import GrowthSettings

MISSING_SHARE = GrowthSettings.missing_share
"""Share of the probability of a variable's parents that may be missing or left out."""


@dataclass(frozen=True, eq=False)
class SearchDiagnostics(ChainDiagnostics):
    """What chains report, and what the searches found in and outside the tables."""

    sweeps: int = diagnostic("Sweeps of each chain")
    moved: Float[np.ndarray, " chains"] = diagnostic("Share of moves that changed the order")
    exchanged: Float[np.ndarray, " pairs"] = diagnostic(
        "Share of exchanges between neighbouring replicas that were accepted"
    )
    scored_sets: int = diagnostic("Parent sets scored")
    listed_sets: int = diagnostic("Parent sets in the tables")
    table_bytes: int = diagnostic("Bytes of the tables")
    candidates: tuple[int, ...] = diagnostic("Candidate parents, by variable")
    left_out: float = diagnostic("Share of parent sets left out of the tables, worst variable")
    missed: tuple[float, ...] = diagnostic(
        "Share of parent sets that each half of the searches found alone"
    )
    search_gaps: tuple[float, ...] = diagnostic(
        "Log evidence by which each search fell short of the best"
    )
    searches_agree: bool = diagnostic("Two independent searches came to graphs of the same weight")
    searched_again: int = diagnostic("Searches after the chains")
    outside: float = diagnostic(
        "Share of parent sets that the last search found outside the tables"
    )
    growth_ended: bool = diagnostic("No more parent sets that matter were found at the end")
    sketched_share: float = diagnostic("Share of parent sets scored by a smaller network alone")
    rounds: tuple[dict[str, Any], ...] = diagnostic("Rounds of the searches")


def judge_search(found: SearchDiagnostics) -> Iterator[Reason]:
    """What the searches say about graphs that the chains could not see."""
    if not found.searched_again:
        yield Reason(
            Level.NOT,
            "The time was over before a fresh search could look for possible parents that are "
            "missing; some arrows may be wrong. Allow more `minutes`.",
        )
    elif not found.growth_ended or found.outside > MISSING_SHARE:
        yield Reason(
            Level.NOT,
            f"A fresh search still found possible parents that the fit had not considered (up to "
            f"{max(found.outside, MISSING_SHARE):.0%} of the probability of a variable's parents): "
            "arrows may be missing. Allow more `rounds` or `minutes`.",
        )
    elif not found.searches_agree:
        yield Reason(
            Level.NOT,
            "Only one of several independent searches came to these graphs; better ones may exist. "
            "Allow more `searches` or `search_sweeps`.",
        )
    else:
        yield Reason(
            Level.TRUST,
            "Independent searches came to the same graphs, and a fresh one found no possible "
            "parents that the fit had missed.",
        )
    if found.left_out > MISSING_SHARE:
        yield Reason(
            Level.CAREFUL,
            f"Up to {found.left_out:.0%} of the probability of a variable's parents is spread over "
            "very many sets, each of them improbable, that were left out.",
        )
