"""Time and memory of `preset="paper"`: `python benchmarks/published.py`."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import svidag
from svidag.inference import loop
from svidag.inference.published import Published, Settings, _descend, _optimiser
from svidag.inference.stein import Stein, direction, linearise
from svidag.methods.published import _beliefs, _rows
from svidag.order import relax
from svidag.problem import Problem

STEPS = 50


def sachs_fold() -> Any:
    """The training rows of the first of the paper's ten folds."""
    return svidag.datasets.sachs().data.iloc[svidag.datasets.sachs_folds()[0]]


def prepare(data: Any) -> Published:
    """Algorithm 1 with the paper's settings."""
    problem = Problem.build(data, prior=None, interventions=None, standardise=True)
    return Published.build(_rows(problem), _beliefs(problem), Settings(), 0)


def peak() -> float:
    """Largest resident memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(m: int) -> tuple[float, float, float]:
    """Seconds to build and compile, milliseconds a step, peak memory in GB."""
    data = svidag.datasets.synthetic(m=m, edges=m // 2, n=1000, seed=m).data
    started = time.perf_counter()
    algorithm = prepare(data)
    key = jax.random.key(0)
    state = algorithm.init(key)

    def advance(limit):
        at = jnp.asarray(0), jnp.asarray(limit)
        return jax.block_until_ready(loop._advance(algorithm, state, key, *at, STEPS))

    advance(0)
    compiled = time.perf_counter()
    return compiled - started, 1e3 * best(lambda: advance(STEPS), 3) / STEPS, peak()


def fit() -> tuple[float, float, float, float]:
    """Seconds of a fit of one Sachs fold with 1000 draws, of it compiling and running; memory."""
    data = sachs_fold()
    started = time.perf_counter()
    posterior = svidag.fit(data, preset="paper", progress=False)
    posterior.sample(1000)
    total = time.perf_counter() - started
    spent = posterior.diagnostics
    return total, spent["compile_seconds"], spent["run_seconds"], peak()


def parts() -> dict[str, float]:
    """Milliseconds of each part of a step on one Sachs fold, each compiled on its own."""
    algorithm = prepare(sachs_fold())
    state, key = algorithm.init(jax.random.key(0)), jax.random.key(1)
    r, settings = state.orders, algorithm.settings
    masks = jax.vmap(lambda r: relax(r, settings.tau, settings.sinkhorn).mask)(r)
    graphs = jnp.asarray(np.random.default_rng(0).random(masks.shape) < 0.2, jnp.float32)

    def flow(networks, r):
        guide = algorithm.complete(networks).edges
        gamma, log_q = jax.vmap(guide.sample_and_log_prob)(jax.random.split(key, len(r)), r)
        return (gamma.sum((1, 2)) - log_q).mean()

    def mechanism(networks, graphs):
        nets = algorithm.complete(networks).mechanism
        guide = nets.guide(graphs)
        rows = algorithm.rows.batches(key, (len(graphs), settings.batch))
        likelihood = nets.log_likelihood(guide.sample(key), graphs, *rows).sum()
        return likelihood - nets.kl(guide).weights.sum()

    def order(r, scores):
        features = linearise(lambda r: relax(r, settings.tau, settings.sinkhorn).mask, r)
        return direction(scores + features.pull(features.values), features, Stein()).direction

    def optimiser(gradient, state):
        return _descend(_optimiser(settings), gradient, state.optimiser, state.networks)

    found = {
        "flow": timed(jax.grad(flow, argnums=(0, 1)), state.networks, r),
        "mechanism": timed(jax.grad(mechanism, argnums=(0, 1)), state.networks, graphs),
        "order and repulsion": timed(order, r, r),
        "optimiser": timed(optimiser, state.networks, state),
    }
    whole = timed(algorithm.step, state, key)
    return found | {"rest": whole - sum(found.values()), "whole step": whole}


def timed(function: Callable[..., Any], *arguments: Any) -> float:
    """Milliseconds of a compiled call, the best of 50."""
    compiled = eqx.filter_jit(function)
    jax.block_until_ready(compiled(*arguments))
    return 1e3 * best(lambda: jax.block_until_ready(compiled(*arguments)), 50)


def best(call: Callable[[], Any], times: int) -> float:
    """Least seconds of several calls."""
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        spent.append(time.perf_counter() - started)
    return min(spent)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a fresh process, so that each peak and compilation is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def main() -> None:
    """Print the three tables."""
    total, compiling, running, memory = apart(fit)
    print("One Sachs fold, 2500 iterations and 1000 draws:\n")
    print("| total, s | compiling, s | running, s | peak memory, GB |\n|---|---|---|---|")
    print(f"| {total:.1f} | {compiling:.1f} | {running:.1f} | {memory:.2f} |\n", flush=True)
    print("| m | build and compile, s | step, ms | peak memory, GB |\n|---|---|---|---|")
    for m in (2, 11, 25, 50):
        compiling, step, memory = apart(measure, m)
        print(f"| {m} | {compiling:.1f} | {step:.1f} | {memory:.2f} |", flush=True)
    print("\n| part of a step, m = 11 | ms |\n|---|---|")
    for part, spent in apart(parts).items():
        print(f"| {part} | {spent:.1f} |")


if __name__ == "__main__":
    main()
