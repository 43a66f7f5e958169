"""Mechanisms whose parameters are integrated out of the fit can be drawn again afterwards."""

from __future__ import annotations

from svidag.data import Scaling
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_law import LinearLaw
from svidag.mechanisms.wide import WideNetwork
from svidag.mechanisms.wide_law import WideLaw


def parameter_law(
    model: LinearGaussian | WideNetwork, scaling: Scaling | None
) -> LinearLaw | WideLaw:
    """p(θ | A, D) of the model that gave the evidence.

    Examples
    --------
    >>> import numpy as np
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((20, 3)))
    >>> type(parameter_law(model, scaling=None)).__name__
    'LinearLaw'
    """
    if isinstance(model, LinearGaussian):
        return LinearLaw(model, scaling)
    return WideLaw(model, scaling)
