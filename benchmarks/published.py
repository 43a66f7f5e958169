"""Time and memory of `svi-dag-published`: `python benchmarks/published.py`.

The profile is of the compiled step itself: each kernel's time in a trace goes to the part of the
algorithm whose scope it was compiled from, so that the parts add up to all kernels there are.
"""

import gzip
import json
import multiprocessing
import re
import resource
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import svidag
from svidag.methods import PublishedSVIDAG
from svidag.problem import Problem
from svidag.run import loop
from svidag.variational.particle_algorithm import ParticleAlgorithm
from svidag.variational.particle_bound import Rows

# The paper takes the raw columns, skewed as they are.
warnings.simplefilter("ignore", svidag.DataWarning)

STEPS = 50
PARTS = {  # scope of the code → what it is
    "order": "Sinkhorn mask and its implicit gradient",
    "flow": "flow over edges",
    "hypernetwork": "hypernetwork and draw of θ",
    "network": "networks and likelihood",
    "prior": "prior and KL terms",
    "kernel": "kernel and repulsion",
    "optimiser": "optimiser",
}


def sachs_fold() -> Any:
    """The training rows of the first of the paper's ten folds."""
    return svidag.datasets.sachs().data.iloc[svidag.datasets.sachs_folds()[0]]


def prepare(data: Any) -> ParticleAlgorithm:
    """Algorithm 1 with the paper's settings."""
    problem = Problem.build(data, prior=None, standardise=True)
    return ParticleAlgorithm.build(
        Rows.of(problem.data), problem.prior.to_jax(), PublishedSVIDAG(), 0
    )


def compiled(algorithm: ParticleAlgorithm) -> tuple[Callable[[int], Any], str]:
    """What makes the given number of steps from the start, and the program that it runs."""
    key = jax.random.key(0)
    state = algorithm.init(key)

    def arguments(limit):
        return algorithm, state, key, jnp.asarray(0), jnp.asarray(limit), STEPS

    program = loop._compiled_steps.lower(*arguments(0)).compile()
    return lambda limit: jax.block_until_ready(
        program(*arguments(limit))
    ), program.compiled.as_text()


def peak() -> float:
    """Largest resident memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(m: int) -> tuple[float, float, float]:
    """Seconds to build and compile, milliseconds a step, peak memory in GB."""
    data = svidag.datasets.synthetic(m=m, edges=m // 2, n=1000, seed=m).data
    started = time.perf_counter()
    advance, _ = compiled(prepare(data))
    advance(0)
    ready = time.perf_counter() - started
    return ready, 1e3 * best(lambda: advance(STEPS), 3) / STEPS, peak()


def fit() -> tuple[float, float, float, float]:
    """Seconds of a fit of one Sachs fold with 1000 draws, of it compiling and running; memory."""
    started = time.perf_counter()
    posterior = svidag.fit(sachs_fold(), method="svi-dag-published", progress=False)
    posterior.sample(1000)
    total = time.perf_counter() - started
    spent = posterior.diagnostics.details
    return total, spent.compile_seconds, spent.run_seconds, peak()


def profile() -> tuple[dict[str, float], float]:
    """Milliseconds of each part of a step on one Sachs fold, and of the step by the clock."""
    advance, program = compiled(prepare(sachs_fold()))
    step = 1e3 * best(lambda: advance(STEPS), 5) / STEPS
    part = {name: part_of(scopes) for name, scopes in kernels(program)}
    spent = Counter(dict.fromkeys([*PARTS.values(), "rest"], 0.0))
    for name, microseconds in events(lambda: advance(STEPS)):
        if name in part:
            spent[part[name]] += microseconds / 1e3 / STEPS
    return dict(spent), step


def kernels(program: str) -> list[tuple[str, str]]:
    """Every instruction of a compiled program that does work itself, and the scopes it is from."""
    line = r"^\s*(?:ROOT )?%([\w.-]+) = .*?\s([a-z-]+)\((?:.*op_name=\"([^\"]*)\")?"
    found = re.findall(line, program, flags=re.MULTILINE)
    return [(name, scopes) for name, kind, scopes in found if kind not in ("while", "call")]


def part_of(scopes: str) -> str:
    """The part that a kernel belongs to."""
    for scope, part in PARTS.items():
        if re.search(rf"\b{scope}\b", scopes):
            return part
    return "rest"


def events(call: Callable[[], Any]) -> list[tuple[str, float]]:
    """Names and microseconds of what runs during a call."""
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        with jax.profiler.trace(folder, profiler_options=options):
            call()
        (file,) = Path(folder).rglob("*.trace.json.gz")
        found = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return [(event["name"], event["dur"]) for event in found if event.get("ph") == "X"]


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
    parts, step = apart(profile)
    print("\n| part of a step, m = 11 | ms in kernels |\n|---|---|")
    for part, spent in parts.items():
        print(f"| {part} | {spent:.2f} |")
    print(f"| all kernels, on all cores | {sum(parts.values()):.2f} |")
    print(f"| the step, by the clock | {step:.2f} |")


if __name__ == "__main__":
    main()
