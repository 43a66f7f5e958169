"""Random streams by name: every number that a seed leads to comes from here.

A stream is the seed's `SeedSequence` spawned by the name of the stream and by what distinguishes
its parts, such as the number of a chain. So streams are independent, nothing is drawn twice, and
one more stream leaves all others as they were.
"""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import jax


class Stream(enum.StrEnum):
    """What random numbers are for."""

    ALGORITHM_START = "first state of an algorithm"
    ALGORITHM_STEPS = "steps of an algorithm"
    CHAIN_STARTS = "first orders of chains"
    CHAIN_SEGMENTS = "segments of chains"
    EDGE_NETWORKS = "first weights of the guide over edges"
    EFFECT_NOISE = "noise of an intervention"
    ENVIRONMENTS = "environments that parameters are drawn for"
    EXPERIMENT_CHOICES = "graphs that experiments are simulated from"
    EXPERIMENT_NOISE = "noise of simulated experiments"
    EXPERIMENT_PARAMETERS = "parameters behind simulated experiments"
    GRAPH_DRAWS = "graphs drawn from a posterior"
    GUIDE_CHECKS = "estimates that check a guide when its fit is over"
    GUIDE_COVERING = "steps in which a guide learns parent sets that were found"
    GUIDE_DRAWS = "graphs drawn from a guide when its fit is over"
    GUIDE_ROUNDS = "estimated moves over orders"
    GUIDE_START = "first guides and orders"
    GUIDE_STEPS = "training of the guides"
    HELD_OUT_ROWS = "rows held out from training"
    LINEAR_EXTENSIONS = "linear extensions of a graph"
    FIT_SEEDS = "seeds of the fits of a mixture"
    MECHANISM_NETWORKS = "first weights of the mechanisms"
    MISSING_CELLS = "values of missing cells"
    MISSING_CELLS_BY_MECHANISM = "values of missing cells by fitted mechanisms"
    MIXTURE_DRAWS = "fits that graphs are drawn from"
    MIXTURE_PARAMETERS = "fits that parameters are drawn from"
    NEARBY_ORDERS = "orders near those that were visited"
    ORDER_DRAWS = "orders drawn from a posterior"
    PARAMETERS = "parameters of the mechanisms"
    PARENT_SET_DRAWS = "parent sets drawn given an order"
    PREDICTIONS = "candidate values of a prediction"
    PRIOR_EDGES = "edges drawn from the prior"
    PRIOR_POTENTIALS = "potentials drawn from the prior"
    PRIOR_PREDICTIVE_ROWS = "rows of a problem from the model itself"
    PROBE_SEEDS = "seeds of probes under other specifications"
    RADIUS_DRAWS = "draws that a radius is chosen by"
    REPORT_NOISE = "noise of the effects in a report"
    RESIDUALS = "residuals of discrete variables"
    RESAMPLES = "rows of a resampled table"
    SEARCHES = "searches over orders"
    SEARCHES_BY_MECHANISM = "searches over orders by the mechanism itself"
    SPARSITY_DRAWS = "draws that a sparsity is chosen by"


def generator(seed: int, stream: Stream, *parts: int) -> np.random.Generator:
    """NumPy's generator of a stream, or of a part of it.

    Examples
    --------
    >>> one, two = (generator(0, Stream.CHAIN_SEGMENTS, chain, 0) for chain in (0, 1))
    >>> bool(one.random() == two.random())
    False
    """
    return np.random.default_rng(_sequence(seed, stream, parts))


def child_seed(seed: int, stream: Stream, *parts: int) -> int:
    """A seed of its own for a part of a stream that itself takes a seed, such as a whole fit.

    Examples
    --------
    >>> child_seed(0, Stream.FIT_SEEDS, 1) == child_seed(0, Stream.FIT_SEEDS, 2)
    False
    """
    return int(_sequence(seed, stream, parts).generate_state(1)[0])


def key(seed: int, stream: Stream, *parts: int) -> jax.Array:
    """JAX's typed key of a stream, or of a part of it; NumPy mixes it, so that nothing compiles.

    Examples
    --------
    >>> bool(key(1, Stream.ALGORITHM_STEPS) == key(1, Stream.ALGORITHM_STEPS))
    True
    """
    import jax

    words = _sequence(seed, stream, parts).generate_state(2)
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")


def host_generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator that a JAX key determines, for work on the host.

    Examples
    --------
    >>> import jax
    >>> one, two = (host_generator(jax.random.key(0)).random() for _ in range(2))
    >>> one == two
    True
    """
    import jax

    return np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint64))


def _sequence(seed: int, stream: Stream, parts: tuple[int, ...]) -> np.random.SeedSequence:
    digest = hashlib.sha256(stream.encode()).digest()
    named = (int.from_bytes(digest[:4], "little"), *(int(part) for part in parts))
    return np.random.SeedSequence(int(seed), spawn_key=named)
