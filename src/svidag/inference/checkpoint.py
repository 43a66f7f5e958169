"""Files from which an interrupted run goes on, bit for bit: arrays and a header, never code.

A checkpoint is one .npz archive, written beside its target and moved over it in one step, so that
a run killed at any moment leaves the previous checkpoint whole.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from svidag.atomic import replacing

FORMAT = "svidag checkpoint 1"
_HEADER = "header"
Tree = TypeVar("Tree")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run saves itself, and what makes it the same run.

    Attributes
    ----------
    path
        The file.
    fingerprint
        Everything that the result depends on: data, beliefs, settings, seed, version.
    every
        Seconds between saves; they never change the result.
    """

    path: Path
    fingerprint: Mapping[str, Any]
    every: float = 15.0

    def save(self, step: int, state: Any, trace: Mapping[str, np.ndarray]) -> None:
        """Write the state after `step` steps, replacing the file in one move."""
        header = {"format": FORMAT, "step": step, "fingerprint": dict(self.fingerprint)}
        arrays = {f"state{name}": np.asarray(leaf) for name, leaf in _leaves(state)}
        arrays |= {f"trace/{name}": values for name, values in trace.items()}
        write_archive(self.path, header, arrays)

    def load(self, template: Tree) -> tuple[int, Tree, dict[str, np.ndarray]] | None:
        """Read the step, state and trace; None where there is no file yet.

        The template gives the structure of the state; nothing in the file is executed.
        """
        if not self.path.exists():
            return None
        header, arrays = read_archive(self.path, FORMAT)
        check_fingerprint(self.path, self.fingerprint, header.get("fingerprint", {}))
        leaves = []
        for name, leaf in _leaves(template):
            found = arrays.get(f"state{name}")
            if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
                raise ValueError(
                    f"checkpoint {self.path} does not hold the state{name} of this fit"
                )
            leaves.append(jax.numpy.asarray(found))
        state = jax.tree.unflatten(jax.tree.structure(template), leaves)
        trace = {k.removeprefix("trace/"): v for k, v in arrays.items() if k.startswith("trace/")}
        return int(header["step"]), state, trace


def check_fingerprint(path: Path, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse a file that belongs to another fit, naming what differs."""
    wanted = json.loads(json.dumps(dict(wanted)))
    differing = sorted(k for k in wanted.keys() | found.keys() if wanted.get(k) != found.get(k))
    if differing:
        told = "; ".join(
            f"{k}: {_short(found.get(k))} there, {_short(wanted.get(k))} now" for k in differing
        )
        raise ValueError(
            f"checkpoint {path} belongs to another fit ({told}). "
            "Remove the file or choose another path to start afresh."
        )


def write_archive(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a header and named arrays to one file, atomically."""
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **{_HEADER: text}, **arrays)


def read_archive(path: Path, expected: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write_archive` wrote; a ValueError says what is wrong with any other file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged or not a file of svidag's: {error}") from error
    if not isinstance(header, dict) or header.get("format") != expected:
        raise ValueError(f"{path} is not a {expected!r} file")
    return header, arrays


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(tree)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
