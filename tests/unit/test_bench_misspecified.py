"""Sure arrows are counted right, and the baseline points its arrows as we do."""

import builtins
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.bench import plots
from svidag.bench.lingam import direct_lingam
from svidag.bench.measures import MEASURES, sureness
from svidag.bench.study import Study
from svidag.bench.tables import markdown, tables
from svidag.datasets import Example, synthetic
from svidag.datasets.example import labelled

pytestmark = pytest.mark.slow  # runs whole fits

STUDY = Path(__file__).parents[2] / "studies" / "misspecified.toml"
FORECASTS = [
    [{"probability": [0.96, 0.97, 0.99, 0.1], "outcome": [1, 0, 0, 0]}],
    [{"probability": [1.0, 0.5, 0.95, 0.0], "outcome": [1, 1, 1, 0]}],
]


def test_sure_arrows_are_counted_over_all_replicates():
    (found,) = sureness(FORECASTS)
    assert (found["sure"], found["sure_wrong"], found["true_arrows"]) == (4, 2, 4)
    assert found["wrong_share"] == 0.5  # not 1/3, the mean of 2/3 and 0
    assert found["count"] == 2


def test_the_absolute_error_is_a_sum_per_graph_with_its_standard_error():
    (found,) = sureness(FORECASTS)
    first, second = 0.04 + 0.97 + 0.99 + 0.1, 0.5 + 0.05
    assert found["absolute_error"] == pytest.approx((first + second) / 2)
    assert found["absolute_error_se"] == pytest.approx((first - second) / 2)


def test_calibration_error_and_brier_score_are_of_all_forecasts_together():
    (found,) = sureness(FORECASTS)
    # Bins: 0.0 alone; 0.1 alone; 0.5 alone; the five from 0.9 on.
    top = abs(0.96 + 0.97 + 0.99 + 1.0 + 0.95 - 3)
    assert found["ece"] == pytest.approx((0.0 + 0.1 + 0.5 + top) / 8)
    squares = [0.04**2, 0.97**2, 0.99**2, 0.1**2, 0.0, 0.5**2, 0.05**2, 0.0]
    assert found["brier"] == pytest.approx(np.mean(squares))
    (calibrated,) = MEASURES["forecasts"].summarise(FORECASTS)
    assert (found["ece"], found["brier"]) == (calibrated["ece"], calibrated["brier"])


def test_without_sure_arrows_no_share_of_them_is_wrong():
    (found,) = sureness([[{"probability": [0.95, 0.2], "outcome": [1, 0]}]])
    assert (found["sure"], found["sure_wrong"]) == (0, 0)
    assert "wrong_share" not in found


def row(cell, forecast):
    return {
        "digest": cell.digest,
        "metrics": {"sureness": forecast},
        "seconds": {"fit": 1.0, "total": 2.0},
    }


def test_the_table_shows_sure_arrows_beside_true_ones_and_the_curve_is_drawn(tmp_path):
    text = STUDY.read_text().replace('["sureness", "scores"]', '["sureness"]')
    path = tmp_path / "misspecified.toml"
    path.write_text(text)
    study = Study.read(path)
    cells = study.select("t default")[:2]
    rows = {cell.digest: row(cell, f) for cell, f in zip(cells, FORECASTS, strict=True)}
    table, _ = tables(study, rows, tmp_path)
    head, _, line = markdown(table).splitlines()
    words = [word.strip() for word in head.split("|")]
    values = dict(zip(words, (word.strip() for word in line.split("|")), strict=True))
    assert (values["true arrows"], values["sure arrows"], values["of them wrong"]) == (
        "4",
        "4",
        "2",
    )
    assert values["wrong, %"] == "50.0"
    assert values["replicates"] == "2 of 10"
    drawn = plots.plot(study, rows, tmp_path, tmp_path / "plots")
    assert [path.name for path in drawn] == ["reliability.png", "reliability.svg"]


def test_the_study_breaks_every_assumption_ten_times_at_one_size():
    study = Study.read(STUDY)
    kinds = {cell.labels["data"] for cell in study.cells}
    assert len(kinds) == 14
    for cell in study.cells:
        assert (cell.data["m"], cell.data["edges"], cell.data["n"]) == (10, 15, 2000)
    default = [cell for cell in study.cells if cell.labels["method"] == "default"]
    assert len(default) == 10 * len(kinds)


def pair(reverse):
    """Two columns with skewed noise, the first causing the second unless reversed."""
    rng = np.random.default_rng(0)
    cause = np.exp(rng.standard_normal(1000))
    effect = 0.8 * cause + np.exp(rng.standard_normal(1000))
    columns = [effect, cause] if reverse else [cause, effect]
    A = np.array([[0, 0], [1, 0]] if reverse else [[0, 1], [0, 0]], dtype=np.uint8)
    data = pd.DataFrame(np.column_stack(columns), columns=["a", "b"])
    return Example(data, labelled(A, ["a", "b"]), None, "a pair")


@pytest.mark.parametrize("reverse", [False, True])
def test_lingam_finds_the_direction_of_a_lognormal_pair(reverse):
    example = pair(reverse)
    posterior = direct_lingam(example, prior=svidag.Prior(), seed=0, resamples=5)
    pd.testing.assert_frame_equal(
        posterior.edge_probabilities(), example.truth.astype(float), check_names=True
    )


def test_lingam_gives_shares_of_resamples_that_the_seed_decides():
    example = synthetic(4, 4, 60, seed=1)
    one, same, other = (
        direct_lingam(example, prior=svidag.Prior(), seed=seed, resamples=8).edge_probabilities()
        for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)
    np.testing.assert_allclose(one * 8, (one * 8).round(), atol=1e-9)


def test_lingam_leaves_the_global_random_state_alone():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    direct_lingam(pair(False), prior=svidag.Prior(), seed=0, resamples=2)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_lingam_refuses_what_it_cannot_use(monkeypatch):
    example = synthetic(3, 2, 30, seed=1, interventions=0.5)
    with pytest.raises(ValueError, match="cannot use interventions"):
        direct_lingam(example, prior=svidag.Prior(), seed=0)
    with pytest.raises(ValueError, match="cannot use a prior"):
        direct_lingam(pair(False), prior=svidag.Prior(p=0.3), seed=0)
    with pytest.raises(ValueError, match="resamples must be at least 1, got 0"):
        direct_lingam(pair(False), prior=svidag.Prior(), seed=0, resamples=0)
    own = builtins.__import__

    def missing(name, *rest, **more):
        if name == "lingam":
            raise ImportError(name)
        return own(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'svidag\[studies\]'"):
        direct_lingam(pair(False), prior=svidag.Prior(), seed=0)
