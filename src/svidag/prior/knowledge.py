"""Knowledge files: their format is recognised, they are read, and they are written as YAML."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from svidag.prior import edge_list, tetrad
from svidag.prior.statement import prefixed
from svidag.prior.words import from_words

LARGEST_FILE = 4_000_000
"""Bytes; a longer file is some other file given by mistake."""


def read(path: str | Path) -> dict[str, Any]:
    """Read a knowledge file of any known format into keyword arguments of `Prior`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "knowledge.json"
    >>> _ = path.write_text('{"temporal_order": [["age"], ["smoking", "diet"]]}')
    >>> read(path)
    {'tiers': (('age',), ('smoking', 'diet'))}
    """
    path = Path(path)
    with prefixed(path):
        text = _text(path)
        return from_words(_reader(path, text)(text))


def _text(path: Path) -> str:
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"a knowledge file has at most {LARGEST_FILE} bytes; this one has more")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _reader(path: Path, text: str) -> Callable[[str], Any]:
    """Choose by the first line for Tetrad, otherwise by the ending; YAML if nothing else."""
    if tetrad.recognises(text):
        return tetrad.read
    if path.suffix.lower() in (".csv", ".tsv"):
        return lambda text: edge_list.read(text, path.stem)
    return _read_json if path.suffix.lower() == ".json" else _read_yaml


class _Loader(yaml.SafeLoader):
    """Plain YAML: no aliases (they can blow up), no tags, no key twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(
                problem="aliases and tags are not used in knowledge files",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever the loader would not read as the same text."""

    def represent_str(self, data: str) -> Any:
        # In other styles PyYAML folds U+0085 into a space.
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)

# YAML 1.1 reads 1e-3 as text, which no user intends.
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
        list("-+.0123456789"),
    )


def _read_yaml(text: str) -> Any:
    try:
        words = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"is not valid YAML: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if words is None:
        raise ValueError("is empty; a knowledge file says something, or {} for nothing")
    return words


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in items:
        if key in found:
            raise ValueError(f"{key!r} is given twice")
        found[key] = value
    return found


def write(path: str | Path, words: Mapping[str, Any]) -> None:
    """Write words as YAML; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "knowledge.yaml"
    >>> write(path, {"required": [["a", "no"]]})
    >>> read(path)
    {'required': (('a', 'no'),)}
    """
    path = Path(path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"path must end in .yaml or .yml, got {str(path)!r}")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as stream:
            yaml.dump(dict(words), stream, _Dumper, sort_keys=False, allow_unicode=True)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
