"""Every test runs with shapes checked (jaxtyping + beartype) and strict JAX promotion."""

import os
from pathlib import Path

# Tests compile far more than they run: spare the optimiser, in child processes too.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false",  # takes half of the time of a compilation
)
# Each process of the tests has a core of its own: fits of two of them, on two threads each, would
# take a quarter more of both. Tests that need several workers ask for them.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    usable = sorted(os.sched_getaffinity(0))
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    os.sched_setaffinity(0, {usable[number % len(usable)]})
# And what one process has compiled, neither the others nor the next run need compile again.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".cache/programs")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    # An entry that another process is still writing is compiled again, without a word: in this
    # process by pyproject.toml, in those that tests start by this.
    os.environ["PYTHONWARNINGS"] = ",".join(
        f"ignore:Error {done} persistent compilation cache entry:UserWarning"
        for done in ("reading", "writing")
    )

import jaxtyping

import annotations

# Before anything imports svidag: each annotated function checks its own shapes.
jaxtyping.jaxtyped = annotations.jaxtyped
_hook = jaxtyping.install_import_hook("svidag", "annotations.check")
_hook.__enter__()

import jax  # noqa: E402
import pytest  # noqa: E402

import workers  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # by time, not by the number of tests
    return workers.Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    annotations.begin_test()


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: workers.rank_of(item.nodeid))
