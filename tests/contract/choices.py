"""Fits by keyword: what is a setting of the method goes to the method, the rest to `svidag.fit`."""

from typing import Any

import svidag
from svidag.methods.registry import find_method


def fit(data: Any, method: Any = "order-mcmc", **choices: Any) -> svidag.Posterior:
    known = find_method(method)
    settings = {name: choices.pop(name) for name in list(choices) if name in known.values()}
    return svidag.fit(data, method=known.with_values(settings), **{"progress": False, **choices})
