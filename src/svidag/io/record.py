"""A posterior as a file: its law, its mechanisms, the data and beliefs it rests on, its story."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from svidag import __version__
from svidag.data import Dataset
from svidag.io import archive, laws
from svidag.io.tree import Encoder, decode
from svidag.posterior import Posterior
from svidag.prior import EdgePrior
from svidag.problem import Problem


def save(posterior: Posterior, path: str | os.PathLike[str]) -> Path:
    """Write a posterior to one file, replacing it in one step; returns its path.

    The file holds everything: the law of the graphs and of the parameters, the table in the scale
    of the fit, the beliefs, the diagnostics, and which versions wrote it when. Share it as you
    would share the data.

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
    problem = posterior.problem
    content = {
        "provenance": _provenance(posterior),
        "names": list(posterior.names),
        "law": encoder.encode(laws.pack(posterior.law, problem)),
        "mechanisms": encoder.encode(laws.pack(posterior.mechanisms, problem)),
        "log_evidence": encoder.encode(posterior.log_evidence),
        "problem": None if problem is None else encoder.encode(_pack_problem(problem)),
        "diagnostics": encoder.encode(posterior.diagnostics, lenient=True),
    }
    archive.write(Path(path), content, encoder.arrays)
    return Path(path)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read the posterior that `Posterior.save` wrote.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If the file is damaged, foreign, or written by a newer svidag; nothing in it is executed,
        and it takes no more memory than a small multiple of its size.

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
    manifest, arrays = archive.read(path)
    with archive.explaining(path):
        _require_known_networks(path, manifest)
        return _posterior(manifest, arrays)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself, without its arrays.

    Examples
    --------
    >>> import tempfile, svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = Path(tempfile.mkdtemp()) / "run.svidag"
    >>> told = describe(svidag.exact.posterior(example.data).save(path))
    >>> told["law"], told["provenance"]["svidag"] == svidag.__version__
    ('exact orders', True)
    """
    path = Path(path)
    manifest = archive.read_manifest(path)
    with archive.explaining(path):
        mechanisms = manifest["mechanisms"]
        return {
            "format": manifest["version"],
            "provenance": manifest["provenance"],
            "names": tuple(manifest["names"]),
            "law": manifest["law"]["kind"],
            "mechanisms": None if mechanisms is None else mechanisms["kind"],
        }


def _require_known_networks(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a flow of the first format, whose weights were laid out otherwise."""
    if manifest["version"] < 2 and manifest["law"]["kind"] == "guide":
        by = manifest["provenance"]["svidag"]
        raise archive.FileError(
            f"{path} was written by svidag {by} in format 1, whose flows this svidag cannot read; "
            "load it with that version and save its draws, or fit again"
        )


def _posterior(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Posterior:
    parts = {
        name: decode(manifest[name], arrays)
        for name in ("law", "mechanisms", "log_evidence", "problem", "diagnostics")
    }
    names = tuple(manifest["names"])
    problem = None if parts["problem"] is None else _unpack_problem(parts["problem"])
    law = laws.unpack(parts["law"], problem)
    if problem is not None and problem.data.names != names:
        raise ValueError(f"its data have the columns {problem.data.names}; expected {names}")
    return Posterior(
        names,
        law,
        laws.unpack(parts["mechanisms"], problem),
        parts["log_evidence"],
        MappingProxyType(parts["diagnostics"]),
        problem,
    )


def _provenance(posterior: Posterior) -> dict[str, Any]:
    """What wrote the file, when, and what the fit says about its seed, settings and data."""
    problem, fingerprint = posterior.problem, posterior.diagnostics.get("fingerprint", {})
    return {
        "svidag": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data": None if problem is None else problem.original_checksum,
        "fit": Encoder().encode(fingerprint, lenient=True),
    }


def _pack_problem(problem: Problem) -> dict[str, Any]:
    data, prior = problem.data, problem.prior
    return {
        "names": data.names,
        "values": data.values,
        "intervened": data.intervened,
        "transforms": data.transforms,
        "scaling": laws.pack_scaling(problem.scaling),
        "prior": {name: getattr(prior, name) for name in _PRIOR},
        "findings": problem.findings,
        "original_checksum": problem.original_checksum,
    }


_PRIOR = ("belief", "concentration", "alpha", "beta", "allowed", "required")


def _unpack_problem(parts: Mapping[str, Any]) -> Problem:
    for name in ("values", "intervened"):
        parts[name].setflags(write=False)  # a data set copies what others could change
    m = len(parts["names"])
    prior = {name: laws.require_shape(parts["prior"][name], (m, m), name) for name in _PRIOR}
    data = Dataset(parts["names"], parts["values"], parts["intervened"], parts["transforms"])
    scaling = laws.unpack_scaling(parts["scaling"])
    edges = EdgePrior(data.names, **prior)
    return Problem(data, scaling, edges, parts["findings"], parts["original_checksum"])
