"""Checkpoints of an unfinished fit, from which it resumes to the same result.

A checkpoint holds the name of a stage and all that the following stages need, as a tree of arrays
and plain values (:mod:`svidag.io`), never code. It is written beside its target and moved over it
in one step, so that a run killed at any moment leaves the previous one whole.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from svidag.io import archive
from svidag.io.tree import Encoder, decode

FORMAT = "svidag checkpoint"
SHARE = 0.05  # of the time that saving may take


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; the message says what was saved and how to go on."""


class SavedState(NamedTuple):
    """What a file holds: the name of its stage, and the state that was kept then."""

    stage: str
    state: Any


class Checkpoint:
    """Keeps the latest state of a fit, and writes it when enough time has passed.

    Parameters
    ----------
    path
        The file; None keeps nothing.
    fingerprint
        Everything that the result depends on: data, beliefs, settings, seed, version.
    every
        Seconds between saves, at least; they never change the result.

    Attributes
    ----------
    notes
        Plain values that are kept with every state.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fit.svidag"
    >>> Checkpoint(path, {"seed": 0}).keep("tables", lambda: {"a": np.arange(3)})
    >>> Checkpoint(path, {"seed": 0}).load().state["a"].tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        fingerprint: Mapping[str, Any],
        *,
        every: float = 1.0,
    ) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and self.path.is_dir():
            raise ValueError(f"checkpoint must be a file; {self.path} is a directory")
        self.notes: dict[str, Any] = {}
        self._fingerprint, self._every = fingerprint, every
        self._latest: tuple[str, dict[str, Any], Callable[[], Any]] | None = None
        self._next = -np.inf

    def load(self) -> SavedState | None:
        """What an earlier run of the same fit kept; None where there is no file."""
        if self.path is None or not self.path.exists():
            return None
        manifest, arrays = archive.read(self.path, FORMAT)
        check_fingerprint(self.path, self._fingerprint, manifest.get("fingerprint", {}))
        with archive.explaining(self.path):
            self.notes = decode(manifest["notes"], arrays)
            return SavedState(manifest["stage"], decode(manifest["state"], arrays))

    def keep(self, stage: str, state: Callable[[], Any]) -> None:
        """Set the present state, and write it unless the last write was recent."""
        if self.path is None:
            return
        self._latest = stage, dict(self.notes), state
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> bool:
        """Write the latest state; returns False if there is none."""
        if self.path is None or self._latest is None:
            return False
        began = time.monotonic()
        stage, notes, state = self._latest
        encoder = Encoder()
        content = {
            "stage": stage,
            "notes": encoder.encode(notes),
            "fingerprint": dict(self._fingerprint),
            "state": encoder.encode(state()),
        }
        archive.write(self.path, FORMAT, content, encoder.arrays)
        now = time.monotonic()
        self._next = now + max(self._every, (now - began) / SHARE)
        return True


@contextmanager
def resumable(checkpoint: Checkpoint) -> Iterator[None]:
    """On Ctrl-C, write the latest state and say how to resume; say what to do without memory."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if checkpoint.path is None:
            message = "interrupted; nothing was saved. With checkpoint=PATH a fit can be resumed"
        elif not checkpoint.write():
            message = "interrupted before there was anything to save"
        else:
            message = (
                f"interrupted; saved in {checkpoint.path}. "
                "The same call with the same checkpoint goes on from there."
            )
        raise Interrupted(message) from interrupt
    except MemoryError as error:
        if "memory ran out" in str(error):
            raise
        again = ""
        if checkpoint.path is not None and checkpoint.path.exists():
            again = f". The same call with the same checkpoint goes on from {checkpoint.path}"
        told = f" ({error})" if str(error) else ""
        raise MemoryError(
            f"memory ran out{told}; use fewer workers, or fewer rows or columns{again}"
        ) from error


def check_fingerprint(path: Path, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise if a file belongs to another fit; the message names what differs."""
    wanted = json.loads(json.dumps(dict(wanted)))
    differing = sorted(k for k in wanted.keys() | found.keys() if wanted.get(k) != found.get(k))
    if differing:
        listed = "; ".join(
            f"{k}: {_short(found.get(k))} there, {_short(wanted.get(k))} now" for k in differing
        )
        raise ValueError(
            f"checkpoint {path} belongs to another fit ({listed}). "
            "Remove the file or choose another path to start afresh."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
