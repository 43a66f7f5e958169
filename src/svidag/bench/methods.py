"""Methods a study can name: every method of `svidag.fit`, and the exact posterior.

A method takes an `Example`, ``prior``, ``seed`` and its options, and returns a `Posterior`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from svidag import exact, methods
from svidag.datasets import Example
from svidag.posterior import Posterior
from svidag.prior import Prior

Method = Callable[..., Posterior]


def by_fit(
    example: Example, *, prior: Prior, seed: int, method: str = "svi-dag", **options: Any
) -> Posterior:
    """`svidag.fit` with these options."""
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
    """`svidag.exact.posterior`; it needs no seed."""
    return exact.posterior(
        example.data, prior=prior, interventions=example.interventions, **options
    )


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "exact": by_enumeration,
        **{name: partial(by_fit, method=name) for name in methods.METHODS},
    }
)
