"""What all children share: modules, and functions that numba has loaded from its files."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import warnings

import numpy as np

import svidag
from soak.fits import draw_table

PACKAGES = ("methods", "variational", "search", "exact", "networks", "mechanisms", "report")


def warm(mechanisms: tuple[str, ...] | None = None) -> None:
    """Import the package, and make a fit with each mechanism that JAX has no part in.

    With some `mechanisms` only those, and no module beyond what they need. JAX itself starts
    threads when it first computes, which a fork would not survive; it is imported and not used.
    That no threads are left is checked.
    """
    for name in PACKAGES if mechanisms is None else ():
        package = importlib.import_module(f"svidag.{name}")
        for module in pkgutil.iter_modules(package.__path__, f"svidag.{name}."):
            importlib.import_module(module.name)
    rng = np.random.default_rng(0)
    smooth = draw_table(rng, 40, 3, continuous=True).set_axis(list("abc"), axis=1)
    codes = smooth.gt(smooth.mean()).astype(int)
    tables = {"linear": smooth, "nonlinear": smooth, "flexible": smooth, "discrete": codes}
    tables["mixed"] = smooth.assign(c=codes["c"])
    sampled = svidag.methods.METHODS["order-mcmc"].with_values({"exact": False, "orders": 50})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mechanism, table in tables.items():
            if mechanisms is not None and mechanism not in mechanisms:
                continue
            for method in ("exact", sampled):
                svidag.fit(
                    table,
                    method=method,
                    mechanism=mechanism,
                    bags=None,
                    workers=1,
                    progress=False,
                ).sample(5)
    if threading.active_count() > 1:
        raise RuntimeError(f"threads are left, which no fork has: {threading.enumerate()}")
