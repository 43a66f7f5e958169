"""Numbers as the page shows them."""

from __future__ import annotations

from svidag.posterior.text import probability

HEAT_STEPS = 20
"""Steps of the colour scale."""


def heat(p: float) -> str:
    """The class of a probability on the colour scale.

    Examples
    --------
    >>> heat(0.0), heat(0.52), heat(1.0)
    ('h0', 'h10', 'h20')
    """
    return f"h{round(min(1.0, max(0.0, p)) * HEAT_STEPS)}"


def compact(p: float) -> str:
    """A probability for a narrow cell, without the zero before the point.

    Examples
    --------
    >>> compact(0.0), compact(0.004), compact(0.5), compact(0.998), compact(1.0)
    ('0', '<.01', '.50', '>.99', '1')
    """
    return probability(p).replace("0.", ".")


def percent(p: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> percent(0.0384), percent(0.62), percent(0.0004)
    ('3.8 %', '62 %', '0.04 %')
    """
    return f"{100 * p:.2g} %" if p < 0.995 else f"{100 * p:.0f} %"


def short(value: float) -> str:
    """A number in four digits."""
    return f"{value + 0.0:.4g}".replace("-", "−")  # no minus before zero
