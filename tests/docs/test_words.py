"""Messages to users are plain English, and every other word in them is in the glossary.

A word of a message is in docs/glossary.md, or in plain_words.txt: words that every reader of a
scientific text knows. A test that fails asks for a line in the glossary or a plainer word; the list
grows only by words that need no explanation.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "svidag"
SPEAKING = {
    *("Reason", "approximate", "diagnostic", "report", "setting", "warn", "write_line"),
    *("Argument", "Option", "Typer"),
}
"""Functions whose text users read."""
TEXTS = {"summary", "text", "words"}
"""Variables that hold such text."""
DRAWN = ("curves.py", "drawing.py", "layout.py", "raster.py", "render.py")
"""Modules of the report that draw: their strings are markup."""
AVOIDED = {"dear", "farewell", "figures", "law", "laws", "obituary", "press", "pressed", "presses"}
"""Words that need their author to be understood; plain ones exist."""

PLAIN = set((Path(__file__).parent / "plain_words.txt").read_text().split())
"""Words that need no explanation."""
FORMATS = set((Path(__file__).parent / "tool_names.txt").read_text().split())
"""Names of file formats, packages and tools."""


def texts(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def messages(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts(node.exc)
        elif isinstance(node, ast.Call) and called(node) in SPEAKING:
            yield from texts(node)
        elif isinstance(node, ast.Assign) and TEXTS & {getattr(n, "id", "") for n in node.targets}:
            yield from texts(node.value)


def sentences(tree: ast.AST) -> Iterator[str]:
    """Strings of several words, docstrings left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    alone = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in alone and " " in str(node.value):
            yield str(node.value)


def shown(page: str) -> str:
    """What a reader sees of a template."""
    for markup in (r"<style.*?</style>", r"<script.*?</script>", r"{[{%#].*?[%}#]}", r"<[^>]*>"):
        page = re.sub(markup, " ", page, flags=re.DOTALL)
    return page


def words(text: str) -> set[str]:
    """Words in lower case; what stands in quotes or as code is a name."""
    plain = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"|‘[^’]*’", " ", text)
    return {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z’]+", plain)}


@cache
def spoken() -> dict[str, str]:
    """Every word that users may read, with a file that says it."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = list(messages(tree))
        if path.parent.name == "report" and path.name not in DRAWN:
            said += sentences(tree)
        found |= {word: path.name for text in said for word in words(text)}
    for path in SOURCE.rglob("*.html"):
        found |= dict.fromkeys(words(shown(path.read_text(encoding="utf-8"))), path.name)
    return found


def explained() -> set[str]:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z’]+", glossary)}


def forms(word: str) -> set[str]:
    """A word, and its singular and plural."""
    return {word, f"{word}s", word.removesuffix("s"), word.removesuffix("’s")}


def test_every_word_of_a_message_is_plain_or_in_the_glossary():
    known = PLAIN | FORMATS | explained()
    unknown = {word: file for word, file in spoken().items() if not forms(word) & known}
    assert not unknown


def test_plain_words_are_used_and_not_in_the_glossary_as_well():
    """So that the list stays what it says."""
    said = set(spoken())
    spare = {word for word in PLAIN | FORMATS if not forms(word) & said}
    assert not spare | (PLAIN & explained())


def test_words_that_style_avoids_are_nowhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    said = {page.name: words(page.read_text(encoding="utf-8")) for page in pages}
    said["messages"] = set(spoken())
    assert not {name: found & AVOIDED for name, found in said.items() if found & AVOIDED}
