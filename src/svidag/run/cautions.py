"""Warnings of a fit about its own result."""

from __future__ import annotations


class FitWarning(UserWarning):
    """Something about a fit that its user should know.

    Examples
    --------
    To make every such caution an error:

    >>> import warnings
    >>> warnings.simplefilter("error", FitWarning)
    >>> warnings.resetwarnings()
    """


class ConvergenceWarning(FitWarning):
    """The chains are far apart or alone, something may be missing, or time ran out."""


class SettingWarning(FitWarning):
    """Settings were given that the fit had no use for."""


class WeightWarning(FitWarning):
    """Reweighted draws are worth very few."""
