"""Every example in the README and the documentation runs, in order, in an empty directory."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from svidag.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path):
    return [match.groups() for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for language, title, content in blocks(page):
        if language == "python":
            exec(compile(content, str(page), "exec"), namespace)
        elif language == "console":
            for line in content.splitlines():
                run_command(line)
        elif title:
            (tmp_path / title).write_text(content, encoding="utf-8")


def run_command(line: str) -> None:
    assert line.startswith("$ svidag "), f"an example that no test runs: {line!r}"
    command, _, target = line.removeprefix("$ svidag ").partition(" > ")
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception}"
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")


def test_every_svidag_command_that_is_shown_stands_in_a_block_that_runs():
    """Inline commands name real subcommands."""
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    for page in PAGES:
        for name in re.findall(r"`svidag ([a-z][\w-]*)", page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name} shows `svidag {name}`"


def test_the_site_builds_without_a_warning(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "tutorial.html").exists()
    remote = re.compile(r"(?:src|href)=\"(?:https?:)?//[^\"]+\.(?:js|css|woff2?)")
    for page in tmp_path.glob("*.html"):
        assert not remote.search(page.read_text(encoding="utf-8")), page.name


def test_the_installed_program_is_the_one_of_this_package():
    program = shutil.which("svidag", path=str(Path(sys.executable).parent))
    assert program is not None
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("svidag ")
