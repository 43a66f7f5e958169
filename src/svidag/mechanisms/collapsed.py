"""Mechanisms whose parameters are integrated out of the fit can be drawn again afterwards."""

from __future__ import annotations

from svidag.data import Scaling
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.mechanisms.wide import WideNetwork
from svidag.mechanisms.wide_parameters import WideParameters


def parameter_distribution(
    model: LinearGaussian | WideNetwork, scaling: Scaling | None
) -> LinearParameters | WideParameters:
    """p(θ | A, D) of the model that gave the evidence.

    Examples
    --------
    >>> import numpy as np
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((20, 3)))
    >>> type(parameter_distribution(model, scaling=None)).__name__
    'LinearParameters'
    """
    if isinstance(model, LinearGaussian):
        return LinearParameters(model, scaling)
    return WideParameters(model, scaling)
