"""Mechanisms whose parameters are integrated out of the fit can be drawn again afterwards."""

from __future__ import annotations

import numpy as np

from svidag.data import Scaling
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.discrete_parameters import DiscreteParameters
from svidag.mechanisms.environment_parameters import EnvironmentParameters
from svidag.mechanisms.environments import Base, EnvironmentScores
from svidag.mechanisms.equations import ParameterDistribution
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_parameters import FlexibleParameters
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.mechanisms.mixed_parameters import MixedParameters
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.mechanisms.wide_parameters import WideParameters

IntegratedScores = Base | EnvironmentScores
"""Evidences of every node given any parents, with their parameters integrated out."""


def parameter_distribution(
    model: IntegratedScores, scaling: Scaling | None
) -> ParameterDistribution:
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
    if isinstance(model, DiscreteTables):
        return DiscreteParameters(model)
    if isinstance(model, OrderAveraged | ScreenedMixed):
        return MixedParameters(model.mechanism, scaling)
    if isinstance(model, ScreenedFlexible):
        model = model.mechanism
    if isinstance(model, FlexibleMechanism):
        return FlexibleParameters(model, scaling)
    return WideParameters(model, scaling)
