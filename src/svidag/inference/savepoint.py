"""Where an unfinished fit of several stages is kept, and how its parts become arrays.

One file holds the latest stage and all that the following need, written beside its target and moved
over it in one step. It goes on from there to the same numbers, whenever it was cut off.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from svidag.inference.chains import OrderChains
from svidag.inference.checkpoint import FORMAT, check_fingerprint, read_archive, write_archive
from svidag.inference.conditional import GuideState
from svidag.inference.growth import HALVES, Half, Round
from svidag.inference.guided import Sampling, Training
from svidag.inference.loop import Interrupted
from svidag.inference.pseudo_marginal import Chains
from svidag.inference.remembered import Collection
from svidag.inference.tabulated import Tabulated
from svidag.scores import ParentSets, ScoreTables

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


def pack_halves(halves: Sequence[Half]) -> Arrays:
    """The collections, orders and rounds of both halves."""
    packed: Arrays = {}
    for at, half in enumerate(halves):
        packed |= {f"{at}_{name}": part for name, part in _pack_sets(half.sets).items()}
        packed |= {f"{at}_orders": half.orders, f"{at}_flatter": half.flatter}
        packed |= {f"{at}_rounds": _pack_rounds(half.rounds)}
    return packed


def unpack_halves(packed: Arrays) -> list[Half]:
    """What `pack_halves` was given."""
    halves = []
    for at in range(HALVES):
        own = {name[2:]: part for name, part in packed.items() if name.startswith(f"{at}_")}
        rounds = _unpack_rounds(own["rounds"])
        halves.append(Half(at, _unpack_sets(own), own["orders"], own["flatter"], rounds))
    return halves


def pack_tabulated(made: Tabulated) -> Arrays:
    """Tables that were grown, the collection behind them and how they came about."""
    packed = {f"tables_{name}": part for name, part in made.tables.arrays().items()}
    packed |= _pack_sets(made.sets)
    packed |= {name: np.array(getattr(made, name)) for name in _NUMBERS}
    return packed | {"starts": made.starts, "rounds": _pack_rounds(made.rounds)}


def unpack_tabulated(packed: Arrays) -> Tabulated:
    """What `pack_tabulated` was given."""
    tables = {k.removeprefix("tables_"): v for k, v in packed.items() if k.startswith("tables_")}
    return Tabulated(
        ScoreTables.restored(tables),
        _unpack_sets(packed),
        packed["starts"],
        _unpack_rounds(packed["rounds"]),
        settled=bool(packed["settled"]),
        left_out=float(packed["left_out"]),
        missed=tuple(packed["missed"].tolist()),
        gaps=tuple(packed["gaps"].tolist()),
        outside=float(packed["outside"]),
        searched=int(packed["searched"]),
    )


_NUMBERS = ("settled", "left_out", "missed", "gaps", "outside", "searched")


def _pack_sets(sets: ParentSets) -> Arrays:
    return {f"sets_{f.name}": np.asarray(getattr(sets, f.name)) for f in dataclasses.fields(sets)}


def _unpack_sets(packed: Arrays) -> ParentSets:
    fields = {f.name: packed[f"sets_{f.name}"] for f in dataclasses.fields(ParentSets)}
    return ParentSets(**{**fields, "m": int(fields["m"])})


def _pack_rounds(rounds: Sequence[Round]) -> np.ndarray:
    return np.array([dataclasses.astuple(done) for done in rounds], dtype=float).reshape(-1, 5)


def _unpack_rounds(packed: np.ndarray) -> tuple[Round, ...]:
    return tuple(
        Round(int(half), float(power), int(added), int(refined), float(share))
        for half, power, added, refined, share in packed
    )


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
