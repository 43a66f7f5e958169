"""Checks of annotations, for the first calls of each function in each test.

A check takes longer than most of the functions that are called many times, and finds in the
thousandth call of a loop what it found in the first: checks of all calls took half of the time of
the tests. To make one takes a millisecond, svidag has thousands of functions, and each process of
the tests imports them all: so they are made when a function is first called.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import jaxtyping
from beartype import beartype

FIRST, EVERY = 20, 100
"""How many calls of a function in a test are checked, and then one in how many."""

_jaxtyped = jaxtyping.jaxtyped
_tests = 0


def begin_test() -> None:
    """Checks begin anew."""
    global _tests
    _tests += 1


def jaxtyped(thing: Any = None, *, typechecker: Any = None) -> Any:
    """What the import hook of jaxtyping puts on each function and class, in place of its own."""
    if typechecker is None:
        return _jaxtyped(thing)
    if thing is None:
        return check
    return check(thing)


def check(thing: Any) -> Any:
    if not inspect.isclass(thing):
        return _check_function(thing)
    inherited = getattr(thing.__init__, "__globals__", {}).get("__name__") == __name__
    if dataclasses.is_dataclass(thing) and not inherited:
        thing.__init__ = _check_function(thing.__init__)
    return thing


def _check_function(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Any = None
    test = calls = 0

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        nonlocal made, test, calls
        if test != _tests:
            test, calls = _tests, 0
        calls += 1
        if calls > FIRST and calls % EVERY:
            return function(*args, **kwargs)
        if made is None:
            made = _jaxtyped(function, typechecker=beartype)
        return made(*args, **kwargs)

    return checked
