"""What hand-written code gains over the library's way: `python benchmarks/kernels.py [--list]`.

Algorithm 1 (`svi-dag-published`) is compiled twice, as it is (A) and with one part replaced by what
JAX, optax or flowjax offer (B). Both programs make the same steps from the same start in turns, A B
B A A B …, in one process. A ratio is B's time over A's: above 1 the hand-written part gains, and
one that gains less than 10 % should go. Steps are measured by the clock, with the quartiles of the
pairs in brackets; where other jobs share the cores the spread says how far to trust it. Compilation
is measured in CPU seconds of one compilation of each; A is compiled anew every few rows.

Name some replacements to measure these alone; names joined by + are made at once, for what gains
little alone may gain more with others, as barriers and derivatives that have some do.
"""

import argparse
import inspect
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from published import prepare, sachs_fold

import svidag
from svidag.kernels import coupling, noise
from svidag.kernels.descent import Rule, guarded
from svidag.mechanisms import mlp
from svidag.networks import flows
from svidag.run import loop, streams
from svidag.run.streams import Stream
from svidag.variational import particle_algorithm as algorithm
from svidag.variational.settings import VariationalSettings

Attributes = Mapping[tuple[Any, str], Any]
"""(module, name) → what to put there."""


@dataclass(frozen=True)
class Replacement:
    """A hand-written part, the library's way, and how to put the one in place of the other."""

    part: str
    library: str
    attributes: Attributes = field(default_factory=dict)
    options: Mapping[str, Any] | None = None  # of the compiler; None leaves them as they are


def sampled_by(generator: str) -> Attributes:
    """`jax.random` with one of its generators in place of `svidag.kernels.noise`."""
    return {
        (noise, "split"): lambda key, count: jr.split(_as(key, generator), count),
        (noise, "normal"): lambda key, shape: jr.normal(_as(key, generator), shape),
        (noise, "logistic"): lambda key, shape: jr.logistic(_as(key, generator), shape),
        (noise, "integers"): lambda key, shape, below: jr.randint(
            _as(key, generator), shape, 0, below
        ),
    }


def _as(key: jax.Array, generator: str) -> jax.Array:
    """The same key for another generator; `rbg` has keys of twice the length."""
    words = jr.key_data(key).ravel()
    length = {"rbg": 4, "threefry2x32": 2}[generator]
    return jr.wrap_key_data(jnp.resize(words, (length,)), impl=generator)


def bits_by(generator: str) -> Attributes:
    """Random words from JAX, and only what is made of them by hand."""
    kept = ("normal", "logistic", "integers")
    own = {key: value for key, value in sampled_by(generator).items() if key[1] not in kept}
    return {
        **own,
        (noise, "words"): lambda key, shape: jr.bits(_as(key, generator), shape, jnp.uint32),
    }


def optax_adam(settings: VariationalSettings) -> Rule:
    """The same clipping and the same rate, guarded like any other optax transformation."""
    clip = optax.clip_by_global_norm(settings.gradient_clip)
    return guarded(optax.chain(clip, optax.adam(settings.learning_rate)))


def finite_adam(settings: VariationalSettings) -> Rule:
    """With optax's own guard, a conditional around the update."""
    clip = optax.clip_by_global_norm(settings.gradient_clip)
    inner = optax.chain(clip, optax.adam(settings.learning_rate))
    rule = optax.apply_if_finite(inner, max_consecutive_errors=2**30)
    return Rule(jax.jit(rule.init), lambda gradient, state, at, _: rule.update(gradient, state, at))


def flowjax_coupling(dim: int, condition_dim: int, settings: flows.FlowSettings) -> Any:
    """flowjax's coupling with its RationalQuadraticSpline."""
    return flows._coupling(flows._spline(settings), dim, condition_dim, settings)


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in loop.COMPILER.items() if name not in names}


OPTIMISATION = ("xla_backend_optimization_level", "xla_llvm_disable_expensive_passes")

REPLACEMENTS = MappingProxyType(
    {
        "rbg": Replacement("random numbers", "jax.random, rbg", sampled_by("rbg")),
        "threefry": Replacement(
            "random numbers", "jax.random, threefry", sampled_by("threefry2x32")
        ),
        "rbg-bits": Replacement(
            "hash of the position", "bits of rbg, own quantile", bits_by("rbg")
        ),
        "softplus": Replacement(
            "softplus", "jax.nn.softplus", {(mlp, "softplus"): jax.nn.softplus}
        ),
        "quantile": Replacement(
            "log, normal_quantile",
            "jnp.log, erf_inv",
            {
                (noise, "log"): jnp.log,
                (noise, "normal_quantile"): lambda x: 2**0.5 * jax.lax.erf_inv(x),
            },
        ),
        "adam": Replacement(
            "Adam in place", "optax.adam, guarded", {(algorithm, "_optimiser"): optax_adam}
        ),
        "finite": Replacement(
            "Adam in place", "optax.apply_if_finite", {(algorithm, "_optimiser"): finite_adam}
        ),
        "flowjax": Replacement(
            "spline coupling",
            "flowjax Coupling",
            {
                (flows, "FAMILIES"): MappingProxyType(
                    {**flows.FAMILIES, "spline-coupling": flowjax_coupling}
                )
            },
        ),
        "bins": Replacement(
            "derivative of the bins", "autodiff", {(coupling, "_located"): coupling._locate}
        ),
        "recompute": Replacement(
            "spline repeated backward",
            "kept by autodiff",
            {(coupling, "_bent"): inspect.unwrap(coupling._bent)},
        ),
        "barriers": Replacement(
            "optimisation barriers", "none", {(jax.lax, "optimization_barrier"): lambda x: x}
        ),
        "passes": Replacement(
            "cse_barrier_expander off", "on", options=without("xla_disable_hlo_passes")
        ),
        "level": Replacement("LLVM at level 1", "level of XLA", options=without(*OPTIMISATION)),
        "options": Replacement("compiler options", "none", options={}),
    }
)
RENEWED = 4
"""Rows after which A is compiled again, so that a change of the machine's pace shows less."""
CASES = {  # name → table, steps of one measurement
    "m = 11": (sachs_fold, 30),
    "m = 25": (lambda: svidag.datasets.synthetic(m=25, edges=40, n=1000, seed=25).data, 12),
}


