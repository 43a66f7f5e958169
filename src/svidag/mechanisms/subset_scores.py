"""BGe of every subset of some candidates, with one Cholesky factor that grows and shrinks."""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np


@no_type_check
@numba.njit(nogil=True, cache=True, error_model="numpy")
def score_subsets(A, C, d, constant, power, out):
    """c(|S|) − ½ log|A_SS| − h(|S|) log(d − C_Sᵀ A_SS⁻¹ C_S) into `out`, by the mask of S.

    Sets are visited depth first, by adding candidates of rising number, so that the factor of each
    is that of the one before with a row more.
    """
    k = len(C)
    factor, w = np.empty((k, k)), np.empty(k)
    half, left = np.zeros(k + 1), np.full(k + 1, d)
    members, masks = np.zeros(k, np.int64), np.zeros(k + 1, np.int64)
    out[0] = constant[0] - power[0] * np.log(d)
    size, following = 0, 0
    while True:
        if following < k:
            v = following
            members[size] = v
            rest, own = A[v, v], C[v]
            for t in range(size):
                s = A[v, members[t]]
                for u in range(t):
                    s -= factor[size, u] * factor[t, u]
                s /= factor[t, t]
                factor[size, t] = s
                rest -= s * s
                own -= s * w[t]
            factor[size, size] = np.sqrt(max(rest, 1e-300))
            w[size] = own / factor[size, size]
            half[size + 1] = half[size] + np.log(factor[size, size])
            left[size + 1] = left[size] - w[size] ** 2
            masks[size + 1] = masks[size] | (1 << v)
            size += 1
            out[masks[size]] = constant[size] - half[size] - power[size] * np.log(left[size])
            following = v + 1
        elif size == 0:
            break
        else:
            size -= 1
            following = members[size] + 1
