"""Whether sure arrows survive another specification: probes of a fit, and what they contradict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from svidag.data.columns import joined
from svidag.posterior.fit_check import FitCheck
from svidag.posterior.text import counted

SURE = 0.95
"""Probability above which anything is sure, throughout: an arrow, a connection, a direction."""

NEGLIGIBLE = 0.05
"""Probability below which two variables count as not connected: its opposite is sure."""

CONTRADICTED = 0.5
"""A probe contradicts a sure arrow if it gives its reverse, or its absence, more than this."""

OPPOSITE = 0.95
"""What a resample must give instead: it adds noise of its own, which alone can take an arrow that
is barely sure below one half."""

LEAST: Mapping[str, float] = MappingProxyType(
    {"margins": 0.0, "mechanism": 0.5, "noise": 0.4, "resample": 0.25}
)
"""What a probe may change, and the share of sure arrows that it must contradict before it counts.

A simpler mechanism cannot see curvature, so that it loses or turns some arrows of any curved table;
but where it contradicts most of them, the evidence for curvature came from elsewhere: tails,
batches, uneven noise. Flexible noise on a few hundred rows loses some arrows of any table of
networks. A resample repeats rows, which by itself turns an arrow now and then."""


MANY, SEVERAL = 0.25, 3
"""Where more than this share of the sure arrows flip, and at least so many of them, the model is in
doubt, not single arrows."""


def contradictions(
    fit: Float[np.ndarray, "m m"], probe: Float[np.ndarray, "m m"], change: str
) -> Bool[np.ndarray, "m m"]:
    """Which sure arrows of a fit a probe contradicts; to leave one open is no contradiction.

    Examples
    --------
    >>> fit, probe = np.zeros((2, 2)), np.zeros((2, 2))
    >>> fit[0, 1], probe[1, 0], probe[0, 1] = 0.99, 0.8, 0.2
    >>> contradictions(fit, probe, "margins")[0, 1], contradictions(fit, probe, "resample")[0, 1]
    (np.True_, np.False_)
    """
    sure = fit > SURE
    reverse, absence = probe.T, 1 - probe - probe.T
    bound = OPPOSITE if change == "resample" else CONTRADICTED
    found = sure & (np.maximum(reverse, absence) > bound)
    return found if found.sum() >= LEAST[change] * sure.sum() else np.zeros_like(sure)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What became of the sure arrows of a fit under other specifications.

    Attributes
    ----------
    names
        The variables.
    edges
        P(i → j) in the fit of all rows.
    changes
        What each probe changed: ``"margins"``, ``"mechanism"``, ``"noise"`` or ``"resample"``.
    probes
        Each probe in words.
    probed
        P(i → j) in each probe.
    credible
        Whether each probe may contradict the fit: not if the fit passes its check and explains
        clearly more than the probe does. By default all may.
    check
        Whether the fit explains its table.
    mixed
        Whether a mixture of fits took the place of the fit.

    Examples
    --------
    >>> fit, probe = np.zeros((2, 2)), np.zeros((2, 2))
    >>> fit[0, 1], probe[1, 0] = 0.99, 0.8
    >>> found = Sensitivity(("a", "b"), fit, ("margins",), ("rank-Gaussian",), probe[None])
    >>> print(found)
    1 of 1 sure arrow changed with the margins.
      a → b: 0.99; rank-Gaussian 0.00 (reverse 0.80)
    """

    names: tuple[str, ...]
    edges: Float[np.ndarray, "m m"]
    changes: tuple[str, ...]
    probes: tuple[str, ...]
    probed: Float[np.ndarray, "probes m m"]
    credible: tuple[bool, ...] = ()
    check: FitCheck | None = None
    mixed: bool = False

    @property
    def sure(self) -> int:
        """How many arrows were sure in the fit of all rows."""
        return int((self.edges > SURE).sum())

    @property
    def failed_check(self) -> FitCheck | None:
        """The check of the fit, if the fit fails it."""
        return None if self.check is None or self.check.passed else self.check

    @property
    def contradicted(self) -> Bool[np.ndarray, "probes m m"]:
        """Which sure arrows each probe contradicts."""
        may = self.credible or (True,) * len(self.probes)
        found = [
            contradictions(self.edges, probe, change) & credible
            for probe, change, credible in zip(self.probed, self.changes, may, strict=True)
        ]
        return np.stack(found) if found else np.zeros((0, *self.edges.shape), dtype=bool)

    @property
    def flipped(self) -> Bool[np.ndarray, "m m"]:
        """Sure arrows that some probe contradicts."""
        return np.asarray(self.contradicted.any(axis=0))

    @property
    def causes(self) -> tuple[str, ...]:
        """What had to be changed for a sure arrow to flip."""
        flipping = np.asarray(self.contradicted.any(axis=(1, 2)))
        found = {c for c, flips in zip(self.changes, flipping, strict=True) if flips}
        return tuple(change for change in LEAST if change in found)

    @property
    def doubtful(self) -> bool:
        """Whether sure arrows are not to be trusted: the fit fails its check, or too many flip.

        One sure arrow in twenty may be wrong by what "sure" means; more than that are too many.
        """
        too_many = self.flipped.sum() > (1 - SURE) * self.sure
        return bool(self.sure and (self.failed_check is not None or too_many))

    @property
    def mostly_flipped(self) -> bool:
        """Whether so many sure arrows flip that those which do not are in doubt too."""
        return bool(self.flipped.sum() >= max(SEVERAL, MANY * self.sure))

    @property
    def reason(self) -> str:
        """Why sure arrows must not be trusted, to follow a "because"."""
        if self.failed_check is not None:
            return self.failed_check.sentence
        return self.sentence.rstrip(".")

    def to_frame(self) -> pd.DataFrame:
        """The arrows that flip: cause, effect, probability in the fit and in each probe."""
        rows = [
            {
                "cause": self.names[i],
                "effect": self.names[j],
                "fit": self.edges[i, j],
                **{words: p[i, j] for words, p in zip(self.probes, self.probed, strict=True)},
            }
            for i, j in np.argwhere(self.flipped)
        ]
        return pd.DataFrame(rows, columns=["cause", "effect", "fit", *self.probes])

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if not self.sure:
            return "No arrow is sure, so that there was nothing to check under other models."
        if self.failed_check is not None:
            words = self.failed_check.sentence
            return f"{words[:1].upper()}{words[1:]}."
        if not self.probes:
            return "It was not checked whether sure arrows survive another model."
        flips, sure = int(self.flipped.sum()), counted(self.sure, "sure arrow")
        if not flips:
            one = "The one sure arrow" if self.sure == 1 else f"All {sure}"
            kept = "survives" if self.sure == 1 else "survive"
            return f"{one} {kept} other specifications ({'; '.join(self.probes)})."
        words = {
            "margins": "the margins",
            "mechanism": "the mechanism",
            "noise": "the shape of the noise",
            "resample": "the rows",
        }
        causes = joined([words[change] for change in self.causes])
        return f"{flips} of {sure} changed with {causes}."

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {line}" for line in self.lines())])

    def lines(self, most: int | None = None) -> list[str]:
        """One line for each arrow that flips: its probability, and what each probe says of it."""
        where = np.argwhere(self.flipped)
        shown = where if most is None else where[:most]
        lines = [f"{self._arrow(i, j)}: {self.edges[i, j]:.2f}; " + self._said(i, j)
                 for i, j in shown]  # fmt: skip
        return lines + ([f"and {len(where) - len(shown)} more"] if len(shown) < len(where) else [])

    def _said(self, i: Any, j: Any) -> str:
        return ", ".join(
            f"{words} {p[i, j]:.2f} (reverse {p[j, i]:.2f})"
            for words, p in zip(self.probes, self.probed, strict=True)
        )

    def _arrow(self, i: Any, j: Any) -> str:
        return f"{self.names[i]} → {self.names[j]}"
