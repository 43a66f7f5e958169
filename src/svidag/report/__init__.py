"""A posterior as one HTML file that opens offline."""

from __future__ import annotations

import os
from pathlib import Path

from svidag.atomic import replacing
from svidag.posterior import Posterior
from svidag.report.content import content
from svidag.report.render import render
from svidag.report.verdict import Level, Reason, Verdict, judge

__all__ = ["Level", "Reason", "Verdict", "judge", "write"]


def write(posterior: Posterior, path: str | os.PathLike[str]) -> Path:
    """Write the report of a posterior; the file appears whole or not at all.

    Parameters
    ----------
    posterior
        Of any kind: exact, sampled, variational, read from disk, with or without its data.
    path
        The file, ending in ``.html``; an existing one is replaced, missing directories are made.

    Examples
    --------
    >>> import pathlib, svidag, tempfile
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write(svidag.exact.posterior(example.data), path).name
    'report.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {str(path)!r}")
    page = render(content(posterior)).encode("utf-8", "replace")
    with replacing(path) as file:
        file.write(page)
    return path
