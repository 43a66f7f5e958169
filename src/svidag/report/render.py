"""One self-contained page: nothing in it loads anything, and nothing in the data becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from svidag.posterior.text import probability
from svidag.report.content import Content, drawing
from svidag.report.effects import LEVEL
from svidag.report.number_format import HEAT_STEPS, compact, heat, percent, short

SCRIPTS = ("graph.js", "focus.js", "tables.js", "effects.js", "main.js")
STYLES = ("style.css",)


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
        "compact": compact,
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
