"""Where an unfinished fit of several stages is kept, and how its parts become arrays.

One file holds the latest stage and all that the following need, written beside its target and moved
over it in one step. It goes on from there to the same numbers, whenever it was cut off.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from svidag.inference.chains import OrderChains
from svidag.inference.checkpoint import FORMAT, check_fingerprint, read_archive, write_archive
from svidag.inference.conditional import GuideState
from svidag.inference.guided import Sampling, Training
from svidag.inference.loop import Interrupted
from svidag.inference.pseudo_marginal import Chains
from svidag.inference.remembered import Collection
from svidag.inference.tabulated import Growth, Round
from svidag.scores import NodeTable

Arrays = dict[str, np.ndarray]

BETWEEN = 1.0  # seconds from one save to the next, at least
SHARE = 0.05  # of the time that saving may take


class Kept(NamedTuple):
    """What a file holds: the name of its stage, notes, and arrays."""

    stage: str
    notes: Mapping[str, Any]
    arrays: Arrays


class Savepoint:
    """Keeps the latest state of a fit, and writes it when enough time has passed.

    Parameters
    ----------
    path
        The file; None keeps nothing.
    fingerprint
        What makes it the same fit.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fit.npz"
    >>> Savepoint(path, {"seed": 0}).keep("tables", lambda: {"a": np.arange(3)})
    >>> Savepoint(path, {"seed": 0}).load().arrays["a"].tolist()
    [0, 1, 2]
    """

    def __init__(self, path: Path | None, fingerprint: Mapping[str, Any]) -> None:
        self.path = path
        self.notes: dict[str, Any] = {}
        self._fingerprint = fingerprint
        self._latest: tuple[str, dict[str, Any], Callable[[], Arrays]] | None = None
        self._next = -np.inf

    def load(self) -> Kept | None:
        """What an earlier run of the same fit kept; None where there is no file."""
        if self.path is None or not self.path.exists():
            return None
        header, arrays = read_archive(self.path, FORMAT)
        check_fingerprint(self.path, self._fingerprint, header.get("fingerprint", {}))
        self.notes = dict(header["notes"])
        return Kept(header["stage"], self.notes, arrays)

    def keep(self, stage: str, arrays: Callable[[], Arrays]) -> None:
        """Remember how to write the present state, and write it unless that was done just now."""
        if self.path is None:
            return
        self._latest = stage, dict(self.notes), arrays
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> bool:
        """Write the latest state, if there is one; says whether there was."""
        if self.path is None or self._latest is None:
            return False
        began = time.monotonic()
        stage, notes, arrays = self._latest
        header = {
            "format": FORMAT,
            "stage": stage,
            "notes": notes,
            "fingerprint": dict(self._fingerprint),
        }
        write_archive(self.path, header, arrays())
        now = time.monotonic()
        self._next = now + max(BETWEEN, (now - began) / SHARE)
        return True


@contextmanager
def resumable(savepoint: Savepoint) -> Iterator[None]:
    """On Ctrl-C, write what there is and say how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if savepoint.path is None:
            told = "interrupted; give checkpoint=PATH to be able to resume"
        elif not savepoint.write():
            told = "interrupted before there was anything to save"
        else:
            told = (
                f"interrupted; saved in {savepoint.path}. "
                "The same call with the same checkpoint goes on from there."
            )
        raise Interrupted(told) from interrupt


def pack_growth(growth: Growth) -> Arrays:
    """Candidates of each node, and the cells of its tables that hold a weight."""
    sizes = [len(node.candidates) for node in growth.nodes]
    packed = {
        "sizes": np.array(sizes),
        "candidates": np.concatenate([node.candidates for node in growth.nodes]),
    }
    for name in ("exact", "sketch"):
        tables = [getattr(node, name) for node in growth.nodes]
        cells = [np.flatnonzero(np.isfinite(table)) for table in tables]
        packed[f"{name}_count"] = np.array([len(part) for part in cells])
        packed[f"{name}_cells"] = np.concatenate(cells)
        values = [table[part] for table, part in zip(tables, cells, strict=True)]
        packed[f"{name}_values"] = np.concatenate(values)
    rounds = [dataclasses.astuple(done) for done in growth.rounds]
    packed["rounds"] = np.array(rounds, dtype=float).reshape(-1, 4)
    return packed


def unpack_growth(packed: Arrays) -> Growth:
    """What `pack_growth` was given."""
    parts = {name: _split(packed, name) for name in ("exact", "sketch")}
    candidates = np.split(packed["candidates"], np.cumsum(packed["sizes"])[:-1])
    nodes = tuple(
        NodeTable(chosen, *(_table(len(chosen), *parts[name][j]) for name in ("exact", "sketch")))
        for j, chosen in enumerate(candidates)
    )
    rounds = tuple(Round(float(row[0]), *map(int, row[1:])) for row in packed["rounds"])
    return Growth(nodes, rounds)


def _split(packed: Arrays, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = np.cumsum(packed[f"{name}_count"])[:-1]
    cells = np.split(packed[f"{name}_cells"], ends)
    return list(zip(cells, np.split(packed[f"{name}_values"], ends), strict=True))


def _table(candidates: int, cells: np.ndarray, values: np.ndarray) -> np.ndarray:
    table = np.full(1 << candidates, -np.inf)
    table[cells] = values
    return table


def pack_chains(chains: OrderChains) -> Arrays:
    """Every field by its name."""
    names = (field.name for field in dataclasses.fields(chains))
    return {f"chains_{name}": np.asarray(getattr(chains, name)) for name in names}


def unpack_chains(packed: Arrays) -> OrderChains:
    """What `pack_chains` was given."""
    fields = {f.name: packed[f"chains_{f.name}"] for f in dataclasses.fields(OrderChains)}
    return OrderChains(**{**fields, "sweeps": int(fields["sweeps"])})


def pack_training(training: Training) -> Arrays:
    """The leaves of the guides and their optimiser, the kept sets, orders and bounds."""
    leaves = _leaves(training.state)
    packed = {f"guide_{at}": np.asarray(leaf) for at, leaf in enumerate(leaves)}
    packed |= {f"sets_{name}": part for name, part in training.collection.arrays().items()}
    return packed | {"replicas": training.replicas, "bounds": training.bounds}


def unpack_training(packed: Arrays, blank: Training) -> Training:
    """What `pack_training` was given; `blank` is a state of the same shape."""
    leaves = iter(jax.numpy.asarray(packed[f"guide_{at}"]) for at in range(_count(blank.state)))
    state: GuideState = jax.tree.map(
        lambda leaf: next(leaves) if isinstance(leaf, jax.Array) else leaf, blank.state
    )
    kept = {name.removeprefix("sets_"): part for name, part in packed.items() if "sets_" in name}
    collection: Collection = blank.collection.restored(kept)
    return Training(state, collection, packed["replicas"], packed["bounds"])


def pack_sampling(sampling: Sampling) -> Arrays:
    """The chains and all that they collected, by name."""
    packed = {f"state_{name}": value for name, value in sampling.chains._asdict().items()}
    return packed | {f"sampling_{name}": getattr(sampling, name) for name in _collected()}


def unpack_sampling(packed: Arrays) -> Sampling:
    """What `pack_sampling` was given."""
    chains = Chains(*(packed[f"state_{name}"] for name in Chains._fields))
    return Sampling(chains, **{name: packed[f"sampling_{name}"] for name in _collected()})


def _collected() -> list[str]:
    return [field.name for field in dataclasses.fields(Sampling) if field.name != "chains"]


def _leaves(state: GuideState) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array)]


def _count(state: GuideState) -> int:
    return len(_leaves(state))
