"""Checks of annotations that are made when a function is first called.

To make one takes a millisecond, svidag has thousands of functions, and each process of the tests
imports them all: made on import, they took half of the time until the first test.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from beartype import beartype


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Callable[..., Any]] = []

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(beartype(function))
        return made[0](*args, **kwargs)

    return checked
