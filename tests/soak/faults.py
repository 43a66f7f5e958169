"""Faults that hit a fit or its files from outside, each followed by what must still hold.

Every fault begins with a fit that nothing disturbs. After the fault the same call goes on, or
starts again where the fault says so in a clear error, and must end with the same numbers.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import svidag
from soak.cases import CHANGED, DONE, HANG, REFUSED, UNCLEAR, Outcome, chance, generator, pick
from soak.children import Ended, Tell, run_child
from soak.clarity import unclear
from soak.fits import FitSpec, digest, draw_fit
from soak.inputs import damage
from svidag.run.checkpoint import Checkpoint, Interrupted

ATTEMPTS = 4
"""How many fits are drawn until one is not refused."""


@dataclass(frozen=True)
class Scene:
    """A fit that is to be disturbed."""

    spec: FitSpec
    folder: Path
    wanted: str
    seconds: float
    patience: float
    rng: np.random.Generator

    @property
    def checkpoint(self) -> Path:
        """Where the fit keeps its state."""
        return self.folder / "checkpoint.npz"

    @property
    def names(self) -> list[str]:
        """What a clear error names one of."""
        return [str(self.folder), "memory", *self.spec.names]

    def run(self, before: Callable[[], None] = lambda: None, **options: Any) -> Ended:
        """Fit in a child; it tells the sum of its result, or what is unclear in its error."""
        arguments = options.pop("arguments", {"checkpoint": self.checkpoint})

        def work(tell: Tell) -> None:
            _save_often()
            before()
            tell(_try(lambda: digest(self.spec.fit(**arguments)), self.names))

        return run_child(work, patience=self.patience, **options)


class FaultError(Exception):
    """What must not happen, with its verdict."""

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict


def _try(work: Callable[[], Any], names: list[str]) -> dict[str, Any]:
    """The result of work, or what became of its error."""
    try:
        return {"result": work()}
    except Interrupted as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 — every error is judged
        reason = unclear(error, names)
        return {"refused": str(error)[:200]} if reason is None else {"unclear": reason}


def _save_often() -> None:
    """Checkpoints after every step, not every second: a small fit has many as well."""
    Checkpoint.__init__.__kwdefaults__["every"] = 0.0


def require(ended: Ended, wanted: str | None, after: str, *, may_refuse: bool = False) -> str:
    """Raise unless a child ended with the wanted result, or with a clear error if it may.

    None is any result.
    """
    if ended.silent:
        raise FaultError(HANG, f"{after}: silent for {ended.seconds:.0f} s")
    if not ended.said:
        raise FaultError(UNCLEAR, f"{after}: ended with code {ended.code}: {ended.errors[-300:]}")
    said = ended.said[-1]
    if "unclear" in said:
        raise FaultError(UNCLEAR, f"{after}: {said['unclear']}")
    if "refused" in said:
        if not may_refuse:
            raise FaultError(CHANGED, f"{after}: refused: {said['refused']}")
        return REFUSED
    if wanted is not None and said["result"] != wanted:
        raise FaultError(CHANGED, f"{after}: another result than the fit that nothing disturbed")
    return DONE


def killed(scene: Scene) -> None:
    """Kill -9 at random moments, up to three times."""
    for _ in range(scene.rng.integers(1, 4)):
        after = float(scene.rng.uniform(0, 1.1)) * scene.seconds
        ended = scene.run(kill_after=after)
        if ended.code == 0:
            require(ended, scene.wanted, "fit that was to be killed")
    require(scene.run(), scene.wanted, "resumed after kill -9")


def interrupted(scene: Scene) -> None:
    """Ctrl-C at a random moment."""
    after = float(scene.rng.uniform(0.05, 1)) * scene.seconds
    ended = scene.run(kill_after=after, signal_=signal.SIGINT)
    if ended.said:
        require(ended, scene.wanted, "Ctrl-C", may_refuse=True)
    require(scene.run(), scene.wanted, "resumed after Ctrl-C")


def disk_full(scene: Scene) -> None:
    """No room for the checkpoint, or for a part of it; then there is room again."""
    size = int(10 ** scene.rng.uniform(2, 5))
    with limited_folder(scene.folder / "small", size) as (folder, before):
        file = folder / "checkpoint.npz"
        ended = scene.run(before, arguments={"checkpoint": file})
        require(ended, scene.wanted, "fit on a full disk", may_refuse=True)
        left = file.read_bytes() if file.exists() else None
    if left is not None:
        scene.checkpoint.write_bytes(left)
    require(scene.run(), scene.wanted, "resumed when the disk had room again")
    saving_on_full_disk(scene)


def saving_on_full_disk(scene: Scene) -> None:
    """A posterior that does not fit leaves the earlier file as it was."""

    def work(tell: Tell) -> None:
        posterior = scene.spec.fit()
        with limited_folder(scene.folder / "smaller", 1000) as (folder, before):
            file = folder / "posterior.svidag"
            file.write_bytes(b"earlier")
            before()
            told = _try(lambda: posterior.save(file) and "saved", scene.names)
            same = file.read_bytes() == b"earlier" and os.listdir(folder) == [file.name]
            tell(told | {"kept": same})

    ended = run_child(work, patience=scene.patience)
    require(ended, "saved", "saving on a full disk", may_refuse=True)
    if "result" not in ended.said[-1] and not ended.said[-1]["kept"]:
        raise FaultError(CHANGED, "saving on a full disk changed the earlier file or left a part")


def read_only(scene: Scene) -> None:
    """A directory that cannot be written to: a clear error where there is anything to write."""
    require(scene.run(), scene.wanted, "fit with a checkpoint")
    with read_only_folder(scene.folder / "still") as folder:
        if folder is None:
            return
        ended = scene.run(arguments={"checkpoint": folder / "checkpoint.npz"})
        found = require(ended, scene.wanted, "read-only directory", may_refuse=True)
        if found == DONE and scene.checkpoint.exists():
            raise FaultError(CHANGED, "a checkpoint that cannot be written was passed over")


def damaged_checkpoint(scene: Scene) -> None:
    """A checkpoint whose bytes were changed: refused by name, or the same result."""
    scene.run(kill_after=float(scene.rng.uniform(0.3, 1)) * scene.seconds)
    if not scene.checkpoint.exists():
        scene.run()
    if not scene.checkpoint.exists():
        return
    good = scene.checkpoint.read_bytes()
    scene.checkpoint.write_bytes(damage(scene.rng, good))
    require(scene.run(), scene.wanted, "damaged checkpoint", may_refuse=True)
    scene.checkpoint.write_bytes(good)
    require(scene.run(), scene.wanted, "checkpoint made whole again")


def damaged_result(scene: Scene) -> None:
    """A saved posterior whose bytes were changed: refused by name, or the same posterior."""
    file, seed = scene.folder / "posterior.svidag", int(scene.rng.integers(2**31))

    def work(tell: Tell) -> None:
        good = scene.spec.fit().save(file).read_bytes()
        rng = np.random.default_rng(seed)
        for _ in range(20):
            file.write_bytes(damage(rng, good))
            told = _try(lambda: digest(svidag.load(file)), [str(file)])
            if "refused" not in told:
                tell(told)
        file.write_bytes(good)
        tell(_try(lambda: digest(svidag.load(file)), [str(file)]))

    ended = run_child(work, patience=scene.patience)
    for said in ended.said:
        one = Ended([said], ended.code, ended.silent, ended.seconds, ended.errors)
        require(one, scene.wanted, "damaged file of a posterior")
    require(ended, scene.wanted, "whole file of a posterior")


def clock_jump(scene: Scene) -> None:
    """Every clock jumps by seconds to years, back and forth; a steady one only forward."""
    seed = int(scene.rng.integers(2**31))

    def before() -> None:
        rng = np.random.default_rng(seed)
        real = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
        ahead = dict.fromkeys(real, 0.0)

        def jumping(name: str) -> Callable[[], float]:
            def now() -> float:
                if chance(rng, 0.3):
                    step = float(10 ** rng.uniform(-2, 8))
                    ahead[name] += step if name != "time" or chance(rng, 0.5) else -step
                return real[name]() + ahead[name]

            return now

        for name in real:
            setattr(time, name, jumping(name))

    require(scene.run(before), scene.wanted, "fit under clock jumps")
    require(scene.run(), scene.wanted, "resumed after clock jumps")


def worker_killed(scene: Scene) -> None:
    """Processes of a mixture of fits are killed at random moments."""
    arguments = {"bags": 4, "workers": 2, "checkpoint": scene.checkpoint}
    wanted = scene.run(arguments={"bags": 4, "workers": 1})
    if not wanted.said or "result" not in wanted.said[-1]:
        require(wanted, None, "mixture that nothing disturbs", may_refuse=True)
        return
    moments = sorted(scene.rng.uniform(0, 4 + 2 * wanted.seconds, size=2).tolist())
    began = time.monotonic()

    def meanwhile(child: int) -> None:
        if moments and time.monotonic() - began > moments[0]:
            moments.pop(0)
            workers = [pid for pid in children_of(child) if "loky" in command_of(pid)]
            if workers:
                _send(pick(scene.rng, workers), signal.SIGKILL)

    ended = scene.run(arguments=arguments, meanwhile=meanwhile)
    require(ended, wanted.said[-1]["result"], "mixture whose workers were killed")


def memory_limit(scene: Scene) -> None:
    """Little more address space than the process has: a clear error or the result, then go on.

    Where a library in compiled code ends the process itself, that counts as kill -9.
    """
    more = int(10 ** scene.rng.uniform(5, 8.5))

    def before() -> None:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))

    ended = scene.run(before)
    if ended.said or ended.silent:
        require(ended, scene.wanted, f"with {more:,} bytes to spare", may_refuse=True)
    require(scene.run(), scene.wanted, "resumed with enough memory")


KINDS: dict[str, Callable[[Scene], None]] = {
    "kill": killed,
    "interrupt": interrupted,
    "disk": disk_full,
    "read-only": read_only,
    "checkpoint": damaged_checkpoint,
    "result": damaged_result,
    "clock": clock_jump,
    "worker": worker_killed,
    "memory": memory_limit,
}
"""Kinds of faults."""


def strike(seed: int, case: str, folder: Path, patience: float) -> Outcome:
    """Make a fit that nothing disturbs, and then one that the fault hits."""
    _, kind, method, *_ = case.split("/")
    began = time.monotonic()
    rng = generator(seed, case)
    try:
        scene = _scene(rng, method, folder, patience, mixture=kind == "worker")
        if scene is None:
            return Outcome(case, REFUSED, "no fit", time.monotonic() - began, {})
        KINDS[kind](scene)
    except FaultError as error:
        counts = {"faults": 1, error.verdict: 1}
        return Outcome(case, error.verdict, str(error), time.monotonic() - began, counts)
    return Outcome(case, DONE, "", time.monotonic() - began, {"faults": 1, DONE: 1})


def _scene(
    rng: np.random.Generator, method: str, folder: Path, patience: float, mixture: bool
) -> Scene | None:
    for _ in range(ATTEMPTS):
        spec = draw_fit(rng, method, **({"bags": None, "missing": "error"} if mixture else {}))
        scene = Scene(spec, folder, "", 0.0, patience, rng)
        ended = scene.run(arguments={})
        if require(ended, None, "fit that nothing disturbs", may_refuse=True) == REFUSED:
            continue
        return Scene(spec, folder, ended.said[-1]["result"], ended.seconds, patience, rng)
    return None


@contextmanager
def limited_folder(path: Path, size: int) -> Any:
    """A folder with room for so many bytes, and what a child must do first for that.

    A small file system where one can be mounted; elsewhere files that can grow no further.
    """
    path.mkdir(exist_ok=True)
    if _mount(path, size):
        try:
            yield path, lambda: None
        finally:
            _unmount(path)
    else:
        yield path, lambda: _limit_files(size)


def _limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@contextmanager
def read_only_folder(path: Path) -> Any:
    """A folder in which nothing can be written; None where this user writes anywhere."""
    path.mkdir(exist_ok=True)
    if _mount(path, 1 << 16, "ro"):
        try:
            yield path
        finally:
            _unmount(path)
        return
    path.chmod(0o555)
    try:
        yield None if os.access(path, os.W_OK) else path
    finally:
        path.chmod(0o755)


def _mount(path: Path, size: int, *options: str) -> bool:
    words = ",".join([f"size={max(4096, size)}", *options])
    command = ["mount", "-t", "tmpfs", "-o", words, "svidag-soak", str(path)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def _unmount(path: Path) -> None:
    # Lazily: a process that is about to end may still be in it.
    ctypes.CDLL(None).umount2(os.fsencode(path), 2)


def children_of(pid: int) -> list[int]:
    """All processes that a process started, and those that they started."""
    found: list[int] = []
    try:
        direct = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return found
    for child in map(int, direct):
        found += [child, *children_of(child)]
    return found


def command_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return ""


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
