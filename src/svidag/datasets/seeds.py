"""Seeds from texts, and independent streams of random numbers by name."""

import hashlib

import numpy as np


def content_seed(text: str) -> int:
    """First four bytes of the text's SHA-256, read as a little-endian integer.

    A seed that says what it is for: adding or reordering cells of a study changes no other cell.

    Examples
    --------
    >>> content_seed("ER_p25_s40|n=1000|rep=0")
    1714777247
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def stream(seed: int, name: str) -> np.random.Generator:
    """The random numbers of this name; those of another name are independent of them.

    Examples
    --------
    >>> one, same, other = (stream(1, name).random() for name in ("hidden", "hidden", "pilot"))
    >>> one == same, one == other
    (True, False)
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(content_seed(name),)))
