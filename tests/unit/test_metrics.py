"""Scores on hand-worked examples, at the boundary and against other implementations."""

import numpy as np
import pandas as pd
import pytest
from arrows import graph
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from svidag.graph import LimitError, members, random_dag
from svidag.metrics import (
    auroc,
    brier,
    calibration_band,
    evaluate,
    expected_calibration_error,
    f1,
    mec_coverage,
    mec_mass,
    reliability,
    shd,
)

# Truth 0 → 1 ← 2, whose CPDAG is itself. The three draws, with SHD at DAG level:
COLLIDER = graph(3, (0, 1), (2, 1))
CHAIN = graph(3, (0, 1), (1, 2))  # one edge reversed; CPDAG 0 – 1 – 2
SINGLE = graph(3, (0, 1))  # one edge missing; CPDAG 0 – 1
EMPTY = graph(3)
DRAWS = np.stack([COLLIDER, CHAIN, SINGLE, EMPTY])


def test_standard_dag_scores_by_hand():
    found = evaluate(DRAWS, COLLIDER)
    # p: 0→1 ¾, 2→1 ¼, 1→2 ¼, the other three 0; F1: 1, 1/2, 2/3, 0.
    assert found["e_shd"] == pytest.approx((0 + 1 + 1 + 2) / 4)
    assert found["e_f1"] == pytest.approx((1 + 1 / 2 + 2 / 3) / 4)
    assert found["brier"] == pytest.approx((1 / 16 + 9 / 16 + 1 / 16) / 6)
    # Eight (true, false) pairs: 0→1 wins four, 2→1 wins three and ties with 1→2.
    assert found["auroc"] == pytest.approx(7.5 / 8)


def test_reference_dag_scores_count_a_reversal_twice():
    found = evaluate(DRAWS, COLLIDER, convention="reference")
    assert found["e_shd"] == pytest.approx((0 + 2 + 1 + 2) / 4)
    standard = evaluate(DRAWS, COLLIDER)
    assert all(found[key] == standard[key] for key in ("e_f1", "brier", "auroc"))


def test_standard_cpdag_scores_by_hand():
    found = evaluate(DRAWS, COLLIDER, level="cpdag")
    # Marks: 0→1 ¾, 1→0 ½, 2→1 ½, 1→2 ¼, the other two 0.
    # CPDAG of the chain: both pairs re-marked; of the single edge: one re-marked, one missing.
    assert found["e_shd"] == pytest.approx((0 + 2 + 2 + 2) / 4)
    assert found["e_f1"] == pytest.approx((1 + 2 * 2 / (4 + 2) + 2 * 1 / (2 + 2)) / 4)
    assert found["brier"] == pytest.approx((1 / 16 + 1 / 4 + 1 / 4 + 1 / 16) / 6)
    # 0→1 wins four; 2→1 wins three and ties with 1→0.
    assert found["auroc"] == pytest.approx(7.5 / 8)


def test_reference_cpdag_scores_by_hand():
    found = evaluate(DRAWS, COLLIDER, level="cpdag", convention="reference")
    assert found["e_shd"] == pytest.approx((0 + 2 + 2 + 2) / 4)
    assert found["e_f1"] == pytest.approx((1 + 1 + 2 / 3) / 4)
    # Larger DAG frequency: {0,1} ¾, {1,2} ¼ (it is ½ by the sum), {0,2} 0.
    assert found["brier"] == pytest.approx((1 / 16 + 9 / 16) / 3)
    assert found["auroc"] == 1.0


def test_equivalent_draws_are_perfect_at_cpdag_level_only_in_the_standard_convention():
    chain = graph(4, (0, 1), (1, 2), (2, 3))
    draws = members(chain)
    perfect = {"brier": 0.0, "e_shd": 0.0, "e_f1": 1.0, "auroc": 1.0}
    assert evaluate(draws, chain, "cpdag") == perfect
    assert evaluate(draws, chain)["e_shd"] > 0
    assert evaluate(draws, chain, "cpdag", "reference")["brier"] > 0


@pytest.mark.parametrize("level", ["dag", "cpdag"])
@pytest.mark.parametrize("convention", ["standard", "reference"])
def test_weights_are_repetitions(level, convention):
    repeated = evaluate(DRAWS[[0, 0, 0, 1, 3]], COLLIDER, level, convention)
    weighted = evaluate(DRAWS, COLLIDER, level, convention, weights=[6, 2, 0, 2])
    assert weighted == pytest.approx(repeated)


