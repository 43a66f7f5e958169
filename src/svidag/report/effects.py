"""The total effect of every variable on every other, from one set of draws.

    τ = E[y | do(x = x₀ + δ)] − E[y | do(x = x₀)],

with x₀ the mean of the cause and δ its standard deviation, as `Posterior.effect` would give for
each pair alone. An intervention moves only the descendants of its cause, so all causes share the
units that were simulated without any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from svidag.effects import even_noise, observed_range
from svidag.graph import ancestors
from svidag.mechanisms.equations import Equations
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.posterior import Posterior
from svidag.run.streams import Stream, generator

MOST_VARIABLES = 200
"""With more variables the report has no table of all effects and none of all arrows: both have a
cell for every pair."""
GRAPHS = 1000
"""Draws behind linear effects."""
SIMULATED = 100
"""Draws behind effects that are simulated."""
SENTENCES, SENTENCE_DRAWS = 8, 100
"""Effects that are put into sentences, and the draws behind each."""
LEVEL = 0.95
"""Probability of the intervals, as in `Posterior.effect`."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Cause by effect, for one standard deviation of the cause.

    Attributes
    ----------
    change
        That standard deviation.
    mean, low, high
        The posterior mean of the effect and the ends of its central interval.
    zero
        P(no directed path leads from cause to effect).
    draws
        The number of graphs, each with parameters of its own.
    beyond
        Whether the cause's new value is larger than any that was observed.
    """

    change: Float[np.ndarray, " m"]
    mean: Float[np.ndarray, "m m"]
    low: Float[np.ndarray, "m m"]
    high: Float[np.ndarray, "m m"]
    zero: Float[np.ndarray, "m m"]
    draws: int
    beyond: Bool[np.ndarray, " m"]


def effects(posterior: Posterior, seed: int = 0) -> Effects | None:
    """All total effects; None for a posterior without mechanisms or data, or of other columns.

    None too with more than `MOST_VARIABLES`: `Posterior.effect` answers for one pair.

    Discrete variables have no means and standard deviations: `effect_sentences` is for them.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
    >>> found = effects(svidag.exact.posterior(example.data))
    >>> found.mean.shape
    (4, 4)
    """
    distribution, problem = posterior.mechanisms, posterior.problem
    if distribution is None or problem is None or not problem.data.continuous.all():
        return None
    if len(posterior.names) > MOST_VARIABLES:
        return None
    at, change = _usual(posterior)
    n = GRAPHS if posterior.mechanism == "linear" else SIMULATED
    graphs = posterior.sample(posterior.draws(), seed)[:n]
    equations, reached = distribution.draw(graphs, seed), ancestors(graphs)
    if isinstance(equations, LinearEquations):
        draws = equations.total_effects() * change[:, None]
    else:
        draws = _simulated(equations, reached, at, change, seed)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    beyond = at + change > observed_range(problem)[1]
    return Effects(change, draws.mean(axis=0), low, high, 1 - reached.mean(axis=0), n, beyond)


def effect_sentences(posterior: Posterior) -> tuple[str, ...]:
    """What the most probable arrows do, in the words of the table, where columns are discrete.

    Examples
    --------
    >>> import pandas as pd, svidag
    >>> table = pd.DataFrame({"rain": ["no", "no", "yes"] * 40, "wet": [0, 0, 1] * 39 + [1, 1, 1]})
    >>> prior = svidag.Prior(required=[("rain", "wet")])
    >>> effect_sentences(svidag.fit(table, prior=prior, method="exact", progress=False))[0][:17]
    'P(wet = 1) rises '
    """
    problem = posterior.problem
    if posterior.mechanisms is None or problem is None or problem.data.continuous.all():
        return ()
    edges = posterior.edge_probabilities().to_numpy()
    best = np.argsort(-edges, axis=None, kind="stable")[:SENTENCES]
    pairs = [np.unravel_index(k, edges.shape) for k in best]
    found = []
    for i, j in pairs:
        if edges[i, j] > 0.5 and not problem.data.intervened[:, j].all():
            one = posterior.effect(posterior.names[i], posterior.names[j], n=SENTENCE_DRAWS)
            low, high = one.interval
            found.append(
                f"{one.sentence[:1].upper()}{one.sentence[1:]} (change {one.mean:.3g}, "
                f"{100 * one.level:g} % between {low:.3g} and {high:.3g}; no path with probability "
                f"{one.probability_zero:.2f})."
            )
    return tuple(found)


def _usual(posterior: Posterior) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Mean and standard deviation of each variable over rows in which nothing set it."""
    problem = posterior.problem
    assert problem is not None
    if problem.scaling is not None:
        return problem.scaling.centre, problem.scaling.scale
    free = np.where(problem.data.intervened, np.nan, problem.data.values)
    free = np.where(problem.data.intervened.all(axis=0), problem.data.values, free)
    return np.nanmean(free, axis=0), np.nanstd(free, axis=0)


def _simulated(
    equations: Equations,
    reached: Bool[np.ndarray, "S m m"],
    at: Float[np.ndarray, " m"],
    change: Float[np.ndarray, " m"],
    seed: int,
) -> Float[np.ndarray, "S m m"]:
    """τ of each draw: the same units under both interventions, and only what the cause moves."""
    size, m = reached.shape[:2]
    noise = even_noise((size, m), generator(seed, Stream.REPORT_NOISE))
    usual = equations.propagate(np.full_like(noise, np.nan), noise, np.ones((size, m), dtype=bool))
    draws = np.zeros((size, m, m))
    for cause in range(m):
        moved = reached[:, cause]
        if not moved.any():
            continue
        outcomes = []
        for value in (at[cause], at[cause] + change[cause]):
            fixed = usual.copy()
            fixed[..., cause] = value
            outcomes.append(equations.propagate(fixed, noise, moved))
        draws[:, cause] = np.where(moved, (outcomes[1] - outcomes[0]).mean(axis=1), 0.0)
    return draws
