"""The random numbers of a training step: a count hashed under a key, word by word.

A step of Algorithm 1 draws a normal for every weight of every particle's networks, and threefry
takes as long for them as the networks do; it also takes some twenty kernels to compile wherever it
is called. A hash of the position takes neither. The key of a step still comes from threefry.

The hash is `lowbias32`, two rounds of xorshift and multiply with the constants of least avalanche
bias (Wellons, Prospecting for Hash Functions, 2018), once for each half of the key. It is a
bijection, so the words of one key never repeat within 2³² counts. With JAX's ``rbg`` generator a
step takes twice as long, with threefry 27 % longer at m = 11 and 15 % at m = 25
(`python benchmarks/kernels.py rbg threefry`).
"""

from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray, Shaped, UInt32

from svidag.kernels.elementary import log, normal_quantile

ROUNDS = ((16, 0x21F0AAAD), (15, 0x735A2D97))
"""Shift and multiplier of each round."""


def words(key: PRNGKeyArray, shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """32 random bits for each cell.

    Examples
    --------
    >>> import jax
    >>> words(jax.random.key(0), (2, 3)).dtype
    dtype('uint32')
    """
    mixed = jnp.arange(prod(shape), dtype=jnp.uint32).reshape(shape)
    for half in jax.random.key_data(key):
        mixed = mixed ^ half
        for shift, multiplier in ROUNDS:
            mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(multiplier)
        mixed = mixed ^ (mixed >> 15)
    return mixed


def split(key: PRNGKeyArray, count: int) -> Shaped[PRNGKeyArray, " count"]:
    """Keys for independent streams.

    Examples
    --------
    >>> import jax
    >>> split(jax.random.key(0), 3).shape
    (3,)
    """
    return jax.random.wrap_key_data(words(key, (count, 2)), impl="threefry2x32")


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent standard normals.

    Examples
    --------
    >>> import jax
    >>> normal(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return normal_quantile(_between(words(key, shape)))


def logistic(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent standard logistic numbers, log u − log(1 − u).

    Examples
    --------
    >>> import jax
    >>> logistic(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    x = _between(words(key, shape))
    return log(1 + x) - log(1 - x)


def gumbel(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent standard Gumbel numbers, −log(−log u).

    Examples
    --------
    >>> import jax
    >>> gumbel(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return -log(-log((1 + _between(words(key, shape))) / 2))


def integers(key: PRNGKeyArray, shape: tuple[int, ...], below: int) -> Int32[Array, "..."]:
    """Independent whole numbers from 0 to `below` − 1, uniform up to one part in 2³² / `below`.

    Examples
    --------
    >>> import jax
    >>> bool((integers(jax.random.key(0), (100,), 3) < 3).all())
    True
    """
    return (words(key, shape) % jnp.uint32(below)).astype(jnp.int32)


def _between(bits: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Uniform between −1 and 1, both excluded: 23 bits are what float32 holds there."""
    return ((bits >> 9).astype(jnp.int32).astype(jnp.float32) + 0.5) * 2**-22 - 1
