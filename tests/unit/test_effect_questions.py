"""What `Posterior.effect` and `Posterior.do` refuse, and how they answer."""

import json

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.effects import Effect
from svidag.posterior import DrawnGraphs, Posterior

NAMES = ("smoke", "tar", "cancer")
BAD_NUMBERS = [float("nan"), float("inf"), "1", None, True, np.bool_(False), [1.0], 1j, 10**400]


@pytest.fixture(scope="module")
def posterior():
    x = np.random.default_rng(0).standard_normal((60, 3))
    x[:, 1] += x[:, 0]
    return svidag.exact.posterior(pd.DataFrame(x, columns=list(NAMES)))


def known(draws, structure, **settings):
    given = {"simulation_error": 0.0, **settings}
    return Effect("a", "b", 1.0, 0.0, {}, 0.5, np.array(draws), np.array(structure), **given)


def test_figures_follow_from_the_draws():
    effect = known([[0.0, 0.0], [1.0, 3.0], [1.0, 3.0], [-4.0, -4.0]], [0, 1, 1, 2])
    assert effect.mean == 0.0
    assert effect.probability_zero == 0.25
    assert effect.probability_positive == 0.5
    assert effect.probability_negative == 0.25
    assert effect.interval == (-1.0, 1.5)
    within = 0.5 * np.var([1, 3, 1, 3], ddof=1)
    between = 0.25 * 0 + 0.5 * 4 + 0.25 * 16 - 0.25 * np.var([1, 3, 1, 3], ddof=1) / 4
    assert effect.parametric_sd == pytest.approx(np.sqrt(within))
    assert effect.structural_sd == pytest.approx(np.sqrt(between))
    assert effect.sd == pytest.approx(np.sqrt(within + between))


def test_simulation_is_taken_out_of_the_parametric_spread():
    draws, structure = [[1.0, 3.0], [3.0, 1.0]], [1, 1]
    raw = known(draws, structure).parametric_sd
    assert known(draws, structure, simulation_error=0.5).parametric_sd == pytest.approx(
        np.sqrt(raw**2 - 0.25)
    )
    assert known(draws, structure).structural_sd == 0.0
    assert known(draws, structure, simulation_error=5.0).parametric_sd == 0.0


def test_an_effect_is_plain_data_and_readable(posterior):
    effect = posterior.effect("smoke", "tar", n=100, holding={"cancer": 1})
    plain = json.loads(json.dumps(effect.to_dict()))
    assert plain["cause"] == "smoke"
    assert plain["holding"] == {"cancer": 1.0}
    assert plain["interval"] == list(effect.interval)
    assert plain["mean"] == effect.mean
    assert all(np.isfinite(v) for v in plain.values() if isinstance(v, float))
    text = repr(effect)
    assert text.startswith("Effect on tar of smoke = ")
    assert "cancer = 1" in text
    assert f"{effect.mean:.4g}" in text


def test_same_seed_same_answer(posterior):
    one = posterior.effect("smoke", "tar", n=50, seed=1)
    assert (one.draws == posterior.effect("smoke", "tar", n=50, seed=1).draws).all()
    assert (one.draws != posterior.effect("smoke", "tar", n=50, seed=2).draws).any()
    rows = posterior.do({"tar": 1.0}, n=20, seed=1)
    assert rows.equals(posterior.do({"tar": 1.0}, n=20, seed=1))
    assert list(rows.columns) == list(NAMES)


def test_names_are_checked_and_near_ones_suggested(posterior):
    with pytest.raises(ValueError, match=r"cause is 'Smoke', .* nearest column is 'smoke'"):
        posterior.effect("Smoke", "tar")
    with pytest.raises(ValueError, match=r"effect is 'cancre', .* nearest column is 'cancer'"):
        posterior.effect("smoke", "cancre")
    with pytest.raises(ValueError, match=r"in do is 'tart', .* nearest column is 'tar'"):
        posterior.do({"tart": 1.0})
    with pytest.raises(ValueError, match="in holding is 'tart'"):
        posterior.effect("smoke", "cancer", holding={"tart": 1.0})


def test_a_variable_has_no_effect_on_itself_or_on_what_is_held(posterior):
    with pytest.raises(ValueError, match="same variable, 'tar'"):
        posterior.effect("tar", "tar")
    with pytest.raises(ValueError, match="'cancer', which is the effect"):
        posterior.effect("tar", "cancer", holding={"cancer": 1.0})
    with pytest.raises(ValueError, match="'tar', which is the cause"):
        posterior.effect("tar", "cancer", holding={"tar": 1.0})


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda value: repr(value)[:8])
def test_impossible_values_are_refused(posterior, value):
    with pytest.raises(ValueError, match="do of 'tar' must be a finite number"):
        posterior.do({"tar": value})
    with pytest.raises(ValueError, match="change must be a finite number"):
        posterior.effect("smoke", "tar", change=value)
    with pytest.raises(ValueError, match="holding 'cancer' must be a finite number"):
        posterior.effect("smoke", "tar", holding={"cancer": value})
    if value is not None:
        with pytest.raises(ValueError, match="at must be a finite number"):
            posterior.effect("smoke", "tar", at=value)


