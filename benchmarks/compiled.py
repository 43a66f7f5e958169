"""What the compiled kernels of scores gain over NumPy: `python benchmarks/compiled.py [NAME …]`.

Each kernel of `svidag.kernels` that numba compiles stands beside the same computation by NumPy and
SciPy. Both have the same input and must agree; the times are CPU seconds of one thread, the least
of several runs, compilation left out. A kernel that gains less than 10 % should go.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logsumexp
from threadpoolctl import threadpool_limits

from svidag.exact.orders import log_consistent_orders
from svidag.kernels import categories, counting, elimination, gaussian_families, ordered, ridge
from svidag.mechanisms.discrete_regression import contrasts
from svidag.mechanisms.linear import LinearGaussian

REPEATS = 5


class Case(NamedTuple):
    """A kernel, the library's way, and what both are given."""

    what: str
    ours: Callable[[], Any]
    library: Callable[[], Any]


def bge() -> Case:
    m, size, count = 25, 12, 8_000
    rng = np.random.default_rng(0)
    model = LinearGaussian.from_values(rng.standard_normal((1000, m)))
    nodes, parents = np.zeros(count, int), np.zeros((count, m), bool)
    members = np.argsort(rng.random((count, m - 1)), axis=1)[:, :size] + 1
    np.put_along_axis(parents, members, True, axis=1)
    constant, power = model._by_size
    R = model.scatter[0]

    def ours() -> np.ndarray:
        out = np.empty(count)
        given = nodes, parents, model.scatter, model.group, constant, power
        gaussian_families.score_families(*given, out)
        return out

    def library() -> np.ndarray:
        rows = np.sort(members, axis=1)
        within = R[rows[:, :, None], rows[:, None, :]]
        across = R[rows, 0]
        explained = np.einsum(
            "bi,bi->b", across, np.linalg.solve(within, across[..., None])[..., 0]
        )
        left = np.log(R[0, 0] - explained)
        return constant[0, size] - 0.5 * np.linalg.slogdet(within)[1] - power[0, size] * left

    return Case(f"BGe of {count} families with {size} parents", ours, library)


def bdeu() -> Case:
    n, m, size, count = 1000, 20, 3, 500
    rng = np.random.default_rng(0)
    codes, sizes, rows = rng.integers(3, size=(m, n)), np.full(m, 3), np.arange(n)
    members = np.argsort(rng.random((count, m - 1)), axis=1)[:, :size] + 1
    begins = np.arange(0, (count + 1) * size, size)

    def ours() -> np.ndarray:
        out = np.empty(count)
        counting.score_families(codes, sizes, 0, rows, members.ravel(), begins, 1.0, 1.0, out)
        return out

    def library() -> np.ndarray:
        alpha = 1.0 / 3**size
        total = np.empty(count)
        for b, chosen in enumerate(members):
            found, place = np.unique(codes[chosen], axis=1, return_inverse=True)
            cells = np.bincount(place.ravel() * 3 + codes[0], minlength=found.shape[1] * 3)
            cells = cells.reshape(-1, 3)
            each = gammaln(alpha / 3 + cells) - gammaln(alpha / 3)
            whole = gammaln(alpha) - gammaln(alpha + cells.sum(axis=1))
            total[b] = whole.sum() + each.sum()
        return total

    return Case(f"BDeu of {count} families with {size} parents, {n} rows", ours, library)


def levels() -> Case:
    n, d = 569, 9
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(n), rng.standard_normal((n, d - 1))])
    counts = np.eye(2)[(design @ rng.standard_normal(d) > rng.logistic(size=n)).astype(int)]
    U, precision, steps, enough = contrasts(2), 0.3, 60, 1e-6

    def ours() -> np.ndarray:
        theta = np.zeros(d)
        categories.find_mode(theta, design, counts, U, precision, steps, enough, 30)
        return theta

    def library() -> np.ndarray:
        theta = np.zeros(d)
        for _ in range(steps):
            logits = np.outer(design @ theta, U[:, 0])
            p = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
            slope = design.T @ ((counts - p) @ U[:, 0]) - precision * theta
            spread = p @ U[:, 0] ** 2 - (p @ U[:, 0]) ** 2
            step = np.linalg.solve((design.T * spread) @ design + precision * np.eye(d), slope)
            if slope @ step < enough:
                break
            theta = theta + step
        return theta

    return Case(f"Regression of two levels, {n} rows, {d} features", ours, library)