def test_given_probabilities_replace_frequencies_in_brier_and_auroc():
    p = np.where(COLLIDER == 1, 0.9, 0.1)
    found = evaluate(DRAWS, COLLIDER, probabilities=p)
    assert found["brier"] == pytest.approx(0.01)
    assert found["auroc"] == 1.0
    assert found["e_shd"] == evaluate(DRAWS, COLLIDER)["e_shd"]
    skeleton = evaluate(DRAWS, COLLIDER, "cpdag", "reference", probabilities=p)
    assert skeleton["brier"] == pytest.approx(0.01)
    with pytest.raises(ValueError, match="probabilities are those of arrows"):
        evaluate(DRAWS, COLLIDER, "cpdag", probabilities=p)


def test_a_labelled_truth_is_put_into_the_order_of_the_draws():
    truth = pd.DataFrame(COLLIDER, index=list("abc"), columns=list("abc"))
    moved = truth.loc[list("cab"), list("cab")]
    assert evaluate(DRAWS, moved, names=("a", "b", "c")) == evaluate(DRAWS, COLLIDER)
    assert evaluate(DRAWS, truth) == evaluate(DRAWS, COLLIDER)
    with pytest.raises(ValueError, match="equal row and column labels"):
        evaluate(DRAWS, truth.loc[list("cab")])
    with pytest.raises(ValueError, match=r"differing: \['c', 'd'\]"):
        evaluate(DRAWS, truth, names=("a", "b", "d"))


@pytest.mark.parametrize("truth", [np.zeros((3, 3)), np.ones((3, 3)) - np.eye(3)])
def test_auroc_is_nan_where_it_is_undefined(truth):
    assert np.isnan(evaluate(DRAWS, truth)["auroc"])


def test_f1_is_zero_without_a_correct_edge():
    assert evaluate([EMPTY], EMPTY)["e_f1"] == 0.0
    assert evaluate([EMPTY], COLLIDER)["e_f1"] == 0.0
    assert evaluate([COLLIDER.T], COLLIDER)["e_f1"] == 0.0


TRIANGLE = graph(3, (0, 1), (1, 2), (2, 0))


def test_a_cyclic_truth_has_no_cpdag():
    assert evaluate(DRAWS, TRIANGLE)["e_shd"] > 0
    for convention, allowed in [("standard", False), ("standard", True), ("reference", False)]:
        with pytest.raises(ValueError, match="truth must be acyclic, but has the cycle 0 → 1 → 2"):
            evaluate(DRAWS, TRIANGLE, "cpdag", convention, allow_cyclic_truth=allowed)
    found = evaluate(DRAWS, TRIANGLE, "cpdag", "reference", allow_cyclic_truth=True)
    # The routine leaves 0 – 1 – 2 – 0: the collider lacks one pair and marks two otherwise.
    assert found["e_shd"] == pytest.approx((3 + 1 + 2 + 3) / 4)


@pytest.mark.parametrize("convention", ["standard", "reference"])
def test_a_cyclic_draw_has_no_cpdag(convention):
    assert evaluate([TRIANGLE], COLLIDER, "dag", convention)["e_shd"] > 0
    with pytest.raises(ValueError, match=r"draws\[1\] must be acyclic"):
        evaluate([COLLIDER, TRIANGLE], COLLIDER, "cpdag", convention)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"truth": np.zeros((4, 4))}, "truth must have the 3 variables of draws"),
        ({"draws": DRAWS[:0]}, "draws must hold at least one graph"),
        ({"draws": COLLIDER}, r"draws must have shape \[S, m, m\], got \[3, 3\]"),
        ({"weights": [1, 1]}, r"weights must have shape \[4\], got \[2\]"),
        ({"weights": [1, 1, 1, -1]}, "weights must be finite, not negative"),
        ({"weights": [0, 0, 0, 0]}, "not all zero"),
        ({"probabilities": np.zeros((2, 2))}, r"probabilities must have shape \[3, 3\]"),
        ({"probabilities": np.full((3, 3), 1.5)}, "must lie between 0 and 1, got 1.5"),
        ({"names": ("a", "b")}, "names has 2 entries, but draws have 3 variables"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**{"draws": DRAWS, "truth": COLLIDER} | change)


