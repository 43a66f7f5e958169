"""A posterior as a file: graphs, mechanisms, the data and beliefs it rests on, diagnostics."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svidag import __version__
from svidag.io import archive
from svidag.io.tree import Encoder, decode

if TYPE_CHECKING:
    from svidag.posterior import Posterior

FORMAT = "svidag posterior"
RESULT = "posterior.svidag"
"""The file of the posterior in the directory of a run."""
REQUEST = "request.json"
"""The file in the directory of a run that says what was asked."""


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
    _require_posterior(path)
    manifest, arrays = archive.read(path, FORMAT)
    with archive.explaining(path):
        return decode(manifest["posterior"], arrays)


_OTHERS = {
    **dict.fromkeys((".csv", ".tsv", ".parquet"), "a table, which `svidag.fit` fits"),
    **dict.fromkeys((".html", ".htm"), "a page for a browser"),
    **dict.fromkeys((".yaml", ".yml"), "a knowledge file, which `Prior.from_file` reads"),
    **dict.fromkeys((".svg", ".png"), "an image"),
    ".json": "a JSON file",
    ".npz": "a file of arrays, such as the checkpoint of an unfinished run, which `svidag fit RUN` "
    "goes on with",
}
"""What files with other endings are."""


def _require_posterior(path: Path) -> None:
    """Say what a path is that holds no posterior, where that can be told from outside."""
    if path.is_dir():
        if (path / REQUEST).is_file():
            raise archive.FileError(
                f"{path} is a directory with a run that is not finished; `svidag fit {path}` goes "
                "on with it"
            )
        raise archive.FileError(
            f"{path} is a directory without a finished run: it has no {RESULT}; `svidag fit DATA "
            f"-o {path}` makes one"
        )
    what = _OTHERS.get(path.suffix.lower())
    if what is not None and path.is_file() and not _has_manifest(path):
        raise archive.FileError(
            f"{path} is {what}; expected a file that `Posterior.save` wrote, or the directory of a "
            "run"
        )


def _has_manifest(path: Path) -> bool:
    """Whether it is such a file under another name."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as opened:
        if archive.MANIFEST not in opened.namelist():
            return False
        return FORMAT.encode() in opened.read(archive.MANIFEST)[:200]


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
        "jax": importlib.metadata.version("jax"),
        "numpy": np.__version__,
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data": None if problem is None else problem.original_checksum,
        "fit": {} if facts is None else Encoder().encode(facts.fingerprint),
    }
