"""Methods a study can name: every method of `svidag.fit`, and the exact posterior.

A method takes an `Example`, ``prior``, ``seed`` and its options, and returns a `Posterior`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from svidag.bench.registry import find
from svidag.datasets import Example
from svidag.posterior import Posterior
from svidag.prior import Prior

Method = Callable[..., Posterior]


def method(name: str) -> Method:
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
    from svidag import methods

    ours = {known: partial(by_fit, method=known) for known in methods.METHODS}
    return find(ours | {"exact": by_enumeration}, "method", name)


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raise what is wrong with options of a method, before there are data."""
    from svidag import exact, methods

    if name in methods.METHODS:
        methods.check(method=name, **{k: tuples(v) for k, v in options.items()})
    else:
        target = exact.posterior if name == "exact" else method(name)
        inspect.signature(target).bind(None, prior=None, seed=0, **options)


def tuples(value: Any) -> Any:
    """Lists of a study file as tuples, as settings have them."""
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


def by_fit(
    example: Example, *, prior: Prior, seed: int, method: str = "svi-dag", **options: Any
) -> Posterior:
    """`svidag.fit` with these options."""
    from svidag import methods

    return methods.fit(
        example.data,
        prior=prior,
        interventions=example.interventions,
        seed=seed,
        progress=False,
        method=method,
        **options,
    )


def by_enumeration(example: Example, *, prior: Prior, seed: int, **options: Any) -> Posterior:
    """`svidag.exact.posterior`."""
    from svidag import exact

    return exact.posterior(
        example.data, prior=prior, interventions=example.interventions, seed=seed, **options
    )
