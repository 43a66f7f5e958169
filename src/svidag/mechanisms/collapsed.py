"""Mechanisms whose parameters are integrated out of the fit can be drawn again afterwards."""

from __future__ import annotations

import numpy as np

from svidag.data import Scaling
from svidag.mechanisms.environment_parameters import EnvironmentParameters
from svidag.mechanisms.environments import EnvironmentScores
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_parameters import FlexibleParameters
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.mechanisms.wide import WideNetwork
from svidag.mechanisms.wide_parameters import WideParameters


def parameter_distribution(
    model: LinearGaussian | WideNetwork | FlexibleMechanism | ScreenedFlexible | EnvironmentScores,
    scaling: Scaling | None,
) -> LinearParameters | WideParameters | FlexibleParameters | EnvironmentParameters:
    """p(θ | A, D) of the model that gave the evidence.

    Examples
    --------
    >>> import numpy as np
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((20, 3)))
    >>> type(parameter_distribution(model, scaling=None)).__name__
    'LinearParameters'
    """
    if isinstance(model, EnvironmentScores):
        d = model.contrasts.shape[1]
        beside = None
        if scaling is not None:
            centre, scale = (
                np.append(scaling.centre, np.zeros(d)),
                np.append(scaling.scale, np.ones(d)),
            )
            beside = Scaling(centre, scale)
        inner = parameter_distribution(model.base, beside)
        return EnvironmentParameters(model, inner, scaling)
    if isinstance(model, LinearGaussian):
        return LinearParameters(model, scaling)
    if isinstance(model, ScreenedFlexible):
        model = model.mechanism
    if isinstance(model, FlexibleMechanism):
        return FlexibleParameters(model, scaling)
    return WideParameters(model, scaling)
