"""The page of licences lists every package that an installation brings, as its metadata say.

`python tests/docs/test_licences.py` writes it.
"""

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "licences.md"
HEAD = """\
# Licences of what svidag needs

svidag itself is under the MIT licence. `pip install svidag` brings the packages below; extras,
tools for development and what they bring are not listed. Written from the metadata of installed
packages by `python tests/docs/test_licences.py`.

| package | licence |
|---|---|
"""
OPEN = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python|ISC|MPL|Mozilla|HPND|Unlicense|0BSD|CNRI|CC0|Zlib|LGPL)", re.I
)


def needed(name, extras=()):
    """A package's names of all that it needs in this environment."""
    for text in metadata.requires(name) or ():
        one = Requirement(text)
        wanted = [{"extra": extra} for extra in ("", *extras)]
        if one.marker is None or any(one.marker.evaluate(each) for each in wanted):
            yield canonicalize_name(one.name), tuple(sorted(one.extras))


def closure():
    """Everything that svidag needs, and what that needs."""
    found, waiting = set(), list(needed("svidag"))
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) not in found:
            found.add((name, extras))
            waiting += needed(name, extras)
    return sorted({name for name, _ in found})


def licence(name):
    """The licence of an installed package in a few words."""
    about = metadata.metadata(name)
    stated = about.get("License-Expression")
    if not stated:
        listed = [text.split(" :: ") for text in about.get_all("Classifier") or ()]
        stated = "; ".join(text[-1] for text in listed if text[0] == "License" and len(text) > 2)
    if not stated:
        stated = (about.get("License") or "").strip().partition("\n")[0]
    return stated[:80] or "not stated"


def page():
    rows = [f"| {name} | {licence(name)} |\n" for name in closure()]
    return HEAD + "".join(rows)


def test_the_page_lists_what_is_installed():
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", closure())
def test_every_licence_is_stated_and_open(name):
    assert OPEN.search(licence(name)), f"{name}: {licence(name)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
