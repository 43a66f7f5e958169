"""Any mechanism with family scores has flips through the cache."""

import numpy as np

from svidag.mechanisms.local import CachedScores
from svidag.mechanisms.wide import WideNetwork


def test_a_wide_network_has_flips_and_is_asked_once():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    model = WideNetwork.from_values(x, ("a", "b", "c"), units=20)
    cached = CachedScores(model)
    nodes, parents = np.array([2, 2]), np.array([[True, False, False], [False, False, False]])
    free = np.array([[True, True, False]] * 2)
    scores, delta = cached.flips(nodes, parents, free)
    with_both, with_b, alone = model.family_scores(
        np.full(3, 2), np.array([[True, True, False], [False, True, False], [False, False, False]])
    )
    np.testing.assert_allclose(scores[1], alone)
    np.testing.assert_allclose(delta[0], [scores[0] - alone, with_both - scores[0], 0.0])
    np.testing.assert_allclose(delta[1], [scores[0] - alone, with_b - alone, 0.0])
    assert len(cached) == 4
