"""Every test runs with shapes checked (jaxtyping + beartype) and strict JAX promotion."""

import os

# Tests compile far more than they run: spare the optimiser, in child processes too.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

from jaxtyping import install_import_hook

# Before anything imports svidag: each annotated function checks its own shapes.
_hook = install_import_hook("svidag", "beartype.beartype")
_hook.__enter__()

import jax  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
