"""The page of many variables is what its rows say."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_many_variables_is_what_its_rows_say(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import large_page

    text = large_page.PAGE.read_text(encoding="utf-8")
    assert large_page.page(text) == text
    assert large_page.PLOT.exists()
    for name in ("large_page", "large"):
        sys.modules.pop(name)