def test_questions_without_content_are_refused(posterior):
    with pytest.raises(ValueError, match="change must not be 0"):
        posterior.effect("smoke", "tar", change=0)
    with pytest.raises(ValueError, match="do is empty"):
        posterior.do({})
    with pytest.raises(ValueError, match="do must map variables to values"):
        posterior.do("tar")
    with pytest.raises(ValueError, match="holding must map variables to values"):
        posterior.effect("smoke", "tar", holding=["cancer"])
    with pytest.raises(ValueError, match="n must be at least 2"):
        posterior.effect("smoke", "tar", n=1)
    with pytest.raises(ValueError, match="positive whole number"):
        posterior.do({"tar": 1.0}, n=0)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            posterior.effect("smoke", "tar", level=level)


def test_graphs_alone_cannot_say():
    graphs = DrawnGraphs(np.zeros((1, 3, 3), dtype=np.uint8), np.ones(1))
    for question in (lambda p: p.effect("smoke", "tar"), lambda p: p.do({"tar": 1.0})):
        with pytest.raises(ValueError, match="no mechanisms"):
            question(Posterior(NAMES, graphs))


def test_a_posterior_without_its_data_must_be_told_where_to_start(posterior):
    bare = Posterior(NAMES, posterior.graphs, posterior.mechanisms)
    with pytest.raises(ValueError, match="at must be given"):
        bare.effect("smoke", "tar")
    assert (
        bare.effect("smoke", "tar", at=0, n=20).mean == posterior.effect("smoke", "tar", n=20).mean
    )


def test_a_variable_that_was_always_set_from_outside_has_no_known_causes():
    x = np.random.default_rng(0).standard_normal((30, 3))
    mask = np.zeros(x.shape, dtype=bool)
    mask[:, 1] = True
    posterior = svidag.exact.posterior(svidag.Dataset.from_any(x, names=NAMES, interventions=mask))
    with pytest.raises(ValueError, match="'tar' was set from outside in every row"):
        posterior.effect("smoke", "tar")
    assert posterior.effect("tar", "smoke", n=10).draws.shape == (10, 2)


def test_far_outside_the_observed_values_the_answer_warns(posterior):
    scaling, z = posterior.problem.scaling, posterior.problem.data.values
    low, high = scaling.invert(z.min(axis=0))[1], scaling.invert(z.max(axis=0))[1]
    reach = high - low
    message = rf"'tar' = .* is far outside the observed values, {low:.4g} to {high:.4g}: "
    for value in (high + 0.2 * reach, low - 0.2 * reach):
        with pytest.warns(svidag.ExtrapolationWarning, match=message):
            posterior.do({"tar": value}, n=2)
        with pytest.warns(svidag.DataWarning, match=message):
            found = posterior.effect("smoke", "cancer", n=2, holding={"tar": value})
        assert found.cautions[0] in repr(found)
    with pytest.warns(svidag.ExtrapolationWarning, match=message) as seen:
        found = posterior.effect("tar", "cancer", n=2, at=high, change=2 * reach)
    assert len(seen) == 1
    assert found.to_dict()["cautions"] == [str(seen[0].message)]
    with pytest.warns(svidag.ExtrapolationWarning, match=message) as seen:
        posterior.effect("tar", "cancer", n=2, at=high + reach, change=-reach)
    assert f"{high + reach:g}" in str(seen[0].message)


def test_near_the_observed_values_nobody_warns(posterior):
    z, scaling = posterior.problem.data.values, posterior.problem.scaling
    high, low = scaling.invert(z.max(axis=0))[1], scaling.invert(z.min(axis=0))[1]
    posterior.do({"tar": high + 0.05 * (high - low)}, n=2)
    assert posterior.effect("tar", "cancer", n=2, at=low, change=high - low).cautions == ()


def test_values_set_from_outside_were_observed_too():
    x = np.random.default_rng(0).standard_normal((30, 2))
    mask = np.zeros(x.shape, dtype=bool)
    x[:5, 0], mask[:5, 0] = 50.0, True
    for standardise in (True, False):
        posterior = svidag.exact.posterior(x, interventions=mask, standardise=standardise)
        posterior.do({"x1": 50.0}, n=2)
