"""Random inputs to every reader, check and loader: one function a kind.

A reader takes a generator and a `Workshop` of good files, and returns None, or what is wrong with
the result. Errors that it raises are judged by `judge`.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import svidag
from odd_columns import BAD, GOOD, frame_of
from soak.cases import CHANGED, DONE, REFUSED, UNCLEAR, Outcome, chance, generator, pick
from soak.clarity import unclear
from soak.fits import ARGUMENTS, HOSTILE_NAMES, PRIOR, digest, draw_names, draw_table
from svidag.bench.study import Study
from svidag.cli import app
from svidag.cli.run_directory import Request, RunDirectory
from svidag.data import Dataset
from svidag.data.survey import survey
from svidag.methods import fitting
from svidag.methods.registry import METHODS
from svidag.prior import Prior
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint

STUDY = """\
replicates = [3, 5]
[data.small]
source = "synthetic"
m = 4
edges = 3
n = [50, 100]
[method.exact]
method = "exact"
[prior.sparse]
p = 0.1
required = [["x1", "x2"]]
[[cells]]
data = "small"
method = "exact"
prior = "sparse"
"""
KNOWLEDGE = """\
p: 0.1
tiers: [[a, b], [c]]
required: [[a, c]]
beliefs:
- {from: a, to: b, p: 0.2}
"""
WHOLE = 0.1
"""Share of the files given to loaders that are not damaged."""
FINGERPRINT = {"seed": 0, "data": "abc"}


class Workshop:
    """A folder with good files of each format, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A small table."""
        return draw_table(np.random.default_rng(0), 30, 3, continuous=True).set_axis(
            list("abc"), axis=1
        )

    @cached_property
    def posterior(self) -> svidag.Posterior:
        """A small posterior."""
        return svidag.fit(self.frame, method="exact", mechanism="linear", progress=False)

    @cached_property
    def digest(self) -> str:
        """Its sum."""
        return digest(self.posterior)

    @cached_property
    def saved(self) -> bytes:
        """Its file."""
        return self.posterior.save(self.folder / "good.svidag").read_bytes()

    @cached_property
    def checkpoint(self) -> bytes:
        """The file of a checkpoint."""
        path = self.folder / "good.npz"
        state = {"orders": np.arange(400).reshape(20, 20), "at": (1, math.inf), "$odd": [True]}
        Checkpoint(path, FINGERPRINT).keep("chains", lambda: state)
        return path.read_bytes()

    @cached_property
    def parquet(self) -> bytes:
        """A table as Parquet."""
        path = self.folder / "good.parquet"
        self.frame.to_parquet(path)
        return path.read_bytes()

    @cached_property
    def csv(self) -> bytes:
        """A table as CSV."""
        return self.frame.to_csv(index=False).encode()

    @cached_property
    def request(self) -> bytes:
        """What a run was asked."""
        RunDirectory(self.folder / "good").begin(Request(data=str(self.folder / "good.csv")))
        return (self.folder / "good" / "request.json").read_bytes()

    def write(self, name: str, content: bytes) -> Path:
        """Write a file."""
        path = self.folder / name
        path.write_bytes(content)
        return path


def damage(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes that were flipped, cut, doubled, inserted or put in place of others."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(changed) + 1))
        if chance(rng, 0.3):  # where archives and Parquet files have their directory
            at = max(0, len(changed) - int(rng.integers(1, 1000)))
        way = rng.integers(5)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del changed[at:]
        elif way == 2:
            del changed[at : at + int(rng.integers(1, 50))]
        elif way == 3:
            changed[at:at] = rng.bytes(int(rng.integers(1, 20)))
        else:
            changed[at:at] = changed[at : at + int(rng.integers(1, 50))]
    return bytes(changed)


def mangle(rng: np.random.Generator, text: str) -> bytes:
    """Text with lines left out, doubled and exchanged, and pieces put in."""
    pieces = ['"', ",", ",,", "\t", ";", "\r", "\n", "NA", "1e999", "-", "é", "=1+1", "[", "]", "{"]
    pieces += ["}", ":", "- ", "!!python/object/apply:os.system ['true']", "&a", "*a", "\0", "nan"]
    pieces += ["os:system", "0x", "2020-01-01", "'''", "# ", *HOSTILE_NAMES]
    lines = text.splitlines(keepends=True)
    for _ in range(rng.integers(1, 4)):
        k = int(rng.integers(len(lines))) if lines else 0
        way = rng.integers(4)
        if way == 0 and lines:
            del lines[k]
        elif way == 1 and lines:
            lines.insert(int(rng.integers(len(lines))), lines[k])
        else:
            line = lines[k] if lines else ""
            at = int(rng.integers(len(line) + 1))
            lines[k : k + 1] = [line[:at] + pick(rng, pieces) + line[at:]]
    return "".join(lines).encode("utf-8", "surrogatepass")


def junk(rng: np.random.Generator, depth: int = 2) -> Any:
    """Any plain value."""
    if depth and chance(rng, 0.3):
        inner = [junk(rng, depth - 1) for _ in range(rng.integers(4))]
        keys = [junk(rng, 0) for _ in inner]
        return pick(rng, (inner, tuple(inner), dict(zip(map(str, keys), inner, strict=True))))
    values: list[Any] = [None, True, False, 0, 1, -1, 10**30, 0.5, -0.0, 1e308, math.nan, math.inf]
    values += ["", "auto", "linear", "a", b"a", np.float32(0.5), np.int64(3), np.zeros(2), object()]
    values += [int(rng.integers(-5, 100)), float(rng.normal()), pick(rng, HOSTILE_NAMES)]
    return pick(rng, values)


def read_frame(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A table in memory, of any columns and names."""
    known = GOOD | BAD
    kinds = [
        pick(rng, sorted(GOOD if chance(rng, 0.8) else BAD)) for _ in range(rng.integers(1, 4))
    ]
    rows = int(rng.integers(0, 40))
    try:
        frame = frame_of(kinds, rows, int(rng.integers(2**31)), known)
    except (ValueError, TypeError):  # pandas cannot hold it
        return None
    names: list[Any] = draw_names(rng, len(kinds))
    if chance(rng, 0.1):
        names[0] = junk(rng, 0) if not isinstance(names[0], np.ndarray) else "a"
    try:
        frame.columns = pd.Index(names, dtype=object)
    except (ValueError, TypeError):
        return None
    if chance(rng, 0.3):
        survey(frame)
    table = Dataset.from_any(frame)
    if chance(rng, 0.5):
        Problem.build(table, prior=None, standardise=True)
    if table.values.shape != frame.shape:
        return f"a table of shape {frame.shape} was read as {table.values.shape}"
    return None


