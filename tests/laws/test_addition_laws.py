"""The Gaussian model that says which additions to a parent set a network need not look at."""

import numpy as np
import pytest

from svidag.mechanisms.flexible_screen import likelihood_ratios
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores
from svidag.mechanisms.wide import WideNetwork
from svidag.prior import Prior
from svidag.scores import Weigher

M = 8


def table():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, M))
    x[:, 1] += np.abs(x[:, 0]) + x[:, 2]
    x[:, 5] += np.maximum(0, x[:, 1])
    intervened = rng.random(x.shape) < 0.1
    intervened[:, 3:] = False
    return x, intervened


def families(count=20):
    rng = np.random.default_rng(1)
    nodes = rng.integers(M, size=count)
    parents = rng.random((count, M)) < 0.3
    parents[np.arange(count), nodes] = False
    return nodes, parents


@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_the_ratio_of_an_addition_is_that_of_the_larger_set(kind):
    x, intervened = table()
    if kind == "linear":
        blocks = GaussianBlocks.linear(LinearGaussian.from_values(x, intervened))
    else:
        blocks = GaussianBlocks.additive(x, intervened)
    nodes, parents = families()
    ratios = blocks.addition_ratios(nodes, parents)
    for row, i in np.argwhere(~parents):
        if i == nodes[row]:
            continue
        larger = parents[[row]].copy()
        larger[0, i] = True
        expected = likelihood_ratios(blocks, nodes[[row]], larger)[0, i]
        assert ratios[row, i] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_only_likely_additions_are_scored_and_every_removal():
    x, intervened = table()
    blocks, prior = GaussianBlocks.additive(x, intervened), Prior().bind("abcdefgh")
    scores = CachedScores(WideNetwork.from_values(x, tuple("abcdefgh"), intervened, units=8))
    nodes, parents = families()

    def likely(nodes, parents):
        return blocks.addition_ratios(nodes, parents) >= 4.0

    some = Weigher(scores, prior, likely).weigh_changes(nodes, parents)
    scored = np.isfinite(some)
    assert scored[parents].all()
    assert 0.05 < scored[~parents].mean() < 0.6
    everything = Weigher(scores, prior).weigh_changes(nodes, parents)
    assert np.array_equal(some[scored], everything[scored])
    # What is not scored would have gained nothing.
    passed_over = np.isfinite(everything) & ~scored
    assert everything[passed_over].max() < 0
