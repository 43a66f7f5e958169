"""Burn-in by Stein steps against tempered relocation: `python benchmarks/burn_in.py`.

Both start from random orders and see the same tables. The score of a particle is
Σ_ij G_ij ∂M_τ,ij/∂r − r with G_ij = F_j(U ∪ i) − F_j(U ∖ i), the exact change of log p(D | order).
The figure is how far the mean of log p(D | order) still is from that of long chains, in nats.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import svidag
from svidag.inference.chains import Schedule, run_chains
from svidag.inference.convergence import Agreement
from svidag.inference.stein import direction, linearise
from svidag.inference.tabulated import TableSettings, tabulate
from svidag.mechanisms.linear import LinearGaussian
from svidag.order import relax
from svidag.prior import Prior

GRAPHS, ROWS = 3, 1000
LADDER = {"levels": 7, "flattest": 0.03, "enough": Agreement(tolerance=0.0)}
PARTICLES, RATE = 20, 0.5
TAU = 20.0, 0.1  # from, to


def tables_of(seed):
    """Tables of a fresh linear graph with 25 variables and 40 edges."""
    example = svidag.datasets.synthetic(m=25, edges=40, n=ROWS, seed=seed)
    data, _ = svidag.Dataset.from_any(example.data).standardise()
    prior, model = Prior().bind(data.names), LinearGaussian.from_values(data.values)
    return tabulate(model, prior, TableSettings(fewest=13, slack=12.0), seed=0).tables, prior


def relocation(tables, prior, sweeps):
    """Mean log p(D | order) of four ladders after some sweeps, and the seconds that took."""
    schedule = Schedule(chains=4, burn_in=sweeps, orders=1, thin=1, **LADDER)
    started = time.perf_counter()
    found = run_chains(tables, prior, schedule, seed=1)
    return found.log_evidence.mean(), time.perf_counter() - started


def gains(tables, r):
    """G of every particle."""
    before = r[:, :, None] > r[:, None, :]
    masks = (before * tables.bits).sum(axis=1)[:, None, :]
    on, off = masks | tables.bits, masks & ~tables.bits
    start = tables.offsets[:-1][None, None, :]
    return tables.sums[start + on] - tables.sums[start + off] + tables.absent


@jax.jit
def stein_step(r, G, tau):
    """Particles one step further along Φ."""
    masks = linearise(lambda one: relax(one, tau).mask, r)
    return r + RATE * direction(masks.pull(G) - r, masks).direction


def stein(tables, steps):
    """Mean log p(D | order) of the particles after some steps, and the seconds that took."""
    r = jax.random.normal(jax.random.key(0), (PARTICLES, tables.m))
    stein_step(r, jnp.zeros((PARTICLES, tables.m, tables.m)), 1.0)  # compiled beforehand
    started = time.perf_counter()
    for tau in np.linspace(*TAU, steps):
        G = jnp.asarray(gains(tables, np.asarray(r)), jnp.float32)
        r = stein_step(r, G, float(tau))
    orders = np.argsort(-np.asarray(r), axis=1)
    seconds = time.perf_counter() - started
    return np.mean([tables.log_evidence(order) for order in orders]), seconds


def main():
    """One table, a row for each way and length."""
    print("| graph | burn-in | seconds | nats short |\n|---|---|---|---|")
    for graph in range(GRAPHS):
        tables, prior = tables_of(f"tune|burn-in|{graph}")
        settled = Schedule(chains=4, burn_in=500, orders=300, **LADDER)
        target = run_chains(tables, prior, settled, seed=0).log_evidence.mean()
        for sweeps in (1, 10, 50, 200):
            value, seconds = relocation(tables, prior, sweeps)
            print(f"| {graph} | {sweeps} sweeps | {seconds:.2f} | {target - value:.1f} |")
        for steps in (10, 100, 1000):
            value, seconds = stein(tables, steps)
            print(f"| {graph} | {steps} Stein steps | {seconds:.2f} | {target - value:.1f} |")


if __name__ == "__main__":
    main()
