"""Draws of an effect: in closed form for linear equations, by simulation for others."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from scipy.stats import qmc

from svidag.effects.query import EffectQuery, RelevantNodes, structures
from svidag.mechanisms.equations import Equations, ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.posterior import Posterior
from svidag.run.streams import Stream, generator

PER_GRAPH = 2
"""Draws of the parameters for each graph: the fewest from which both spreads can be estimated."""

UNITS = 32
"""Simulated units per round, graph and draw of the parameters; a power of 2."""

ROUNDS = 16
"""Rounds of simulation at most."""

BEFORE = 200
"""Graphs behind the probability of a level before the cause is moved, at most."""

PRECISION = 0.2
"""Rounds end once simulation contributes less than this share of the standard deviation."""


def draw_effects(
    posterior: Posterior, distribution: ParameterDistribution, query: EffectQuery, n: Any, seed: int
) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, " n"], float]:
    """τ of every graph and draw of its parameters, the structures, and the simulation's error."""
    graphs = posterior.sample(n, seed)
    draws, structure = np.zeros((len(graphs), PER_GRAPH)), np.zeros(len(graphs), dtype=np.int64)
    everything = query.relevant_nodes(graphs)
    reached = everything.reached
    if not reached.any():
        return draws, structure, 0.0
    nodes = RelevantNodes(*(np.repeat(part[reached], PER_GRAPH, axis=0) for part in everything))
    twice = np.repeat(graphs[reached], PER_GRAPH, axis=0)
    share, variance = float(reached.mean()), 0.0
    if isinstance(distribution, LinearParameters):
        deciding = everything.moved
        equations = distribution.draw(twice, seed, nodes.moved)
        slopes = equations.responses(query.cause, nodes.moved)
        found = query.change * slopes[:, query.effect]
    else:
        deciding = everything.relevant
        equations = distribution.draw(twice, seed, nodes.relevant)
        found, variance = simulate(equations, query, nodes, seed, share)
    draws[reached] = found.reshape(-1, PER_GRAPH)
    structure[reached] = 1 + structures(graphs[reached], deciding[reached])
    return draws, structure, float(np.sqrt(variance * share))


def simulate(
    equations: Equations, query: EffectQuery, nodes: RelevantNodes, seed: int, share: float
) -> tuple[Float[np.ndarray, " S"], float]:
    """τ of each draw, and the mean variance that simulation gives it.

    Rounds of units are independent, so their scatter says how precise their average is. `share` is
    that of the draws with a path: the others are 0 and belong to the spread as well.
    """
    rounds = [_round(equations, query, nodes, seed, k) for k in range(2)]
    while True:
        found = np.mean(rounds, axis=0)
        variance = float((np.var(rounds, axis=0, ddof=1) / len(rounds)).mean())
        spread = share * (found**2).mean() - (share * found.mean()) ** 2
        if variance <= PRECISION**2 * spread or len(rounds) == ROUNDS:
            return found, variance
        rounds.append(_round(equations, query, nodes, seed, len(rounds)))


def _round(
    equations: Equations, query: EffectQuery, nodes: RelevantNodes, seed: int, number: int
) -> Float[np.ndarray, " S"]:
    """The mean difference between the same units under both interventions."""
    draws, m = nodes.relevant.shape
    used = np.flatnonzero(nodes.relevant.any(axis=0))
    noise = np.zeros((draws, UNITS, m))
    noise[:, :, used] = even_noise((draws, len(used)), generator(seed, Stream.EFFECT_NOISE, number))
    before = np.broadcast_to(query.fixed, noise.shape)
    before = equations.propagate(before, noise, nodes.relevant)
    after = before.copy()
    after[..., query.cause] += query.change
    after = equations.propagate(after, noise, nodes.moved)
    return (query.measured(after) - query.measured(before)).mean(axis=1)


def share_before(
    posterior: Posterior, distribution: ParameterDistribution, query: EffectQuery, n: int, seed: int
) -> float:
    """The probability of the level that is meant, before the cause is moved."""
    graphs = posterior.sample(n, seed)
    relevant = query.relevant_nodes(graphs).relevant
    shape = len(graphs), len(posterior.names)
    noise = even_noise(shape, generator(seed, Stream.EFFECT_NOISE, ROUNDS))
    equations = distribution.draw(graphs, seed, relevant)
    rows = equations.propagate(np.broadcast_to(query.fixed, noise.shape), noise, relevant)
    return float(query.measured(rows).mean())


def even_noise(shape: tuple[int, int], rng: np.random.Generator) -> Float[np.ndarray, "S R m"]:
    """Standard normals that fill space evenly over units, shifted at random for every draw.

    Examples
    --------
    >>> even_noise((3, 2), np.random.default_rng(0)).shape
    (3, 32, 2)
    """
    points = qmc.Sobol(shape[1], scramble=False).random(UNITS)
    shift = rng.random((shape[0], 1, shape[1]))
    tiny = np.finfo(float).eps
    return ndtri(np.clip((points + shift) % 1.0, tiny, 1 - tiny))
