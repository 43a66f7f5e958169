"""The wheel holds all that a fit needs: it runs in an environment that knows nothing of this tree.

Libraries come from the environment of the tests, so that nothing is downloaded.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_wheel_runs_the_demo(tmp_path):
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    offline = ("--no-deps", "--no-index")
    run(*pip, "wheel", *offline, "--no-build-isolation", "-w", tmp_path, ROOT, cwd=tmp_path)
    [wheel] = tmp_path.glob("svidag-*.whl")
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(*pip, "--python", python, "install", *offline, wheel, cwd=tmp_path)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import svidag; print(svidag.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    shown = run(home / "bin" / "svidag", "demo", cwd=tmp_path)
    assert "PKA" in shown
    assert "Verdict: " in shown
    assert "report.html" in shown.splitlines()[-1]
    assert (tmp_path / "svidag-demo" / "report.html").stat().st_size > 10_000
