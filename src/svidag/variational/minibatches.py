"""Epochs of minibatches: every row once, in a random order, and what an epoch reports."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["EpochSummary", "epoch_batches", "summarise_epoch"]


def epoch_batches(
    key: PRNGKeyArray, n: int, size: int
) -> tuple[Int[Array, "batches size"], Float[Array, "batches size"]]:
    """All rows in a random order, divided into minibatches; weight 0 fills up the last one.

    Examples
    --------
    >>> import jax
    >>> rows, weights = epoch_batches(jax.random.key(0), 5, 2)
    >>> rows.shape, int(weights.sum())
    ((3, 2), 5)
    """
    size = min(size, n)
    batches = -(-n // size)
    order = jax.random.permutation(key, n)
    padded = jnp.concatenate([order, jnp.zeros(batches * size - n, order.dtype)])
    weights = (jnp.arange(batches * size) < n).astype(jnp.float32)
    return padded.reshape(batches, size), weights.reshape(batches, size)


class EpochSummary(NamedTuple):
    """Mean loss of the minibatches that were finite, how many were not, epochs without any."""

    loss: Float[Array, ""]
    left_out: Int[Array, ""]
    rejected: Int[Array, ""]


def summarise_epoch(
    losses: Float[Array, " batches"], finite: Bool[Array, " batches"], rejected: Int[Array, ""]
) -> EpochSummary:
    """Summarise an epoch; `rejected` epochs in a row before it had no finite minibatch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> losses, finite = jnp.array([1.0, jnp.nan]), jnp.array([True, False])
    >>> [float(x) for x in summarise_epoch(losses, finite, jnp.array(0))]
    [1.0, 1.0, 0.0]
    """
    count = jnp.maximum(finite.sum(), 1).astype(losses.dtype)
    mean = jnp.sum(jnp.where(finite, losses, 0.0)) / count
    return EpochSummary(mean, jnp.sum(~finite), jnp.where(finite.any(), 0, rejected + 1))
