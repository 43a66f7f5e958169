"""What an intervention would do, averaged over graphs and over parameters.

The total effect on y of moving x from x₀ to x₀ + δ, given a graph A and parameters θ, is

    τ(A, θ) = E[y | do(x = x₀ + δ), A, θ] − E[y | do(x = x₀), A, θ].

Linear equations give it in closed form, δ [(I − W)⁻¹]_xy; others by following the same simulated
units through both interventions. It is exactly 0 where no directed path leads from x to y. With
several draws of θ for every graph, its variance splits into

    Var τ = Var_A E[τ | A] + E_A Var[τ | A],

what the graph leaves open and what the parameters leave open. All values are in the units of the
`Dataset`: those of the table, or of the transformed columns where it transforms them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from svidag.data.columns import show
from svidag.effects.arguments import (
    fixed_values,
    held_values,
    index,
    mechanisms,
    number,
    require_evidence,
)
from svidag.effects.effect import Effect
from svidag.effects.estimation import BEFORE, draw_effects, even_noise
from svidag.effects.experiments import Experiments, next_experiments, usual_change
from svidag.effects.levels import level_words, moves, outcome_of
from svidag.effects.prediction import predict
from svidag.effects.query import EffectQuery
from svidag.effects.support import ExtrapolationWarning, cautions, observed_range, warn
from svidag.posterior import Posterior
from svidag.run.streams import Stream, generator

__all__ = [
    "Effect",
    "Experiments",
    "ExtrapolationWarning",
    "even_noise",
    "interventional",
    "next_experiments",
    "observed_range",
    "predict",
    "total_effect",
    "usual_change",
]


def total_effect(
    posterior: Posterior,
    cause: Any,
    effect: Any,
    *,
    change: Any = 1.0,
    at: Any = None,
    to: Any = None,
    value: Any = None,
    holding: Any = None,
    n: Any = 1000,
    seed: int = 0,
    level: Any = 0.95,
) -> Effect:
    """The posterior of a total effect; users call `Posterior.effect`, which documents it.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.two_node("linear", n=500)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> effect = total_effect(posterior, "x1", "x2", n=100)
    >>> effect.draws.shape
    (100, 2)
    """
    distribution = mechanisms(posterior)
    if n == 1:
        raise ValueError("n must be at least 2: one graph says nothing about the spread")
    names = posterior.names
    x, y = index(names, cause, "cause"), index(names, effect, "effect")
    if x == y:
        raise ValueError(f"cause and effect are the same variable, {show(cause)}")
    require_evidence(posterior, y)
    level = number(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level:g}")
    start, change = moves(posterior, x, change, at, to)
    held = held_values(posterior, {} if holding is None else holding, cause, effect)
    fixed = fixed_values(posterior, held)
    fixed[x] = start
    asked = [(x, start), (x, start + change)]
    asked += [(j, float(fixed[j])) for j in map(names.index, held)]
    doubts = cautions(posterior.problem, asked)
    warn(doubts)
    query = EffectQuery(x, y, change, fixed, outcome_of(posterior, y, value))
    draws, structure, error = draw_effects(posterior, distribution, query, n, seed)
    transforms, words = (None, None), None
    if posterior.problem is not None:
        applied = posterior.problem.data.transforms
        transforms = applied[x], applied[y]
        words = level_words(posterior, distribution, query, min(n, BEFORE), seed)
    return Effect(
        cause,
        effect,
        change,
        start,
        held,
        level,
        draws,
        structure,
        error,
        transforms,
        doubts,
        words,
    )


def interventional(posterior: Posterior, do: Any, n: Any = 1000, seed: int = 0) -> pd.DataFrame:
    """Rows from the interventional distribution; users call `Posterior.do`.

    Examples
    --------
    >>> import svidag
    >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
    >>> rows = interventional(posterior, {"x1": 2.0}, n=3)
    >>> rows["x1"].tolist()
    [2.0, 2.0, 2.0]
    """
    distribution = mechanisms(posterior)
    if not isinstance(do, Mapping):
        raise ValueError(f"do must map variables to values; got {show(do)}")
    if not do:
        raise ValueError("do is empty; name at least one variable and its value")
    fixed = fixed_values(posterior, do)
    graphs = posterior.sample(n, seed)
    set_to = [(int(j), float(fixed[j])) for j in np.flatnonzero(~np.isnan(fixed))]
    warn(cautions(posterior.problem, set_to))
    rng = generator(seed, Stream.EFFECT_NOISE)
    noise = rng.standard_normal((len(graphs), 1, len(fixed)))
    free = np.repeat(np.isnan(fixed)[None], len(graphs), axis=0)
    rows = distribution.draw(graphs, seed).propagate(
        np.broadcast_to(fixed, noise.shape), noise, free
    )
    frame = pd.DataFrame(rows[:, 0], columns=pd.Index(posterior.names, dtype=object))
    if posterior.problem is not None:
        data = posterior.problem.data
        for j in np.flatnonzero(data.discrete):
            frame.isetitem(int(j), data.labelled(rows[:, 0, j], int(j)))
    return frame
