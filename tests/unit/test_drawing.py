"""Images of a posterior: valid SVG, a PNG only with matplotlib, and the signs of the report."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from svidag.export import write
from svidag.posterior import DrawnGraphs, Posterior

SVG = "{http://www.w3.org/2000/svg}"


def posterior(names=("a", "b", "c")):
    collider, chain = np.zeros((2, 3, 3), dtype=np.uint8)
    collider[0, 2] = collider[1, 2] = 1
    chain[0, 1] = 1
    return Posterior(names, DrawnGraphs(np.stack([collider, chain]), np.array([0.7, 0.3])))


def parts(drawing, tag):
    return list(ET.fromstring(drawing.svg).iter(SVG + tag))


def test_every_connection_above_the_threshold_is_drawn_with_its_probability():
    drawing = posterior().plot()
    legend = 3
    assert len(parts(drawing, "path")) == 2 + legend
    words = [text.text for text in parts(drawing, "text")]
    assert words.count("0.70") == 2
    assert "0.30" not in words
    assert {"a", "b", "c"} <= set(words)
    assert len(parts(posterior().plot(threshold=0.2), "path")) == 3 + legend


def test_decided_arrows_are_solid_and_others_dashed():
    drawing = posterior().plot(threshold=0.2)
    dashed = [line.dashed for line in drawing.lines[:3]]
    assert sorted(dashed) == [False, False, True]
    assert sum(bool(line.curve.head) for line in drawing.lines[:3]) == 3


def test_an_arrow_ends_at_its_effect():
    """The tip of a head touches the box of the effect, the line begins at that of the cause."""
    drawing = posterior().plot()
    a, b, c = drawing.boxes
    for line in drawing.lines[:2]:
        (x, y), (u, v) = line.curve.head[0], line.curve.bends[0][0]
        assert abs(x - c.x) <= c.width / 2
        assert abs(abs(y - c.y) - 18) < 0.01
        assert min(abs(u - box.x) for box in (a, b)) <= a.width / 2
        assert min(abs(abs(v - box.y) - 17) for box in (a, b)) < 0.01


@pytest.mark.parametrize("name", ["<script>", "a&b", '"', "\x00\x1b", "名前", "x" * 300])
def test_any_name_gives_valid_xml(name):
    drawing = posterior(names=(name, "b", "c")).plot()
    assert len(parts(drawing, "g")) == 3
    assert "<script" not in drawing.svg


def test_an_image_is_written_by_its_ending(tmp_path):
    drawing = posterior().plot(tmp_path / "g.svg")
    assert (tmp_path / "g.svg").read_text(encoding="utf-8") == drawing.svg
    drawing.save(tmp_path / "g.png")
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert write(posterior(), tmp_path / "h.svg").stat().st_size > 500
    write(posterior(), tmp_path / "image", format="png")
    with pytest.raises(ValueError, match=r"\.svg or \.png; got .*g.pdf"):
        drawing.save(tmp_path / "g.pdf")
    with pytest.raises(ValueError, match="threshold must be a probability"):
        posterior().plot(threshold=0.0)


def test_a_png_without_matplotlib_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "svidag.report.raster", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ImportError, match=r"svidag\[plot\]"):
        posterior().plot(tmp_path / "g.png")
    assert not list(tmp_path.iterdir())
    posterior().plot(tmp_path / "g.svg")


def test_neither_a_fit_nor_an_svg_imports_matplotlib():
    code = (
        "import sys, svidag\n"
        "data = svidag.datasets.two_node('linear', n=50).data\n"
        "svidag.exact.posterior(data).plot().svg\n"
        "print('matplotlib' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search("False", shown.stdout)
