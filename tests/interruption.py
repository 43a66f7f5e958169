"""Fits that are cut off: by Ctrl-C at a stage, or killed as a process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svidag.run.progress import Silent


class StopAt(Silent):
    """Interrupts a stage, as Ctrl-C does, once so much of it is done."""

    def __init__(self, stage: str, done: int) -> None:
        self.stage, self.done, self.here = stage, done, False

    def open(self, title: str, done: int, total: int | None) -> None:
        self.here = title == self.stage

    def update(self, done: int, metrics: Any) -> None:
        if self.here and done >= self.done:
            raise KeyboardInterrupt


class KillOnce(Silent):
    """Kills its own process, which can clean nothing up, once a checkpoint is far enough.

    It waits at every report until then, so that a short fit writes more than its first checkpoint.
    """

    def __init__(self, checkpoint: str, far_enough: Callable[[Path], bool] = Path.exists) -> None:
        self.checkpoint, self.far_enough = Path(checkpoint), far_enough
        self.resumed = self.checkpoint.exists()

    def update(self, done: int, metrics: Any) -> None:
        if self.resumed:
            return
        if self.far_enough(self.checkpoint):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)


def kill_and_run_again(code: str, checkpoint: Path, result: Path) -> None:
    """Run code that kills itself by `KillOnce`, then run it to its end.

    The code finds the two paths in `sys.argv`.
    """
    command = [sys.executable, "-c", code, str(checkpoint), str(result)]
    killed = subprocess.run(command, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert checkpoint.exists()
    assert not result.exists()
    subprocess.run(command, check=True)
