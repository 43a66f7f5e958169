"""The warning of a fit about its own result."""

from __future__ import annotations


class FitWarning(UserWarning):
    """The result of a fit cannot be relied on; the message says why.

    Examples
    --------
    To make it an error:

    >>> import warnings
    >>> warnings.simplefilter("error", FitWarning)
    >>> warnings.resetwarnings()
    """
