"""Which case comes next, and in which process."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from soak import faults, inputs
from soak.cases import HANG, UNCLEAR, Outcome
from soak.children import Tell, run_child
from soak.figures import GOALS, Figures
from soak.fits import attempt, fit_batch
from soak.inputs import Workshop
from svidag.methods.registry import METHODS

REPEATS = 8
"""Fits that share what is compiled for them."""
ROUNDS = 5
"""Rounds of inputs in one process."""
SHARE = 0.3
"""Share of the time of fits for methods in turn, however long they take; the rest: cheap ones."""


class Costs:
    """Mean seconds by key; keys that cost less are chosen more often."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = list(keys)
        self.seconds: Counter[str] = Counter()
        self.count: Counter[str] = Counter()

    def add(self, key: str, seconds: float) -> None:
        """Note what one cost."""
        self.seconds[key] += seconds
        self.count[key] += 1

    def mean(self, key: str) -> float:
        """Mean seconds, at least a millisecond."""
        return max(1e-3, self.seconds[key] / max(1, self.count[key]))

    def least_used(self, among: Iterable[str] | None = None) -> str:
        """The key that had the least time, of all or among some."""
        return min(among or self.keys, key=lambda key: self.seconds[key])

    def cheap(self, rng: np.random.Generator) -> str:
        """A random key, with probability ∝ 1 / seconds²; of those used, if any was."""
        keys = [key for key in self.keys if self.count[key]] or self.keys
        weights = np.array([self.mean(key) ** -2.0 for key in keys])
        return keys[int(rng.choice(len(keys), p=weights / weights.sum()))]


class Driver:
    """Runs cases, each group as far as its goal asks for it, and counts what came of them."""

    def __init__(
        self, seed: int, folder: Path, patience: float = 300.0, *, show: bool = False
    ) -> None:
        self.seed, self.folder, self.patience, self.show = seed, folder, patience, show
        self.figures = Figures(seed)
        self.began = time.monotonic()
        self.numbers: Counter[str] = Counter()
        self.methods = Costs(METHODS)
        self.faults = Costs(faults.KINDS)
        self.rng = np.random.default_rng(seed)
        self.in_turn = 0.0
        self.told = 0.0

    @property
    def minutes(self) -> float:
        """How long it has run."""
        return (time.monotonic() - self.began) / 60

    def run(self, minutes: float) -> None:
        """Run cases for some minutes.

        Of the groups that have not reached their goal, the one that had the least time is next:
        inputs are cheap and reach it first, and all time after that is for fits and faults.
        """
        steps: dict[str, Callable[[], None]] = {
            "inputs": self.some_inputs,
            "fits": self.some_fits,
            "faults": self.one_fault,
        }
        groups = Costs(GOALS)
        while self.minutes < minutes:
            left = [name for name in GOALS if self.figures.total(name) < GOALS[name]]
            group, began = groups.least_used(left or GOALS), time.monotonic()
            steps[group]()
            groups.add(group, time.monotonic() - began)
            if self.show and time.monotonic() - self.told > 30:
                self.told = time.monotonic()
                counts = ", ".join(f"{self.figures.total(name):,} {name}" for name in GOALS)
                self._say(f"{self.minutes:5.1f} min: {counts}, {len(self.figures.failures)} failed")

    def some_inputs(self, rounds: int = ROUNDS) -> None:
        """Some rounds of inputs."""
        first = self._number("inputs", rounds)
        cases = [case for k in range(rounds) for case in inputs.round_of_inputs(first + k)]
        self._children(cases, self._judge, "inputs")

    def some_fits(self, method: str | None = None, repeats: int = REPEATS) -> None:
        """Fits of a method: the one that had the least time so far, or a cheap one."""
        if method is None:
            turn = self.in_turn <= SHARE * sum(self.methods.seconds.values())
            method = self.methods.least_used() if turn else self.methods.cheap(self.rng)
        else:
            turn = False
        case = f"fit/{method}/{self._number(f'fit/{method}')}"
        began = time.monotonic()
        specs = dict(fit_batch(self.seed, case, repeats))
        self._children(list(specs), lambda name, folder: attempt(name, specs[name], folder), "fits")
        seconds = time.monotonic() - began
        self.methods.add(method, seconds)
        self.in_turn += seconds if turn else 0.0

    def one_fault(self, kind: str | None = None, method: str | None = None) -> None:
        """The fault that had the least time so far, at a fit of a random method."""
        kind = kind or self.faults.least_used()
        method = method or self.methods.cheap(self.rng)
        case = f"fault/{kind}/{method}/{self._number(f'fault/{kind}/{method}')}"
        outcome = self._strike(case)
        self.faults.add(kind, outcome.seconds)
        self._add(outcome)

    def repeat(self, case: str) -> None:
        """Run one case by its name."""
        group, kind, *rest = case.split("/")
        if group == "input":
            self._children([case], self._judge, "inputs")
        elif group == "fit":
            number, *which = rest
            specs = dict(fit_batch(self.seed, f"fit/{kind}/{number}", REPEATS))
            chosen = [name for name in specs if not which or name == case]
            self._children(chosen, lambda name, folder: attempt(name, specs[name], folder), "fits")
        else:
            self._add(self._strike(case))

    def _judge(self, case: str, folder: Path) -> Outcome:
        return inputs.judge(self.seed, case, self._workshop(folder))

    def _workshop(self, folder: Path) -> Workshop:
        if getattr(self, "_shop", None) is None or self._shop.folder != folder:
            self._shop = Workshop(folder)
        return self._shop

    def _strike(self, case: str) -> Outcome:
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            return faults.strike(self.seed, case, Path(name), self.patience)

    def _children(
        self, cases: list[str], run: Callable[[str, Path], Outcome], counted: str
    ) -> None:
        """Run cases in a child; one that ends it, or hangs, is noted and the others go on."""
        left = list(cases)
        while left:
            with tempfile.TemporaryDirectory(dir=self.folder) as name:

                def work(tell: Tell, left: Any = tuple(left), name: str = name) -> None:
                    for case in left:
                        tell(run(case, Path(name)).as_json())

                ended = run_child(work, patience=self.patience)
            for said in ended.said:
                self._add(Outcome(**said))
            left = left[len(ended.said) :]
            if left:
                verdict = HANG if ended.silent else UNCLEAR
                detail = f"the process ended with code {ended.code}: {ended.errors[-500:]}"
                counts = {counted: 1, verdict: 1}
                self._add(Outcome(left.pop(0), verdict, detail, ended.seconds, counts))

    def _add(self, outcome: Outcome) -> None:
        self.figures.add(outcome)
        if outcome.failed and self.show:
            self._say(f"{outcome.verdict}: {outcome.detail}")
            self._say(f"  again: python -m soak --seed {self.seed} --case {outcome.case}")

    def _number(self, key: str, count: int = 1) -> int:
        self.numbers[key] += count
        return self.numbers[key] - count

    def _say(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
