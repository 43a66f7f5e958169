"""The page about studies is true: its example of a new data set, method and measure runs."""

import re
import sys
from pathlib import Path

from svidag.bench.cell import compute
from svidag.bench.study import Study

PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()


def block(language, holding):
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(text for text in blocks if holding in text)


def test_a_new_data_set_method_and_measure_need_a_function_each(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(block("python", "# mine.py"))
    (tmp_path / "own.toml").write_text(block("toml", "mine:size"))
    (cell,) = Study.read(tmp_path / "own.toml").cells
    row = compute(cell)
    assert row["metrics"]["mine:size"][0]["edges"] > 0
    assert len(row["metrics"]["scores"]) == 4
    monkeypatch.delitem(sys.modules, "mine")


def test_the_file_on_the_page_reads(tmp_path):
    (tmp_path / "page.toml").write_text(block("toml", "[show]"))
    assert len(Study.read(tmp_path / "page.toml").cells) == 20
