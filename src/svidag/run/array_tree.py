"""The JAX arrays of a state by name, for checkpoints, and a state with arrays put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

Tree = TypeVar("Tree")


def arrays_of(tree: Any) -> dict[str, Any]:
    """The JAX arrays of a tree, by their path in it.

    Examples
    --------
    >>> arrays_of({"a": jax.numpy.ones(2), "b": "text"})
    {"['a']": Array([1., 1.], dtype=float32)}
    """
    leaves = jax.tree.leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, jax.Array)
    }


def with_arrays(template: Tree, arrays: Mapping[str, np.ndarray]) -> Tree:
    """A tree like the template, with these arrays in place of its own."""

    def replaced(path, leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        found = arrays.get(jax.tree_util.keystr(path))
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise ValueError(
                f"the checkpoint does not hold the state{jax.tree_util.keystr(path)} of this fit"
            )
        return jax.numpy.asarray(found)

    return jax.tree_util.tree_map_with_path(replaced, template)
