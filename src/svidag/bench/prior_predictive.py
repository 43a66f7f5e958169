"""Problems drawn from the model itself: graph from the prior, mechanisms from theirs, then rows.

A method that inverts the model it states is calibrated on these: of the arrows it gives 30 %, 30 %
are there. The priors are restated here from their definitions and share no code with the evidence.

``linear`` (BGe with α_μ = 1, α_w = m + 2, T = t I, t = ½). The precision of all variables is
Wishart; for a DAG, with independent parameters for each node, this means for node j with l parents

    v_j ~ InvGamma(½(α_w − m + l + 1), ½t),
    b_j | v_j ~ N(0, v_j/t I),   c_j | v_j ~ N(0, v_j/α_μ),
    x_j = c_j + b_jᵀ x_P + N(0, v_j).

``nonlinear``: σ_j² ~ InvGamma(1, 1), λ_j uniform on {¼, 1, 4}, weights N(0, σ_j²/λ_j I) on the
features (½ x_P, ½, √(2/F) max(0, dᵀ x_P − t) of F random units), and noise N(0, σ_j²).

``mlp``: a tanh network with two hidden layers of 32, every weight and bias N(0, 1), and noise of
scale σ_j with log σ_j ~ N(log 0.1, 2²).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from svidag.datasets import Example
from svidag.datasets.example import labelled
from svidag.graph import topological_order
from svidag.prior import Prior
from svidag.run.streams import Stream, generator

UNITS = 400
"""Hidden units of a nonlinear mechanism: more than the fit's, near the limit of many."""

Values = Float[np.ndarray, "N l"]
Column = Float[np.ndarray, " N"]


def prior_predictive(
    *,
    m: int,
    n: int,
    mechanism: str = "linear",
    prior: dict[str, Any] | None = None,
    seed: int,
    replicate: int,
) -> Example:
    """Draw a graph, mechanisms and n rows from the model with this prior.

    Examples
    --------
    >>> example = prior_predictive(m=4, n=20, seed=1, replicate=0)
    >>> example.data.shape, example.cyclic
    ((20, 4), False)
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {sorted(MECHANISMS)}, got {mechanism!r}")
    names = [f"x{i + 1}" for i in range(m)]
    A = Prior.from_dict(prior or {}).bind(names).sample(1, seed)[0]
    rng = generator(seed, Stream.PRIOR_PREDICTIVE_ROWS)
    x = np.empty((n, m))
    for j in topological_order(A):
        x[:, j] = MECHANISMS[mechanism](rng, x[:, A[:, j] != 0])
    return Example(
        data=pd.DataFrame(x, columns=names),
        truth=labelled(A, names),
        interventions=None,
        description=f"{n} rows of {m} variables from the {mechanism} model itself, seed {seed}",
    )


def linear(rng: np.random.Generator, parents: Values) -> Column:
    """A column given its parents', with parameters from the prior of BGe."""
    n, count = parents.shape
    t, mean_weight, freedom = 0.5, 1.0, 2  # α_w − m = 2
    v = 1 / rng.gamma(0.5 * (freedom + count + 1), 2 / t)
    slope = rng.normal(0.0, np.sqrt(v / t), size=count)
    intercept = rng.normal(0.0, np.sqrt(v / mean_weight))
    return intercept + parents @ slope + rng.normal(0.0, np.sqrt(v), size=n)


def nonlinear(rng: np.random.Generator, parents: Values) -> Column:
    """A column given its parents', with parameters from the prior of the wide network."""
    n, count = parents.shape
    variance, precision = 1 / rng.gamma(1.0), rng.choice([0.25, 1.0, 4.0])
    features = np.column_stack([0.5 * parents, np.full(n, 0.5)])
    if count:
        directions = rng.standard_normal((count, UNITS))
        directions /= np.linalg.norm(directions, axis=0)
        units = np.maximum(parents @ directions - rng.uniform(-2, 2, UNITS), 0.0)
        features = np.column_stack([features, np.sqrt(2 / UNITS) * units])
    weights = rng.normal(0.0, np.sqrt(variance / precision), size=features.shape[1])
    return features @ weights + rng.normal(0.0, np.sqrt(variance), size=n)


def mlp(rng: np.random.Generator, parents: Values) -> Column:
    """A column given its parents', with parameters from the prior of the published mechanism."""
    n = len(parents)
    hidden, widths = parents, (parents.shape[1], 32, 32, 1)
    for depth in range(3):
        weights = rng.standard_normal((widths[depth], widths[depth + 1]))
        hidden = hidden @ weights + rng.standard_normal(widths[depth + 1])
        hidden = np.tanh(hidden) if depth < 2 else hidden
    return hidden[:, 0] + np.exp(rng.normal(np.log(0.1), 2.0)) * rng.standard_normal(n)


MECHANISMS: Mapping[str, Callable[[np.random.Generator, Values], Column]] = MappingProxyType(
    {"linear": linear, "nonlinear": nonlinear, "mlp": mlp}
)
