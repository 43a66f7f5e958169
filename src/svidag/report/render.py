"""One self-contained page: nothing in it loads anything, and nothing in the data becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from svidag.report.content import Content, drawing
from svidag.report.effects import LEVEL

SCRIPTS = ("graph.js", "focus.js", "tables.js", "effects.js", "main.js")
STYLES = ("style.css",)
HEAT_STEPS = 20


def render(content: Content) -> str:
    """The page as text."""
    page = files("svidag.report") / "page"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (page / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "probability": probability,
        "heat": heat,
        "short": short,
    }
    script = "\n".join((page / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = "\n".join(
        [*((page / name).read_text(encoding="utf-8") for name in STYLES), _heat_rules()]
    )
    return environment.get_template("page.html").render(
        content=content,
        names=content.names,
        level=LEVEL,
        transformed=content.data is not None and any(c.transform for c in content.data.columns),
        script=Markup(script),
        style=Markup(style),
        policy=_policy(script, style),
        drawing=Markup(embedded(drawing(content))),
    )


def embedded(value: Any) -> str:
    r"""JSON that can stand in a script element: no character in it ends or opens anything.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(script: str, style: str) -> str:
    """The rule that only our own script and style run, and that nothing is loaded."""
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _heat_rules() -> str:
    return "".join(f".h{k}{{--p:{100 * k // HEAT_STEPS}%}}" for k in range(HEAT_STEPS + 1))


def heat(p: float) -> str:
    """The class of a probability on the colour scale.

    Examples
    --------
    >>> heat(0.0), heat(0.52), heat(1.0)
    ('h0', 'h10', 'h20')
    """
    return f"h{round(min(1.0, max(0.0, p)) * HEAT_STEPS)}"


def probability(p: float) -> str:
    """A probability with two decimals that never claims more certainty than there is.

    Examples
    --------
    >>> probability(0.0), probability(0.004), probability(0.5), probability(0.998), probability(1.0)
    ('0', '<.01', '.50', '>.99', '1')
    """
    if p <= 0 or p >= 1 - 1e-12:
        return "0" if p <= 0 else "1"
    if p < 0.005:
        return "<.01"
    return ">.99" if p > 0.995 else f"{p:.2f}".removeprefix("0")


def percent(p: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> percent(0.0384), percent(0.62), percent(0.0004)
    ('3.8 %', '62 %', '0.04 %')
    """
    return f"{100 * p:.2g} %" if p < 0.995 else f"{100 * p:.0f} %"


def short(value: float) -> str:
    """A number in four digits."""
    return f"{value + 0.0:.4g}".replace("-", "−")  # no minus before zero
