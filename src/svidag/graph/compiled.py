"""Cycles, paths and completed graphs of many draws, in compiled code.

A set of nodes is a row of 64-bit words, so that unions and intersections of parents, children and
neighbours take m/64 steps. Draws of a posterior over hundreds of variables are sparse: with E
arrows a graph is completed in about E · m/64 steps for each round of rules, where products of
matrices take m³.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@no_type_check
@_compiled
def below_cycles(draws, left):
    """Mark in `left` [S, m] what remains when parentless nodes are taken away until none is."""
    S, m, _ = draws.shape
    waiting, free = np.empty(m, np.int64), np.empty(m, np.int64)
    for s in range(S):
        waiting[:] = 0
        for i in range(m):
            for j in range(m):
                waiting[j] += draws[s, i, j]
        count = 0
        for j in range(m):
            left[s, j] = True
            if waiting[j] == 0:
                free[count] = j
                count += 1
        done = 0
        while done < count:
            i = free[done]
            done += 1
            left[s, i] = False
            for j in range(m):
                if draws[s, i, j]:
                    waiting[j] -= 1
                    if waiting[j] == 0:
                        free[count] = j
                        count += 1


@no_type_check
@_compiled
def reach_all(draws, reached):
    """Mark in `reached` [S, m, m] the nodes to which a directed path leads from each node."""
    S, m, _ = draws.shape
    rows = np.empty((m, m // 64 + 1), np.uint64)
    for s in range(S):
        rows[:] = 0
        for i in range(m):
            for j in range(m):
                if draws[s, i, j]:
                    put(rows, i, j)
        changing = True
        while changing:
            changing = False
            for i in range(m - 1, -1, -1):
                for j in range(m):
                    if draws[s, i, j]:
                        for w in range(rows.shape[1]):
                            more = rows[i, w] | rows[j, w]
                            changing = changing or more != rows[i, w]
                            rows[i, w] = more
        for i in range(m):
            for j in range(m):
                reached[s, i, j] = has(rows, i, j)


@no_type_check
@_compiled
def complete_all(draws, known, fourth, completed):
    """Write the completed graph of each draw into `completed` [S, m, m].

    The rules are applied to all edges at once and then again, until none applies; the fourth one
    only if asked for. `known` [m, m] marks pairs whose direction is known from elsewhere. An edge
    that the rules direct both ways, which happens in graphs with cycles only, stays undirected.
    """
    S, m, _ = draws.shape
    words = m // 64 + 1
    near, parents = np.empty((m, words), np.uint64), np.empty((m, words), np.uint64)
    children, loose = np.empty((m, words), np.uint64), np.empty((m, words), np.uint64)
    for s in range(S):
        near[:] = 0
        parents[:] = 0
        E = 0
        for i in range(m):
            for j in range(m):
                completed[s, i, j] = 0
                if draws[s, i, j]:
                    put(near, i, j)
                    put(near, j, i)
                    put(parents, j, i)
                    E += 1
        first, second = np.empty(2 * E, np.int64), np.empty(2 * E, np.int64)
        found = np.empty(2 * E, np.bool_)
        e = 0
        for i in range(m):
            for j in range(m):
                if draws[s, i, j]:
                    first[e], second[e] = i, j
                    e += 1
        # Arrows that keep their direction: into a node with a parent that is not adjacent.
        for e in range(E):
            i, j = first[e], second[e]
            found[e] = outside(parents, j, near, i) or known[i, j]
        parents[:] = 0
        children[:] = 0
        loose[:] = 0  # neighbours over undirected edges
        for e in range(E):
            put(loose, first[e], second[e])
            put(loose, second[e], first[e])
        for e in range(E):
            if found[e]:
                direct(first[e], second[e], parents, children, loose)
        for e in range(E):  # both directions of every edge are tried
            first[E + e], second[E + e] = second[e], first[e]
        changing = True
        while changing:
            changing = False
            # Meek's rules 1 to 3, and then the fourth, each for all edges before any is directed.
            for last in range(2 if fourth else 1):
                for e in range(2 * E):
                    i, j = first[e], second[e]
                    found[e] = False
                    if has(loose, i, j):
                        found[e] = (
                            fourth_rule(i, j, near, parents, children, loose)
                            if last
                            else first_rules(i, j, near, parents, children, loose)
                        )
                for e in range(2 * E):
                    if found[e]:
                        changing = True
                        direct(first[e], second[e], parents, children, loose)
        for e in range(2 * E):
            i, j = first[e], second[e]
            if has(children, i, j) or not has(children, j, i):
                completed[s, i, j] = 1


@no_type_check
@_compiled
def direct(i, j, parents, children, loose):
    """Make i → j of the edge i – j."""
    put(parents, j, i)
    put(children, i, j)
    take(loose, i, j)
    take(loose, j, i)


@no_type_check
@_compiled
def first_rules(i, j, near, parents, children, loose):
    """Whether Meek's rules 1, 2 or 3 direct the undirected edge i – j as i → j."""
    if outside(parents, i, near, j):  # 1: k → i – j, k and j not adjacent
        return True
    several = 0
    for w in range(near.shape[1]):
        if children[i, w] & parents[j, w]:  # 2: i → k → j
            return True
        several |= loose[i, w] & parents[j, w]
    if several == 0:
        return False
    # 3: i – k → j and i – l → j, k and l not adjacent
    for k in range(len(near)):
        if has(loose, i, k) and has(parents, j, k):
            for w in range(near.shape[1]):
                others = loose[i, w] & parents[j, w] & ~near[k, w]
                if w == k >> 6:
                    others &= ~(np.uint64(1) << np.uint64(k & 63))
                if others:
                    return True
    return False


@no_type_check
@_compiled
def fourth_rule(i, j, near, parents, children, loose):
    """Whether i – k → l → j, k and j not adjacent, directs the undirected edge i – j as i → j."""
    for k in range(len(near)):
        if k != j and has(loose, i, k) and not has(near, j, k):
            for w in range(near.shape[1]):
                if children[k, w] & parents[j, w]:
                    return True
    return False


@no_type_check
@_compiled
def outside(rows, a, near, b):
    """Whether a node of row a is neither adjacent to b nor b itself."""
    for w in range(rows.shape[1]):
        rest = rows[a, w] & ~near[b, w]
        if w == b >> 6:
            rest &= ~(np.uint64(1) << np.uint64(b & 63))
        if rest:
            return True
    return False


@no_type_check
@_compiled
def has(rows, i, j):
    """Whether j is in row i."""
    return rows[i, j >> 6] >> np.uint64(j & 63) & np.uint64(1) != 0


@no_type_check
@_compiled
def put(rows, i, j):
    """Put j into row i."""
    rows[i, j >> 6] |= np.uint64(1) << np.uint64(j & 63)


@no_type_check
@_compiled
def take(rows, i, j):
    """Take j from row i."""
    rows[i, j >> 6] &= ~(np.uint64(1) << np.uint64(j & 63))
