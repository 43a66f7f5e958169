"""The order of potentials as a mask over pairs."""

from __future__ import annotations

from typing import Any


def before(r: Any) -> Any:
    """M(r)[i, j] = 1[r_i > r_j], whether i comes before j, in NumPy or JAX.

    Examples
    --------
    >>> import numpy as np
    >>> before(np.array([0.5, 2.0])).tolist()
    [[False, False], [True, False]]
    """
    return r[..., :, None] > r[..., None, :]