def read_text(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A CSV or TSV file with mistakes."""
    change = mangle(rng, shop.csv.decode()) if chance(rng, 0.7) else damage(rng, shop.csv)
    Dataset.from_any(shop.write(pick(rng, ("t.csv", "t.tsv")), change))
    return None


def read_unchanged(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A CSV file as pandas writes it comes back to the bit."""
    frame = draw_table(rng, int(rng.integers(3, 30)), int(rng.integers(2, 4)), continuous=True)
    frame.columns = [f"x{k}" for k in range(frame.shape[1])]
    path = shop.folder / "same.csv"
    frame.to_csv(path, index=False)
    same = np.array_equal(Dataset.from_any(path).values, frame.to_numpy())
    return None if same else "numbers differ from those in the file"


def read_parquet(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A damaged Parquet file."""
    Dataset.from_any(shop.write("t.parquet", damage(rng, shop.parquet)))
    return None


def read_knowledge(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A knowledge file with mistakes."""
    ending = pick(rng, ("yaml", "json", "csv", "txt"))
    text = KNOWLEDGE if ending != "json" else json.dumps({"p": 0.1, "tiers": [["a"], ["b"]]})
    Prior.from_file(shop.write(f"whitelist.{ending}", mangle(rng, text)))
    return None


def state_prior(rng: np.random.Generator, shop: Workshop) -> str | None:
    """Arguments of a prior that may be anything."""
    Prior(**{pick(rng, PRIOR): junk(rng) for _ in range(rng.integers(1, 3))}).bind(list("abc"))
    return None


def load_saved(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A damaged file of a posterior: refused, or the same posterior; now and then a whole one."""
    content = shop.saved if (whole := chance(rng, WHOLE)) else damage(rng, shop.saved)
    try:
        loaded = svidag.load(shop.write("t.svidag", content))
    except ValueError as error:
        if whole:
            return f"a whole file was refused: {error}"
        raise
    return None if digest(loaded) == shop.digest else "a file gave another posterior"


def load_checkpoint(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A damaged checkpoint: refused, or the same state; now and then a whole one."""
    content = shop.checkpoint if (whole := chance(rng, WHOLE)) else damage(rng, shop.checkpoint)
    try:
        found = Checkpoint(shop.write("t.npz", content), FINGERPRINT).load()
    except ValueError as error:
        if whole:
            return f"a whole checkpoint was refused: {error}"
        raise
    same = found is not None and np.array_equal(
        found.state["orders"], np.arange(400).reshape(20, 20)
    )
    return None if same else "a checkpoint gave another state"


def read_study(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A study file with mistakes."""
    Study.read(shop.write("t.toml", mangle(rng, STUDY)))
    return None


def read_request(rng: np.random.Generator, shop: Workshop) -> str | None:
    """What a run was asked, damaged."""
    good, folder = shop.request, shop.folder / "request"
    folder.mkdir(exist_ok=True)
    change = damage(rng, good) if chance(rng, 0.5) else mangle(rng, good.decode())
    shop.write("request/request.json", change)
    RunDirectory(folder).request()
    return None


def set_method(rng: np.random.Generator, shop: Workshop) -> str | None:
    """Settings that may be anything."""
    method = METHODS[pick(rng, METHODS)]
    names = [*method.values(), "nonsense"]
    method.with_values({pick(rng, names): junk(rng) for _ in range(rng.integers(1, 3))})
    return None


def check_arguments(rng: np.random.Generator, shop: Workshop) -> str | None:
    """Arguments of a fit that may be anything."""
    import inspect

    known = list(inspect.signature(fitting.check).parameters)
    fitting.check(**{pick(rng, known): junk(rng) for _ in range(rng.integers(1, 3))})
    return None


def type_command(rng: np.random.Generator, shop: Workshop) -> str | None:
    """A command with a wrong file or words: it says so in a line, without a traceback."""
    table = shop.write("t.csv", mangle(rng, shop.csv.decode()))
    words = [pick(rng, ("check", "graphs", "effect", "export", "methods", "nothing")), str(table)]
    more = ("--json", "--drop", "a", "--kind", "a=binary", "-k", "1", "--nonsense", "")
    words += [pick(rng, more) for _ in range(rng.integers(3))]
    done = CliRunner().invoke(app, words)
    fine = done.exception is None or isinstance(done.exception, SystemExit)
    if not fine:
        assert done.exception is not None
        raise done.exception
    if done.exit_code not in (0, 1, 2) or (done.exit_code and not done.output.strip()):
        return f"{words} ended with {done.exit_code} and the words {done.output[:100]!r}"
    return None


Reader = Callable[[np.random.Generator, Workshop], str | None]
KINDS: dict[str, tuple[Reader, int]] = {
    "frame": (read_frame, 20),
    "text": (read_text, 20),
    "unchanged": (read_unchanged, 5),
    "parquet": (read_parquet, 10),
    "knowledge": (read_knowledge, 15),
    "prior": (state_prior, 10),
    "saved": (load_saved, 15),
    "checkpoint": (load_checkpoint, 15),
    "study": (read_study, 10),
    "request": (read_request, 10),
    "settings": (set_method, 15),
    "arguments": (check_arguments, 15),
    "command": (type_command, 1),
}
"""Kinds of inputs, and how many of each come in a round."""
SETTINGS = tuple({name for method in METHODS.values() for name in method.values()})
NAMES = (*ARGUMENTS, *PRIOR, *SETTINGS, "setting", "column", "names", "table", "rows")


def judge(seed: int, case: str, shop: Workshop) -> Outcome:
    """Give one input to its reader."""
    read, _ = KINDS[case.split("/")[1]]
    began = time.monotonic()

    def outcome(verdict: str, detail: str = "") -> Outcome:
        counts = {"inputs": 1, verdict: 1}
        return Outcome(case, verdict, detail, time.monotonic() - began, counts)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", svidag.DataWarning)
            what = read(generator(seed, case), shop)
    except Exception as error:  # noqa: BLE001 — every error is judged
        reason = unclear(error, (*NAMES, str(shop.folder)))
        return outcome(REFUSED) if reason is None else outcome(UNCLEAR, reason)
    return outcome(DONE) if what is None else outcome(CHANGED, what)


def round_of_inputs(number: int) -> list[str]:
    """The names of the cases of a round, some of each kind."""
    return [
        f"input/{kind}/{number * count + k}"
        for kind, (_, count) in KINDS.items()
        for k in range(count)
    ]


def clean(folder: Path) -> None:
    """Remove a folder and all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
