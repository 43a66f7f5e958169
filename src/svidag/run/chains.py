"""The loop of all Markov chain methods: segments until halves of the chains agree.

Chains run in segments. After each segment what was collected is passed to `keep`, and the run ends
when halves of the chains agree (:mod:`svidag.run.convergence`), when the budget is used up, or when
the time is over. A method supplies one function, which runs the next segment; its randomness must
depend on the number of the segment alone, so that a resumed run equals an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from svidag.run.convergence import Agreement

__all__ = ["ChainRecord", "agree", "run_segments"]


@runtime_checkable
class ChainRecord(Protocol):
    """What chains have collected so far, and where they stand."""

    @property
    def length(self) -> int:
        """How much was collected from each chain, in the units of the budget."""
        ...

    @property
    def edges(self) -> Float[np.ndarray, "groups m m"]:
        """The edge probabilities of each chain, or of each group that began as one."""
        ...

    @property
    def log_evidence(self) -> Float[np.ndarray, "chains S"]:
        """log p(D | order) along each chain."""
        ...

    def followed_by(self, later: Any) -> Any:
        """Both together, as one run."""
        ...


Record = TypeVar("Record", bound=ChainRecord)


def agree(chains: ChainRecord, rule: Agreement) -> bool:
    """Whether the chains have collected anything and fulfil the rule."""
    return chains.length > 0 and rule.reached(chains.edges, chains.log_evidence)


def run_segments(
    chains: Record,
    advance: Callable[[Record], Record],
    *,
    budget: int,
    rule: Agreement,
    keep: Callable[[Record], None] | None = None,
    expired: Callable[[], bool] | None = None,
) -> Record:
    """Extend the chains, segment by segment, until they agree or must end.

    Parameters
    ----------
    chains
        Where to begin: chains after burn-in, or what an earlier call gave to `keep`.
    advance
        Runs the next segment and returns what that segment collected.
    budget
        The length at which the chains end in any case.
    rule
        When they may end earlier.
    keep
        Is called with everything collected so far after each segment.
    expired
        Called after each segment; True means that the time is over.
    """
    while chains.length < budget and not agree(chains, rule):
        chains = chains.followed_by(advance(chains))
        if keep is not None:
            keep(chains)
        if expired is not None and expired():
            break
    return chains
