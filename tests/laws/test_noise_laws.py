"""Hashed counts are as good as random: uniform bits, independent between cells, keys and shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from svidag.kernels import noise
from svidag.kernels.elementary import normal_quantile

KEYS = [jax.random.key(0), jax.random.key(1), jax.random.fold_in(jax.random.key(0), 1)]


@pytest.mark.parametrize("key", KEYS)
def test_every_bit_is_fair_and_no_word_repeats(key):
    words = np.asarray(noise.words(key, (2**18,)))
    assert len(np.unique(words)) == len(words)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    # 32 bits and their 496 pairs at five standard errors: fails by chance once in 3000.
    centred = 2.0 * bits - 1
    moments = centred.T @ centred / len(words)
    assert np.abs(centred.mean(axis=0)).max() < 5 / len(words) ** 0.5
    assert np.abs(moments - np.eye(32)).max() < 5 / len(words) ** 0.5


def test_neighbouring_counts_and_keys_are_uncorrelated():
    keys = noise.split(jax.random.key(3), 200)
    drawn = np.asarray(jax.vmap(lambda key: noise.normal(key, (200,)))(keys))
    for correlation in (np.corrcoef(drawn), np.corrcoef(drawn.T)):
        # 19 900 pairs at 5.5 standard errors: fails by chance once in a thousand.
        assert np.abs(correlation - np.eye(200)).max() < 5.5 / 200**0.5
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(("draw", "distribution"), [("normal", "norm"), ("logistic", "logistic")])
def test_numbers_follow_their_law(draw, distribution):
    drawn = np.asarray(getattr(noise, draw)(jax.random.key(4), (50, 4000))).ravel()
    assert np.isfinite(drawn).all()
    assert scipy.stats.kstest(drawn, distribution).pvalue > 1e-4


def test_extreme_words_stay_finite():
    extremes = np.asarray(noise._between(jnp.array([0, 2**32 - 1], jnp.uint32)))
    assert -1 < extremes[0] == -extremes[1]
    assert np.isfinite(np.asarray(normal_quantile(jnp.asarray(extremes)))).all()


def test_integers_are_uniform():
    drawn = np.asarray(noise.integers(jax.random.key(5), (100, 700), 7))
    assert scipy.stats.chisquare(np.bincount(drawn.ravel(), minlength=7)).pvalue > 1e-4
