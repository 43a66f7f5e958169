"""A posterior as a file: graphs, mechanisms, the data and beliefs it rests on, diagnostics."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from svidag import __version__
from svidag.io import archive
from svidag.io.tree import Encoder, decode

if TYPE_CHECKING:
    from svidag.posterior import Posterior

FORMAT = "svidag posterior"
RESULT = "posterior.svidag"
"""The file of the posterior in the directory of a run."""


def save(posterior: Posterior, path: str | os.PathLike[str]) -> Path:
    """Write a posterior to one file, replacing it in one step; returns its path.

    The file holds everything: the distribution of the graphs and of the parameters, the table in
    the scale of the fit, the beliefs, the diagnostics, and which versions wrote it when. Share it
    as you would share the data.

    Examples
    --------
    >>> import tempfile, svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> path = save(posterior, Path(tempfile.mkdtemp()) / "run.svidag")
    >>> load(path).edge_probabilities().equals(posterior.edge_probabilities())
    True
    """
    encoder = Encoder()
    try:
        content = encoder.encode(posterior)
    except ValueError as error:
        raise ValueError(
            f"{error}. The draws of this posterior can: "
            "Posterior(names, DrawnGraphs(posterior.sample(1000), np.full(1000, 1e-3)))"
        ) from None
    about = {"provenance": _provenance(posterior), "posterior": content}
    archive.write(Path(path), FORMAT, about, encoder.arrays)
    return Path(path)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read the posterior that `Posterior.save` wrote.

    Parameters
    ----------
    path
        The file, or the directory of a finished run of `svidag fit`.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If the file is damaged, foreign, or written by another version of svidag; nothing in it is
        executed, and it takes no more memory than a small multiple of its size.

    Examples
    --------
    >>> import tempfile, svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = Path(tempfile.mkdtemp()) / "run.svidag"
    >>> svidag.exact.posterior(example.data).save(path) == path
    True
    >>> svidag.load(path).names
    ('x1', 'x2', 'x3', 'x4')
    """
    path = Path(path)
    if (path / RESULT).is_file():
        path = path / RESULT
    manifest, arrays = archive.read(path, FORMAT)
    with archive.explaining(path):
        return decode(manifest["posterior"], arrays)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself, without its arrays.

    Examples
    --------
    >>> import tempfile, svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = Path(tempfile.mkdtemp()) / "run.svidag"
    >>> about = describe(svidag.exact.posterior(example.data).save(path))
    >>> about["graphs"], about["provenance"]["svidag"] == svidag.__version__
    ('exact orders', True)
    """
    path = Path(path)
    manifest = archive.read_manifest(path, FORMAT)
    with archive.explaining(path):
        parts = manifest["posterior"]["$object"][1]
        mechanisms = parts["mechanisms"]
        return {
            "format": manifest["version"],
            "provenance": manifest["provenance"],
            "names": decode(parts["names"], {}),
            "graphs": parts["graphs"]["$object"][0],
            "mechanisms": None if mechanisms is None else mechanisms["$object"][0],
        }


def _provenance(posterior: Posterior) -> dict[str, Any]:
    """What wrote the file, when, and what the fit says about its seed, settings and data."""
    problem, facts = posterior.problem, posterior.diagnostics
    return {
        "svidag": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data": None if problem is None else problem.original_checksum,
        "fit": {} if facts is None else Encoder().encode(facts.fingerprint),
    }
