"""Beliefs for methods that have a usual edge probability of their own."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from svidag.prior import EdgePrior, Prior


def states_beliefs(prior: EdgePrior) -> bool:
    """Whether anything is believed about edges beyond what holds without a word.

    Examples
    --------
    >>> states_beliefs(Prior(forbidden=[("a", "b")]).bind(["a", "b"]))
    False
    >>> states_beliefs(Prior(p=0.2).bind(["a", "b"]))
    True
    """
    silent = Prior().bind(prior.names)
    return bool((prior.alpha != silent.alpha).any() or (prior.beta != silent.beta).any())


def edge_probability(prior: EdgePrior, usual: float) -> Float[np.ndarray, "m m"]:
    """The prior probability of every edge: as stated, or a method's usual one if nothing is.

    Examples
    --------
    >>> edge_probability(Prior().bind(["a", "b"]), 0.01).tolist()
    [[0.01, 0.01], [0.01, 0.01]]
    """
    if not states_beliefs(prior):
        return np.full(prior.alpha.shape, usual)
    return prior.alpha / (prior.alpha + prior.beta)
