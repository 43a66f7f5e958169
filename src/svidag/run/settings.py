"""Settings as frozen dataclasses: each declared, typed, checked and documented in one place.

A field made by `setting` carries one line of help and its limits. The class checks every value when
an object is made, so that a wrong one is an error before any computation; the command line, study
files and the documentation read the same fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

Same = TypeVar("Same", bound="Settings")

NO_LIMITS: Mapping[str, Any] = types.MappingProxyType({})


def setting(
    default: Any,
    help: str,  # noqa: A002
    *,
    least: int | float | None = None,
    above: int | float | None = None,
    most: int | float | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """A field of a settings class.

    Parameters
    ----------
    default
        The value unless another one is given.
    help
        What it does, in one line.
    least, above, most
        The smallest value, a value that all must exceed, and the largest value.
    choices
        The values that a text may have.
    """
    limits = {"least": least, "above": above, "most": most, "choices": choices}
    return dataclasses.field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Field:
    """One setting: its name, its type in words, its default and what it does."""

    name: str
    type: str
    default: Any
    help: str


@dataclass(frozen=True)
class Settings:
    """Values that were checked when they were given.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Walk(Settings):
    ...     steps: int = setting(10, "Steps to take.", least=1)
    >>> Walk(steps=0)
    Traceback (most recent call last):
        ...
    ValueError: steps must be at least 1; got 0
    >>> Walk().with_values({"stepz": 3})
    Traceback (most recent call last):
        ...
    ValueError: unknown setting 'stepz'; did you mean 'steps'?
    >>> [field.help for field in Walk.describe()]
    ['Steps to take.']
    """

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            _check_type(field.name, value, hints[field.name])
            _check_limits(field.name, value, field.metadata)

    def with_values(self: Same, values: Mapping[str, Any]) -> Same:
        """The settings with other values, by name; lists count as tuples, 1 as 1.0 if need be."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in values:
            if name not in known:
                raise ValueError(f"unknown setting {name!r}{suggest(name, known)}")
        hints = typing.get_type_hints(type(self))
        return dataclasses.replace(self, **{k: _converted(v, hints[k]) for k, v in values.items()})

    def completed(self: Same, usual: Mapping[str, Any]) -> Same:
        """The settings with usual values in place of those that are None.

        Examples
        --------
        >>> @dataclass(frozen=True)
        ... class Walk(Settings):
        ...     steps: int | None = setting(None, "Steps to take.")
        >>> Walk().completed({"steps": 3}).steps, Walk(steps=5).completed({"steps": 3}).steps
        (3, 5)
        """
        missing = {k: v for k, v in usual.items() if getattr(self, k) is None}
        return dataclasses.replace(self, **missing)

    def values(self) -> dict[str, Any]:
        """Every setting, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def describe(cls) -> list[Field]:
        """Every setting with its type, default and help."""
        hints = typing.get_type_hints(cls)
        return [
            Field(f.name, type_in_words(hints[f.name], f.metadata), f.default, f.metadata["help"])
            for f in dataclasses.fields(cls)
        ]


def suggest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one as a question, or a list of them all.

    Examples
    --------
    >>> suggest("replicate", ["replicates", "draws"])
    "; did you mean 'replicates'?"
    """
    names = sorted(known)
    match = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {match[0]!r}?" if match else f"; known are {', '.join(names)}"


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _check_type(name: str, value: Any, hint: Any) -> None:
    if not fits(value, hint):
        raise ValueError(f"{name} must be {type_in_words(hint)}; got {value!r}")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation of plain types says.

    Examples
    --------
    >>> fits(3, float | None), fits(True, int), fits((1, 2), tuple[int, ...])
    (True, False, True)
    """
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if _is_union(hint):
        return any(fits(value, option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple) and _tuple_fits(value, typing.get_args(hint))
    if typing.get_origin(hint) is not None or hint not in _WORDS:
        return True  # a function or an object of a library: its own code says what is wrong with it
    if isinstance(value, bool):
        return hint is bool
    kinds = {int: Integral, float: Real, str: str, bool: bool}
    return isinstance(value, kinds[hint])


def _tuple_fits(value: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(fits(entry, inner[0]) for entry in value)
    return len(value) == len(inner) and all(map(fits, value, inner))


def _check_limits(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    choices = limits.get("choices")
    if choices is not None and isinstance(value, str) and value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}; got {value!r}")
    entries = value if isinstance(value, tuple) else (value,)
    for entry in entries:
        if isinstance(entry, Real) and not isinstance(entry, bool):
            _check_range(name, entry, limits)


def _check_range(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    least, above, most = (limits.get(limit) for limit in ("least", "above", "most"))
    if least is not None and not value >= least:
        raise ValueError(f"{name} must be at least {least}; got {value!r}")
    if above is not None and not value > above:
        raise ValueError(f"{name} must be above {above}; got {value!r}")
    if most is not None and not value <= most:
        raise ValueError(f"{name} must be at most {most}; got {value!r}")


def type_in_words(hint: Any, limits: Mapping[str, Any] = NO_LIMITS) -> str:
    """An annotation as users read it.

    Examples
    --------
    >>> type_in_words(int | None)
    'a whole number or None'
    """
    if limits.get("choices"):
        return " or ".join(map(repr, limits["choices"]))
    if hint is type(None):
        return "None"
    if _is_union(hint):
        return " or ".join(type_in_words(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        inner = {option for option in typing.get_args(hint) if option is not Ellipsis}
        whole = inner == {int}
        return "a list of whole numbers" if whole else "a list of numbers"
    return _WORDS.get(hint, "an object")


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _converted(value: Any, hint: Any) -> Any:
    """The value as its annotation has it: a tuple for a list, a float for a whole number."""
    if type(value) in (list, tuple):  # not a named tuple, such as an optimiser of optax
        return tuple(_converted(entry, hint) for entry in value)
    options = typing.get_args(hint) if _is_union(hint) else (hint,)
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return float(value) if whole and float in options and int not in options else value
