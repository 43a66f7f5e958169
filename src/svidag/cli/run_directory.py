"""A run on disk: what was asked, the checkpoint while it is unfinished, and then its posterior."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import svidag
from svidag.atomic import replacing
from svidag.data import Dataset
from svidag.data.environments import split_environments
from svidag.data.files import read_table
from svidag.data.resampling import split_groups
from svidag.io.record import REQUEST, RESULT

FORMAT = "svidag run 3"
ASIDE = ".before"
"""Ending of the files of an earlier run until the run that replaces it has a checkpoint."""


@dataclass(frozen=True)
class Request:
    """The arguments of one `svidag fit`, as plain data; paths are absolute."""

    data: str
    knowledge: str | None = None
    interventions: str | None = None
    environments: str | None = None
    groups: str | None = None
    drop: tuple[str, ...] = ()
    kinds: dict[str, str] | None = None
    transform: str | dict[str, str] | None = None
    missing: str = "error"
    method: str = "order-mcmc"
    mechanism: str = "auto"
    standardise: bool = True
    graph_weights: str = "order"
    coarsen: float | None = None
    bags: int | str | None = "auto"
    bag_rows: int | None = None
    minutes: float | None = None
    seed: int = 0
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def dataset(self) -> Dataset:
        """The variables of the table, without dropped columns."""
        data, environments = self._source()
        data, _ = split_environments(data, environments, self.interventions)
        data, _ = split_groups(data, self.groups, self.interventions)
        return Dataset.from_any(
            data,
            interventions=self.interventions,
            transforms=self.transform,
            kinds=self.kinds,
        )

    def frame(self) -> pd.DataFrame:
        """The table as the file has it, without dropped columns."""
        data = read_table(self.data, self.interventions)
        if self.drop:
            dropped = [name for text in self.drop for name in _listed(text, data.columns)]
            absent = [name for name in dropped if name not in data.columns]
            if absent:
                raise ValueError(
                    f"--drop names {absent[0]!r}, which is not a column of {self.data}; "
                    f"its columns are {list(data.columns)}"
                )
            kept = (self.groups, *self._contexts(data.columns))
            data = data.drop(columns=[name for name in dropped if name not in kept])
        return data

    def roles(self, columns: Any) -> list[str]:
        """Columns that are no variables: targets of interventions, groups and environments."""
        named = (self.interventions, self.groups, *self._contexts(columns))
        return [name for name in named if name is not None]

    def _source(self) -> tuple[Any, list[str] | None]:
        """The table as `svidag.fit` takes it, and the columns of its environments."""
        if self.environments is None:
            return (self.frame() if self.drop else self.data), None
        frame = self.frame()
        return frame, self._contexts(frame.columns)

    def _contexts(self, columns: Any) -> list[str]:
        return [] if self.environments is None else _listed(self.environments, columns)

    def prior(self) -> svidag.Prior | None:
        """The beliefs, where a file gives them."""
        return None if self.knowledge is None else svidag.Prior.from_file(self.knowledge)

    def fit(
        self, checkpoint: Path, progress: Any, workers: int | str | None = None
    ) -> svidag.Posterior:
        """Fit, going on from the checkpoint if there is one.

        `workers` is no part of the request: a run may go on with others, to the same result.
        """
        from svidag.methods.registry import find_method

        data, environments = self._source()
        return svidag.fit(
            data,
            method=find_method(self.method).with_values(self.settings),
            mechanism=self.mechanism,
            prior=self.prior(),
            interventions=self.interventions,
            environments=environments,
            groups=self.groups,
            kinds=self.kinds,
            transforms=self.transform,
            missing=self.missing,
            standardise=self.standardise,
            graph_weights=self.graph_weights,
            coarsen=self.coarsen,
            bags=self.bags,
            bag_rows=self.bag_rows,
            minutes=self.minutes,
            workers=workers,
            seed=self.seed,
            progress=progress,
            checkpoint=checkpoint,
        )


@dataclass(frozen=True)
class RunDirectory:
    """The files of a run, by name."""

    path: Path

    @property
    def request_file(self) -> Path:
        """What was asked."""
        return self.path / REQUEST

    @property
    def checkpoint(self) -> Path:
        """Where an unfinished fit stands."""
        return self.path / "checkpoint.npz"

    @property
    def result(self) -> Path:
        """The posterior, for `svidag.load`."""
        return self.path / RESULT

    @property
    def edges(self) -> Path:
        """Arrow probabilities, for any spreadsheet."""
        return self.path / "edges.csv"

    @property
    def report(self) -> Path:
        """The report, for any browser."""
        return self.path / "report.html"

    @property
    def finished(self) -> bool:
        """Whether the posterior is there."""
        return self.result.exists()

    def request(self) -> Request | None:
        """What was asked; None where there is no run."""
        if not self.request_file.exists():
            return None
        try:
            content = json.loads(self.request_file.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT!r}")
            paths = {name: self._absolute(content[name]) for name in ("data", "knowledge")}
            return Request(**{**content, **paths, "drop": tuple(content["drop"])})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{self.request_file} is damaged: {error}") from None

    def begin(self, request: Request) -> None:
        """Record what is asked, before anything is computed."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; a run needs a directory")
        paths = {name: self._relative(getattr(request, name)) for name in ("data", "knowledge")}
        content = {"format": FORMAT, **dataclasses.asdict(request), **paths}
        with replacing(self.request_file) as file:
            file.write((json.dumps(content, indent=2) + "\n").encode("utf-8"))

    @contextmanager
    def running(self, request: Request, *, restart: bool) -> Iterator[None]:
        """Record a run while it goes on; if it is refused, leave the directory as it was.

        A run that has written a checkpoint stays, since it can be resumed.
        """
        known = self.request_file.exists()
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        if restart:
            self._move_aside()
        self.begin(request)
        try:
            yield
        except (ValueError, OSError):
            if not self.checkpoint.exists() and (restart or not known):
                self.request_file.unlink(missing_ok=True)
                self._bring_back()
                with contextlib.suppress(OSError):
                    for place in new:
                        place.rmdir()
            raise
        finally:
            for file in self._files:
                _aside(file).unlink(missing_ok=True)

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.request_file, self.checkpoint, self.result, self.edges, self.report

    def _move_aside(self) -> None:
        for file in self._files:
            if file.exists():
                os.replace(file, _aside(file))

    def _bring_back(self) -> None:
        for file in self._files:
            if _aside(file).exists():
                os.replace(_aside(file), file)

    def _relative(self, path: str | None) -> str | None:
        """Seen from the run, so that both may be moved together; absolute on another drive."""
        try:
            return None if path is None else os.path.relpath(path, self.path)
        except ValueError:
            return path

    def _absolute(self, path: str | None) -> str | None:
        if path is None:
            return None
        return os.path.normpath(os.path.join(os.path.abspath(self.path), path))

    def load(self) -> svidag.Posterior:
        """The finished posterior; an error says what is missing."""
        if self.path.is_file():
            return svidag.load(self.path)
        if self.finished:
            return svidag.load(self.result)
        if self.request_file.exists():
            raise ValueError(
                f"the run in {self.path} is not finished; `svidag fit {self.path}` goes on with it"
            )
        raise ValueError(f"{self.path} holds no run; `svidag fit DATA -o {self.path}` makes one")


def _listed(text: str, columns: Any) -> list[str]:
    """Names separated by commas; a column whose own name holds commas is named as it is."""
    if text in columns:
        return [text]
    return [name.strip() for name in text.split(",")]


def _aside(file: Path) -> Path:
    return file.with_name(file.name + ASIDE)
