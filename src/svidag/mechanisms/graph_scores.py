"""BGe of every node of many graphs.

Every family gets a Cholesky factor of its own, no larger than the family. Against NumPy's batches
of equal size this takes a sixth of the time at m = 25 with 12 parents a node (64 000 families).
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np


@no_type_check
@numba.njit(nogil=True, cache=True, error_model="numpy")
def score_graphs(graphs, scatter, group, constant, power, out):
    """c_j(|P|) − ½ log|R_PP| − h_j(|P|) log(R_jj − R_jP R_PP⁻¹ R_Pj) into ``out[s, j]``.

    P are the parents of j in graph s, ``graphs[s, i, j] = 1`` for i → j, and R is the scatter
    matrix of the group of j.
    """
    S, m = graphs.shape[0], graphs.shape[1]
    factor, w, members = np.empty((m, m)), np.empty(m), np.empty(m, np.int64)
    for s in range(S):
        for j in range(m):
            R = scatter[group[j]]
            left, volume, size = R[j, j], 1.0, 0
            log_volume = 0.0
            for v in range(m):
                if graphs[s, v, j] == 0:
                    continue
                rest, own = R[v, v], R[v, j]
                for t in range(size):
                    x = R[v, members[t]]
                    for u in range(t):
                        x -= factor[size, u] * factor[t, u]
                    x *= w[t]
                    factor[size, t] = x
                    rest -= x * x
                    own -= x * factor[t, m - 1]
                rest = max(rest, 1e-300)
                members[size] = v
                w[size] = 1 / np.sqrt(rest)
                own *= w[size]
                factor[size, m - 1] = own
                left -= own * own
                volume *= rest
                if volume > 1e200 or volume < 1e-200:
                    log_volume += np.log(volume)
                    volume = 1.0
                size += 1
            log_volume += np.log(volume)
            left = max(left, 1e-300)
            out[s, j] = constant[j, size] - 0.5 * log_volume - power[j, size] * np.log(left)
