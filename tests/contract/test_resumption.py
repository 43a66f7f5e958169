"""Fits that were cut off go on to the same numbers."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.io.archive import read, read_manifest
from svidag.io.tree import decode
from svidag.methods import order_sampling
from svidag.run.checkpoint import FORMAT, Interrupted
from svidag.run.progress import Meter
from svidag.scores import compute_shares

sys.path.insert(0, str(Path(__file__).parent))

import choices

from interruption import kill_and_run_again

pytestmark = pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps

TABLE = {
    "mechanism": "linear", "exact": False, "chains": 2, "orders": 200,
    "check_every": 50, "agreement": 0,
}  # fmt: skip
GUIDE = {
    "mechanism": "linear", "method": "svi-dag", "guide": "mean-field", "chains": 2,
    "iterations": 12, "covering": 6, "copies": 2, "rounds": 12,
    "check_every": 4, "sweeps": 4, "agreement": 0,
}  # fmt: skip
FITS = {
    "table": TABLE,
    "sketched table": {**TABLE, "mechanism": "nonlinear", "units": 12, "sketch_units": 6},
    "grown table": TABLE,
    "small grown table": {**TABLE, "rounds": 9, "search_sweeps": 1},
    "guide": GUIDE,
    "guide and cache": {**GUIDE, "mechanism": "nonlinear", "units": 6},
}
PRIOR = svidag.Prior(p=0.3, required=[("b", "a")])


def table(n=320):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 5))
    x[:, 1] += 0.6 * x[:, 0]
    x[:, 3] += 0.5 * x[:, 1] - 0.5 * x[:, 2]
    return pd.DataFrame(x, columns=list("abcde"))


class Impatient(Meter):
    """Interrupts in a stage, at its n-th update."""

    def __init__(self, stage, at):
        self.stage, self.left = stage, at

    def open(self, title, done, total):
        self.title = title

    def update(self, done, metrics):
        if self.stage in self.title:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def close(self):
        pass


def fit(settings, **arguments):
    chosen = {"prior": PRIOR, "seed": 3, **settings, **arguments}
    return choices.fit(table(), **chosen)


def grow_tables(monkeypatch):
    """Tables grow as those of many variables do, though all parent sets would fit."""
    monkeypatch.setattr(order_sampling, "list_all_sets", lambda grower, report: None)


def same(one, two):
    return (
        one.edge_probabilities().equals(two.edge_probabilities())
        and (one.sample(100) == two.sample(100)).all()
    )


@pytest.fixture(scope="module")
def straight():
    """Fits that nobody interrupts, each made once."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = fit(FITS[name])
        return made[name]

    return make


@pytest.mark.parametrize(
    ("name", "stage", "at"),
    [
        ("table", "burn-in", 3),
        ("table", "moving", 230),
        ("grown table", "looking for parents", 2),
        ("grown table", "burn-in", 3),
        ("grown table", "moving", 230),
        ("small grown table", "looking for parents", 1),
        ("small grown table", "looking for parents", 2),
        ("sketched table", "looking for parents", 3),
        ("sketched table", "moving", 230),
        ("sketched table", "searching once more", 1),
        ("guide", "training", 5),
        ("guide", "moving", 6),
        ("guide and cache", "training", 5),
        ("guide and cache", "moving", 6),
    ],
)
def test_an_interrupted_fit_resumes_to_identical_results(
    tmp_path, monkeypatch, straight, name, stage, at
):
    if "grown" in name:
        grow_tables(monkeypatch)
    path = tmp_path / "fit.npz"
    with pytest.raises(Interrupted, match=r"saved in .*fit\.npz.*goes on"):
        fit(FITS[name], checkpoint=path, progress=Impatient(stage, at))
    resumed = fit(FITS[name], checkpoint=path)
    assert same(resumed, straight(name))
    again = fit(FITS[name], checkpoint=path)  # finished: nothing left to do
    assert same(again, straight(name))


def test_an_interruption_before_anything_is_known_leaves_no_file(tmp_path, straight):
    path = tmp_path / "fit.npz"
    with pytest.raises(Interrupted, match="before there was anything to save"):
        fit(TABLE, checkpoint=path, progress=Impatient("searching orders", 1))
    assert not path.exists()
    assert same(fit(TABLE, checkpoint=path), straight("table"))


def test_a_fit_resumes_while_it_repairs_its_tables(tmp_path, monkeypatch):
    """Chains that begin again, because something was found outside, are cut off too."""
    grow_tables(monkeypatch)
    cut = order_sampling.join_halves

    def lacking(grower, halves):
        made = cut(grower, halves)
        has = (made.sets.nodes == 3) & made.sets.parents()[:, 1]
        sets = made.sets.chosen(np.flatnonzero(~has))
        drawn = np.concatenate([half.drawn for half in halves])
        scores, _ = grower.build_tables(sets, compute_shares(sets, drawn))
        return dataclasses.replace(made, sets=sets, scores=scores)

    monkeypatch.setattr(order_sampling, "join_halves", lacking)
    whole = fit(TABLE)
    assert whole.diagnostics.details.searched_again > 1
    path = tmp_path / "fit.npz"
    with pytest.raises(Interrupted):
        fit(TABLE, checkpoint=path, progress=Impatient("moving", 400 + 130))
    manifest, arrays = read(path, FORMAT)
    assert decode(manifest["state"], arrays)["tables"].fresh_searches == 1
    monkeypatch.setattr(order_sampling, "join_halves", None)  # made already
    resumed = fit(TABLE, checkpoint=path)
    assert same(resumed, whole)
    assert resumed.diagnostics.details.searched_again == whole.diagnostics.details.searched_again


def test_another_fit_is_refused_by_name(tmp_path):
    path = tmp_path / "fit.npz"
    fit(TABLE, checkpoint=path)
    with pytest.raises(ValueError, match=r"another fit \(orders: 200 there, 300 now\)"):
        fit({**TABLE, "orders": 300}, checkpoint=path)
    with pytest.raises(ValueError, match=r"another fit.*seed: 3 there, 4 now"):
        fit(TABLE, seed=4, checkpoint=path)


def test_interruption_without_a_checkpoint_says_what_to_do():
    with pytest.raises(Interrupted, match="checkpoint=PATH"):
        fit(TABLE, progress=Impatient("moving", 2))


KILLED = """
import sys, numpy as np
sys.path[:0] = {tests}
import interruption, test_resumption as t
end = interruption.KillOnce(sys.argv[1], t.moving)
found = t.fit(t.TABLE, checkpoint=sys.argv[1], progress=end)
np.savez(sys.argv[2], edges=found.edge_probabilities(), draws=found.sample(100))
"""


def test_a_killed_fit_resumes_to_identical_results(tmp_path, straight):
    checkpoint, result = tmp_path / "fit.npz", tmp_path / "result.npz"
    code = KILLED.format(tests=[str(folder) for folder in Path(__file__).parents[:2]])
    kill_and_run_again(code, checkpoint, result)
    found, whole = np.load(result), straight("table")
    assert (found["edges"] == whole.edge_probabilities().to_numpy()).all()
    assert (found["draws"] == whole.sample(100)).all()


def moving(checkpoint):
    """Whether a fit has begun to collect orders."""
    return checkpoint.exists() and read_manifest(checkpoint, FORMAT)["stage"] == "chains"