def test_distances_and_forecast_scores_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    truth = random_dag(12, 20, seed=0)
    draws = np.stack([random_dag(12, 5 * (k % 6), seed=k) for k in range(24)])
    expected = [f1_score(truth.ravel(), A.ravel(), zero_division=0.0) for A in draws]
    np.testing.assert_allclose(f1(draws, truth), expected, rtol=1e-12)
    p = rng.integers(0, 5, 200) / 4
    y = rng.random(200) < 0.3
    assert auroc(p, y) == pytest.approx(roc_auc_score(y, p))
    assert brier(p, y) == pytest.approx(brier_score_loss(y, p))


def test_shd_is_a_distance():
    draws = np.stack([random_dag(6, 7, seed=k) for k in range(15)])
    table = np.stack([shd(draws, A) for A in draws])
    assert (table == table.T).all()
    assert ((table == 0) == (draws[:, None] == draws).all(axis=(2, 3))).all()
    assert (table[:, None] <= table[:, :, None] + table[None]).all()


def test_mec_coverage_and_mass():
    chain = graph(5, *((k, k + 1) for k in range(4)))
    inside = members(chain)
    outside = graph(5, (0, 1))
    draws = np.stack([inside[0], inside[0], inside[3], outside])
    assert mec_coverage(draws, chain) == pytest.approx(2 / 5)
    assert mec_mass(draws, chain) == pytest.approx(3 / 4)
    assert mec_mass(draws, chain, weights=[1, 0, 0, 3]) == pytest.approx(1 / 4)
    assert mec_coverage(inside, chain) == 1.0
    assert mec_coverage([outside], chain) == 0.0


def test_mec_coverage_needs_no_list_of_a_large_class():
    complete = np.triu(np.ones((15, 15), dtype=np.uint8), 1)
    with pytest.raises(LimitError):
        members(complete)
    assert 0 < mec_coverage([complete, complete.T], complete) < 1e-11


def test_reliability_table_by_hand():
    table = reliability([0.0, 0.25, 0.25, 0.5, 1.0], [0, 0, 1, 1, 1], bins=4)
    np.testing.assert_allclose(table.edges, [0, 0.25, 0.5, 0.75, 1])
    assert table.count.tolist() == [1, 2, 1, 1]
    np.testing.assert_allclose(table.predicted, [0, 0.25, 0.5, 1])
    np.testing.assert_allclose(table.frequency, [0, 0.5, 1, 1])
    error = expected_calibration_error([0.0, 0.25, 0.25, 0.5, 1.0], [0, 0, 1, 1, 1], bins=4)
    assert error == pytest.approx((0 + 2 * 0.25 + 0.5 + 0) / 5)
    assert np.isnan(reliability([0.1], [0], bins=2).frequency[1])


def test_calibration_error_is_the_weighted_gap_of_the_table():
    rng = np.random.default_rng(1)
    p, y = rng.random(300), rng.random(300) < 0.4
    table = reliability(p, y, bins=7)
    gap = np.nansum(table.count * np.abs(table.predicted - table.frequency)) / 300
    assert expected_calibration_error(p, y, bins=7) == pytest.approx(gap)


def test_the_band_holds_perfect_forecasts_and_not_overconfident_ones():
    rng = np.random.default_rng(2)
    p = rng.beta(0.5, 0.5, 800)
    low, high = calibration_band(p, level=0.9, simulations=400)
    fresh = [expected_calibration_error(p, rng.random(800) < p) for _ in range(400)]
    # Binomial(400, 0.9): five standard deviations are 0.075.
    assert abs(np.mean([low <= error <= high for error in fresh]) - 0.9) < 0.075
    flat = rng.random(800) < 0.5 + 0.5 * (p - 0.5)
    assert expected_calibration_error(p, flat) > high


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([0.5], [2], "outcomes must be 1 values 0 or 1"),
        ([0.5, 0.5], [1], "outcomes must be 2 values"),
        ([1.2], [1], "probabilities must lie between 0 and 1, got 1.2"),
        ([np.nan], [1], "got nan"),
        ([], [], "must not be empty"),
    ],
)
def test_bad_forecasts_are_named(p, y, message):
    for score in (brier, auroc, expected_calibration_error, reliability):
        with pytest.raises(ValueError, match=message):
            score(p, y)


def test_bad_bins_and_level_are_named():
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        reliability([0.5], [1], bins=0)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 95"):
        calibration_band([0.5], level=95.0)