@dataclass(frozen=True)
class Program:
    """A compiled chunk of steps, and the CPU seconds that it took to compile."""

    run: Callable[[int], Any]
    compiling: float


def compiled(data: Any, replacements: Sequence[Replacement], steps: int) -> Program:
    """Algorithm 1 with these replacements, traced and compiled anew."""
    attributes: dict[tuple[Any, str], Any] = {}
    options = loop.COMPILER
    for replacement in replacements:
        attributes |= replacement.attributes
        options = options if replacement.options is None else replacement.options
    with ExitStack() as stack:
        for (module, name), value in attributes.items():
            stack.enter_context(patch.object(module, name, value))
        jax.clear_caches()
        problem = prepare(data)
        start = streams.key(0, Stream.ALGORITHM_START)
        key, state = streams.key(0, Stream.ALGORITHM_STEPS), problem.init(start)

        def arguments(limit: int) -> tuple:
            return problem, state, key, jnp.asarray(0), jnp.asarray(limit), steps

        advance = eqx.filter_jit(inspect.unwrap(loop._compiled_steps), compiler_options=options)
        none = arguments(0)
        began = time.process_time()
        program = advance.lower(*none).compile()
        compiling = time.process_time() - began

    def run(limit: int) -> Any:
        return jax.block_until_ready(program(*arguments(limit)))

    run(1)
    return Program(run, compiling)


def spent(program: Program, steps: int) -> tuple[float, float]:
    """Seconds by the clock, and of all cores."""
    began = time.perf_counter(), time.process_time()
    program.run(steps)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def ratios(own: Program, other: Program, steps: int, pairs: int) -> list[list[float]]:
    """B's time over A's by the clock and in CPU seconds, pair by pair, each first in turns."""
    found = []
    for pair in range(pairs):
        if pair % 2 == 0:
            a, b = spent(own, steps), spent(other, steps)
        else:
            b, a = spent(other, steps), spent(own, steps)
        found.append([theirs / ours for ours, theirs in zip(a, b, strict=True)])
    return [list(one) for one in zip(*found, strict=True)]


def measured(data: Any, case: str, own: Program, replacements: Any, pairs: int) -> list[str]:
    """Ratio of step times by the clock, in CPU seconds, and of CPU seconds to compile."""
    steps = CASES[case][1]
    other = compiled(data, replacements, steps)
    clock, cores = ratios(own, other, steps, pairs)
    low, middle, high = statistics.quantiles(clock, n=4, method="inclusive")
    return [
        f"{middle:.2f} [{low:.2f}, {high:.2f}]",
        f"{statistics.median(cores):.2f}",
        f"{other.compiling / own.compiling:.2f}",
    ]


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="replacements; all if none")
    parser.add_argument("--list", action="store_true", help="list the replacements and end")
    parser.add_argument("--pairs", type=int, default=8, help="pairs of measurements (default 8)")
    asked = parser.parse_args()
    if asked.list:
        for name, replacement in REPLACEMENTS.items():
            print(f"{name:<10} {replacement.part} → {replacement.library}")
        return
    chosen = {
        name: [REPLACEMENTS[one] for one in name.split("+")] for name in asked.names or REPLACEMENTS
    }
    data = {case: table() for case, (table, _) in CASES.items()}
    heads = [f"{kind}, {case}" for case in CASES for kind in ("step", "step CPU", "compile")]
    print(f"| name | part | library's way | {' | '.join(heads)} |")
    print("|" + "---|" * (3 + len(heads)), flush=True)
    own: dict[str, Program] = {}
    for row, (name, replacements) in enumerate(chosen.items()):
        cells: list[str] = []
        for case, table in data.items():
            if row % RENEWED == 0:  # twice at first: a process's first one sets the compiler up
                for _ in range(2 if row == 0 else 1):
                    own[case] = compiled(table, [], CASES[case][1])
            cells += measured(table, case, own[case], replacements, asked.pairs)
        parts = " + ".join(dict.fromkeys(one.part for one in replacements))
        library = " + ".join(dict.fromkeys(one.library for one in replacements))
        print(" | ".join([f"| {name}", parts, library, *cells]) + " |", flush=True)
    for case, program in own.items():
        steps = CASES[case][1]
        best = min(spent(program, steps)[0] for _ in range(5)) / steps
        print(f"\nAs it is, {case}: {1e3 * best:.1f} ms a step,", end=" ")
        print(f"{program.compiling:.1f} CPU s to compile")


if __name__ == "__main__":
    main()
