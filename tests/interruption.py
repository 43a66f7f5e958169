"""Fits that are cut off: by Ctrl-C at a stage, or killed as a process."""

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


def kill_and_run_again(
    code: str, checkpoint: Path, result: Path, far_enough: Callable[[Path], bool]
) -> None:
    """Kill a process once its checkpoint is far enough, then run it to its end.

    The code finds the two paths in `sys.argv`.
    """
    command = [sys.executable, "-c", code, str(checkpoint), str(result)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 300
    while not far_enough(checkpoint) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert far_enough(checkpoint)
    assert not result.exists(), "the fit ended before it could be killed"
    subprocess.run(command, check=True)
