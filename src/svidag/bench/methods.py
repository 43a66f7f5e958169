"""Methods a study can name: every method of `svidag.fit`, and functions of other modules.

A function takes an `Example`, ``prior``, ``seed`` and its options, and returns a `Posterior`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from svidag.bench.registry import find
from svidag.datasets import Example
from svidag.posterior import Posterior
from svidag.prior import Prior

if TYPE_CHECKING:
    from svidag.methods import Method

DEFAULT = "order-mcmc"
"""The method of a study's entry that names none."""

SUPPLIED = ("method", "seed", "workers")
"""Arguments of `svidag.fit` that are no options: the study or its runner gives them."""

BY_ROW = ("environments", "groups")
"""Arguments of `svidag.fit` that take a label for each row; a study names which of a data set's."""

LABELS = ("batches", "groups", "conditions")
"""Labels of rows that a data set may have."""


def method(name: str) -> Callable[..., Posterior]:
    """The method of this name.

    Examples
    --------
    >>> method("svi-dgg")
    Traceback (most recent call last):
        ...
    ValueError: unknown method 'svi-dgg'; did you mean 'svi-dag'?
    """
    if ":" in name:
        return find({}, "method", name)
    # Only now: a process that runs a method from elsewhere should not wait for ours.
    from svidag.methods.registry import find_method

    return partial(by_fit, method=find_method(name))


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise what is wrong with options of a method, before there are data."""
    from svidag.methods.fitting import check
    from svidag.methods.registry import find_method

    if ":" in name:
        inspect.signature(method(name)).bind(None, prior=None, seed=0, **options)
    else:
        arguments, settings = _split({k: v for k, v in options.items() if k not in BY_ROW})
        check(method=find_method(name).with_values(settings), **arguments)
        for argument in BY_ROW:
            _check_labels(argument, options.get(argument))


def by_fit(
    example: Example,
    *,
    method: Method,
    prior: Prior,
    seed: int,
    environments: str | None = None,
    groups: str | None = None,
    **options: Any,
) -> Posterior:
    """`svidag.fit` with these arguments and settings.

    `environments` and `groups` say what the labels of a data set are to the fit.
    """
    from svidag.methods import fit

    arguments, settings = _split(options)
    return fit(
        example.data,
        method=method.with_values(settings),
        prior=prior,
        interventions=example.interventions,
        environments=_labels(example, environments),
        groups=_labels(example, groups),
        seed=seed,
        progress=False,
        **arguments,
    )


def _labels(example: Example, name: str | None) -> Any:
    """The labels of this name, or nothing where none were asked for."""
    if name is None:
        return None
    found = getattr(example, name)
    if found is None:
        raise ValueError(f"the data set has no {name}: {example.description}")
    return found


def _check_labels(argument: str, name: Any) -> None:
    if name is not None and name not in LABELS:
        raise ValueError(f"{argument} must be one of {', '.join(LABELS)}; got {name!r}")


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `svidag.fit` that can be checked without data, and settings of the method."""
    from svidag.methods.fitting import check

    known = inspect.signature(check).parameters.keys() - set(SUPPLIED)
    arguments = {name: value for name, value in options.items() if name in known}
    return arguments, {name: value for name, value in options.items() if name not in known}