def thresholds() -> Case:
    n, d, size = 300, 6, 5
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    level = np.digitize(x.sum(axis=1) + rng.logistic(size=n), [-3.0, -1.0, 1.0, 3.0])
    precision, steps, enough = 0.15, 60, 1e-12
    start = np.append(np.array([-3.0, -1.0, 1.0, 3.0]), np.zeros(d))
    row, once = np.arange(n), np.ones(n)

    def ours() -> np.ndarray:
        theta = start.copy()
        ordered.find_mode(theta, x, row, level, once, precision, steps, enough, 30)
        return theta

    def library() -> np.ndarray:
        theta, k = start.copy(), size - 1
        first = np.eye(size)[level]
        upper, lower = first[:, :k], first[:, 1:]  # which threshold is above, which below
        for _ in range(steps):
            below = expit(theta[:k] - (x @ theta[k:])[:, None])
            F = np.concatenate([np.zeros((n, 1)), below, np.ones((n, 1))], axis=1)
            u, v = F[row, level + 1], F[row, level]
            gap = np.diff(theta[:k], prepend=-np.inf, append=np.inf)
            between = 1 / np.expm1(gap)
            bend = (between * (1 + between))[level]
            c_u, c_v = u * (1 - u), v * (1 - v)
            slope = np.append(
                (1 - u + between[level]) @ upper
                - (v + between[level]) @ lower
                + 1
                - 2 * expit(theta[:k]),
                (u + v - 1) @ x - precision * theta[k:],
            )
            H = np.zeros((k + d, k + d))
            own = (c_u + bend) @ upper + (c_v + bend) @ lower
            H[:k, :k] = np.diag(own + 2 * expit(theta[:k]) * expit(-theta[:k]))
            across = (upper.T * bend) @ lower
            H[:k, :k] -= across + across.T
            H[:k, k:] = -((upper.T * c_u) + (lower.T * c_v)) @ x
            H[k:, :k] = H[:k, k:].T
            H[k:, k:] = (x.T * (c_u + c_v)) @ x + precision * np.eye(d)
            step = np.linalg.solve(H, slope)
            if slope @ step < enough:
                break
            theta = theta + step
        return theta

    return Case(f"Regression of {size} ordered levels, {n} rows, {d} features", ours, library)


def backward() -> Case:
    size, least = 20, 0.003
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, size + 1))
    x[:, -1] += x[:, :3].sum(axis=1)
    products, outputs = x.T @ x, np.array([size])

    def ours() -> np.ndarray:
        return elimination.eliminate(products, np.arange(size), outputs, least, size)

    def library() -> np.ndarray:
        kept = np.ones(size, bool)
        while kept.any():
            at = np.flatnonzero(kept)
            inverse = np.linalg.inv(products[np.ix_(at, at)])
            beta = inverse @ products[at, size]
            left = products[size, size] - products[at, size] @ beta
            gain = np.log1p(beta**2 / (left * np.diag(inverse)))
            if gain.min() >= least:
                break
            kept[at[gain.argmin()]] = False
        return kept

    return Case(f"Backward elimination from {size} parents", ours, library)


def orders() -> Case:
    m, count = 11, 20
    rng = np.random.default_rng(0)
    graphs = np.triu(rng.random((count, m, m)) < 0.3, 1)
    parents = (graphs * (1 << np.arange(m))[:, None]).sum(axis=1)
    gaps = rng.standard_normal((m, 2**m))
    every = np.arange(2**m)
    size = sum(every >> j & 1 for j in range(m))

    def library() -> np.ndarray:
        sums = np.full((count, 2**m), -np.inf)
        sums[:, 0] = 0.0
        for level in range(1, m + 1):
            whole = every[size == level]
            rest = whole[:, None] ^ (1 << np.arange(m))
            last = (whole[:, None] >> np.arange(m) & 1 == 1)[None] & (parents[:, None] & ~rest == 0)
            terms = np.where(last, sums[:, rest] + gaps[np.arange(m), rest], -np.inf)
            sums[:, whole] = logsumexp(terms, axis=2)
        return sums[:, -1]

    what = f"Sums over the orders of {count} graphs with {m} variables"
    return Case(what, lambda: log_consistent_orders(parents, gaps), library)


def networks() -> Case:
    count, q, n, penalties = 50, 100, 200, np.array([0.25, 1.0, 4.0])
    rng = np.random.default_rng(0)
    features = rng.standard_normal((count, q + 1, n))
    grams = features @ features.swapaxes(1, 2)

    def ours() -> np.ndarray:
        volume, projected = np.empty((count, 3)), np.empty((count, 3, 1))
        ridge.summarise(grams, q, penalties, np.ones(3), volume, projected)
        return np.stack([volume, projected[..., 0]])

    def library() -> np.ndarray:
        whole = grams[:, None, :q, :q] + penalties[:, None, None] * np.eye(q)
        b = np.broadcast_to(grams[:, None, :q, q], (count, 3, q))
        projected = np.einsum("clq,clq->cl", b, np.linalg.solve(whole, b[..., None])[..., 0])
        return np.stack(
            [0.5 * q * np.log(penalties) - 0.5 * np.linalg.slogdet(whole)[1], projected]
        )

    return Case(f"{count} ridge regressions of {q} units at three penalties", ours, library)


CASES = {
    "gaussian_families": bge,
    "counting": bdeu,
    "categories": levels,
    "ordered": thresholds,
    "elimination": backward,
    "order_sums": orders,
    "ridge": networks,
}


def least_seconds(compute: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of several runs, each of a twentieth of a second at least."""
    times = []
    for _ in range(REPEATS):
        began, runs = time.process_time(), 0
        while runs == 0 or time.process_time() - began < 0.05:
            compute()
            runs += 1
        times.append((time.process_time() - began) / runs)
    return min(times)


def main() -> None:
    """Print a row for each kernel."""
    print("| kernel | what | ours, ms | NumPy, ms | NumPy / ours |\n|---|---|---|---|---|")
    with threadpool_limits(1):
        for name in sys.argv[1:] or CASES:
            what, ours, library = CASES[name]()
            np.testing.assert_allclose(
                np.asarray(ours(), float), np.asarray(library(), float), rtol=1e-5, atol=1e-5
            )
            own, other = least_seconds(ours), least_seconds(library)
            cells = (name, what, f"{1e3 * own:.3f}", f"{1e3 * other:.3f}", f"{other / own:.1f}")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
