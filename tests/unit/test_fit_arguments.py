"""An argument of any type is accepted, or refused by its name."""

import inspect

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.cli.fitting import fit as command
from svidag.cli.run_directory import Request
from svidag.data import Dataset
from svidag.methods.fitting import check
from svidag.run.checkpoint import Checkpoint, resumable


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    "value", [np.zeros(2), [1, 2], b"a", {"a": 1}, object()], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize(
    "argument",
    ["mechanism", "graph_weights", "missing", "minutes", "seed", "workers", "bags", "coarsen"],
)
def test_values_of_a_wrong_type_are_refused_by_name(argument, value):
    with pytest.raises(ValueError, match=argument):
        check(**{argument: value})


def test_labels_of_columns_that_are_arrays_are_names_like_others():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((9, 2)))
    frame.columns = pd.Index([np.zeros(2), "b"], dtype=object)
    assert Dataset.from_any(frame).names == ("[0. 0.]", "b")
    frame.columns = pd.Index([pd.NaT, "b"], dtype=object)
    with pytest.raises(ValueError, match="blank column name at position 0"):
        svidag.fit(frame)


def test_a_fit_without_memory_says_what_to_do_and_where_it_goes_on(tmp_path):
    path = tmp_path / "checkpoint.npz"

    def run(checkpoint):
        with resumable(checkpoint):
            checkpoint.keep("chains", lambda: {"done": 3})
            raise MemoryError("Unable to allocate 3 GiB")

    with pytest.raises(MemoryError, match=r"ran out \(Unable to allocate 3 GiB\); use fewer .*npz"):
        run(Checkpoint(path, {}))
    with pytest.raises(MemoryError, match=r"fewer rows or columns$"):
        run(Checkpoint(None, {}))


def test_scales_that_cannot_be_computed_with_are_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((26, 2)) * [1e139, 1.0], columns=["huge", "b"])
    method = svidag.methods.OrderMCMC(units=2, sketch_units=2)
    problem = pytest.raises(ValueError, match=r"'huge' .*standardise=True")
    with pytest.warns(svidag.data.DataWarning, match="differ by a factor"), problem:
        svidag.fit(
            frame, method=method, mechanism="nonlinear", bags=None, standardise=False,
            progress=False,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "own"),
    [
        (check, set()),
        (svidag.SVIDAG, {"progress"}),  # an estimator is silent
        (Request, {"data"}),
        (command, {"data"}),
        (svidag.exact.posterior, {"mechanism"}),
    ],
)
def test_defaults_are_those_of_fit_wherever_they_stand_again(place, own):
    usual = {k: p.default for k, p in inspect.signature(svidag.fit).parameters.items()}
    found = {k: p.default for k, p in inspect.signature(place).parameters.items() if k not in own}
    shared = found.keys() & usual.keys()
    assert len(shared) >= 5
    assert {name: found[name] for name in shared} == {name: usual[name] for name in shared}
