"""A posterior as one HTML file that opens offline."""

from __future__ import annotations

import os
from pathlib import Path

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
        The file, ending in ``.html``; an existing one is replaced.

    Examples
    --------
    >>> import pathlib, svidag, tempfile
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write(svidag.exact.posterior(example.data), path).name
    'report.html'
    """
    path = _checked(path)
    page = render(content(posterior)).encode("utf-8", "replace")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(page)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _checked(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"path must be a file; {path} is a directory")
    if not path.parent.is_dir():
        raise ValueError(f"path is {str(path)!r}, but there is no directory {str(path.parent)!r}")
    return path
