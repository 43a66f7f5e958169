"""Our optimisers against optax's, and what they do where a gradient is not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from svidag.kernels.descent import adam, descend, guarded

RATE, LARGEST = 0.01, 1.5
START = {"a": jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": jnp.array(0.3)}
RULES = {
    "adam": adam(RATE, LARGEST),
    "guarded": guarded(optax.chain(optax.clip_by_global_norm(LARGEST), optax.adam(RATE))),
}


def gradients(count):
    rng = np.random.default_rng(0)
    size = 2.0 ** rng.integers(-3, 3, count)
    return [jax.tree.map(lambda x, s=s: x**3 - s * (x - 0.5), START) for s in size]


def descended(rule, steps):
    move = jax.jit(lambda *arguments: descend(rule, *arguments))
    at, state = START, rule.init(START)
    for gradient, finite in steps:
        at, state = move(gradient, state, at, jnp.array(finite))
    return at, state


def by_optax(steps):
    rule = optax.chain(optax.clip_by_global_norm(LARGEST), optax.adam(RATE))
    at, state = START, rule.init(START)
    with jax.numpy_dtype_promotion("standard"):
        for gradient in steps:
            updates, state = rule.update(gradient, state, at)
            at = optax.apply_updates(at, updates)
    return at


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_finite_gradients_are_followed_as_optax_does(rule):
    steps = gradients(20)
    norms = [float(optax.tree.norm(gradient)) for gradient in steps]
    assert min(norms) < LARGEST < max(norms)
    ours, _ = descended(RULES[rule], [(gradient, True) for gradient in steps])
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(by_optax(steps)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
@pytest.mark.parametrize("first", [True, False])
def test_a_step_that_is_not_finite_changes_nothing(rule, bad, first):
    steps = [(gradient, True) for gradient in gradients(3)]
    broken = (jax.tree.map(lambda x: x * bad, START), False)
    with_it = [broken, *steps] if first else [*steps, broken]
    for a, b in zip(
        jax.tree.leaves(descended(RULES[rule], with_it)),
        jax.tree.leaves(descended(RULES[rule], steps)),
        strict=True,
    ):
        assert a.tobytes() == b.tobytes()
