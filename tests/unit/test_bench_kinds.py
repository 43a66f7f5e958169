"""Tables of several kinds and with lost cells, and labels of rows, as studies name them."""

from pathlib import Path

import pytest

from svidag.bench import methods
from svidag.bench.mixed_tables import KINDS, lose_cells, mixed
from svidag.bench.sources import sachs, synthetic
from svidag.bench.study import Study
from svidag.data import Dataset
from svidag.methods.registry import find_method
from svidag.prior import Prior

STUDY = Path(__file__).parents[2] / "studies" / "tables.toml"


def test_every_kind_is_there_and_read_as_what_it_is():
    example = mixed(m=5, edges=5, n=400, seed=3, replicate=0)
    assert sorted(Dataset.from_any(example.data).kinds) == sorted(KINDS)
    assert example.truth.to_numpy().sum() == 5
    again = mixed(m=5, edges=5, n=400, seed=3, replicate=7)
    assert again.data.equals(example.data)
    with pytest.raises(ValueError, match="kinds must be among"):
        mixed(m=5, edges=5, n=4, kinds=["text"], seed=0, replicate=0)


def test_causes_matter_and_others_do_not():
    strong = []
    for seed in range(6):
        example = mixed(
            m=2, edges=1, n=2000, kinds=["continuous", "binary"], seed=seed, replicate=0
        )
        strong.append(abs(example.data.corr().iloc[0, 1]))
    assert min(strong) > 0.15
    free = mixed(m=2, edges=0, n=2000, kinds=["continuous", "count"], seed=1, replicate=0)
    assert abs(free.data.corr().iloc[0, 1]) < 0.08


@pytest.mark.parametrize("lost", ["random", "given", "own"])
def test_cells_are_lost_as_said(lost):
    whole = synthetic(m=3, edges=2, n=4000, seed=2, replicate=0)
    gone = lose_cells(whole, 0.2, lost, seed=5).data.isna().to_numpy()
    assert abs(gone[:, 2].mean() - 0.2) < 0.02
    assert gone[:, 0].any() == (lost != "given")
    reason = whole.data["x1"] if lost == "given" else whole.data["x3"]
    high, low = (
        gone[side, 2].mean() for side in (reason > reason.median(), reason <= reason.median())
    )
    assert (high > 2 * low) == (lost != "random")
    with pytest.raises(ValueError, match="lost must be one of"):
        lose_cells(whole, 0.2, "badly", seed=5)


def test_a_study_names_the_labels_of_rows():
    example = synthetic(m=3, edges=2, n=200, batches=2, seed=1, replicate=0)
    chosen = find_method("exact")
    asked = {"method": chosen, "prior": Prior(), "seed": 0, "mechanism": "linear"}
    found = methods.by_fit(example, environments="batches", **asked)
    assert found.changes().shape[0] == 3
    with pytest.raises(ValueError, match="has no groups"):
        methods.by_fit(example, groups="groups", **asked)
    with pytest.raises(ValueError, match="environments must be one of"):
        methods.check_options("exact", {"environments": "batch"})


def test_folds_of_sachs_keep_their_conditions():
    example = sachs(folds=10, seed=0, replicate=2)
    assert example.conditions is not None
    assert len(example.conditions) == len(example.data)
    assert example.conditions.nunique() == 9


def test_the_study_can_be_read():
    study = Study.read(STUDY)
    assert {cell.content["data"]["source"] for cell in study.cells} == {
        "mixed",
        "synthetic",
        "sachs",
    }
