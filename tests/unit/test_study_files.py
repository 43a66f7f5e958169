"""A study file becomes cells; whatever is wrong with it is named with its key and line."""

import dataclasses
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from svidag.bench import sources
from svidag.bench.cell import Cell, compute
from svidag.bench.schema import StudyError
from svidag.bench.study import Study
from svidag.datasets import content_seed, synthetic

STUDIES = Path(__file__).parents[2] / "studies"
GOOD = """\
replicates = [3, 5]
draws = 100

[data.small]
source = "synthetic"
m = 4
edges = 3
n = [50, 100]

[method.exact]
method = "exact"

[method.paper]
method = "svi-dag-published"
hidden = [[8, 8], [16]]

[prior.sparse]
p = 0.1
required = [["x1", "x2"]]

[[cells]]
data = "small"
method = "exact"
prior = "sparse"

[[cells]]
data = "small"
method = "paper"
replicates = 1
measures = ["mec"]

[quick]
replicates = 1
data.small.n = 50
skip = ["paper"]
"""


PAPER = 'method = "svi-dag-published"'


def read(tmp_path, text, **options):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return Study.read(path, **options)


def test_lists_of_options_and_replicates_multiply(tmp_path):
    names = [cell.name for cell in read(tmp_path, GOOD).cells]
    assert names == [
        "small n=50 exact sparse #3",
        "small n=50 exact sparse #5",
        "small n=100 exact sparse #3",
        "small n=100 exact sparse #5",
        "small n=50 paper hidden=[8, 8] #0",
        "small n=50 paper hidden=[16] #0",
        "small n=100 paper hidden=[8, 8] #0",
        "small n=100 paper hidden=[16] #0",
    ]


def test_a_cell_holds_what_the_file_says(tmp_path):
    first, *_, last = read(tmp_path, GOOD).cells
    assert first.data == {"source": "synthetic", "m": 4, "edges": 3, "n": 50}
    assert first.prior == {"p": 0.1, "required": [["x1", "x2"]]}
    assert (first.draws, first.measures, first.replicate) == (100, ("scores",), 3)
    assert last.method == {"method": "svi-dag-published", "hidden": [16]}
    assert last.measures == ("mec",)


def test_an_entry_that_names_no_method_has_the_default_one(tmp_path):
    text = GOOD.replace(f"{PAPER}\nhidden = [[8, 8], [16]]", 'mechanism = "linear"\nchains = 2')
    last = read(tmp_path, text).cells[-1]
    assert last.method == {"method": "order-mcmc", "mechanism": "linear", "chains": 2}


def test_the_quick_size_changes_and_skips(tmp_path):
    quick = read(tmp_path, GOOD, quick=True)
    assert [cell.name for cell in quick.cells] == ["small exact sparse #0"]


def test_a_pattern_selects_by_part_of_the_name_or_by_wildcards(tmp_path):
    study = read(tmp_path, GOOD)
    assert len(study.select("n=100 exact")) == 2
    assert study.select("n=10") == ()  # words, not parts of words
    assert len(study.select("*#5")) == 2
    assert study.select("nothing") == ()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("draws = 100", "drawz = 100", "line 2: drawz is not a known key; did you mean 'draws'"),
        ("draws = 100", "draws = '9'", "line 2: draws must be a whole number, got '9'"),
        ("draws = 100", "draws = 0", "line 2: draws must be at least 1, got 0"),
        ("draws = 100", "draws = 100\ndraws = 1", "Cannot overwrite a value \\(at line 3"),
        ("[3, 5]", "[3, 3]", "line 1: replicates lists 3 twice"),
        ("[3, 5]", "'all'", "line 1: replicates must be a positive whole number or a list"),
        ("edges = 3", "edgez = 3", "line 4: data.small.edges is missing: the source 'synthetic'"),
        ("m = 4", "m = 4\nmm = 2", "line 7: data.small.mm is not a known key"),
        ("m = 4", 'm = "4"', "line 6: data.small.m must be a whole number, got '4'"),
        ("n = [50, 100]", "n = [50, 1.5]", "line 8: data.small.n must be a whole number, got 1.5"),
        (
            "n = [50",
            'seed = "{k}"\nn = [50',
            "data.small.seed may only refer",
        ),
        ("n = [50", 'seed = "{kind}"\nn = [50', "data.small.seed may only refer"),
        ("n = [50", 'seed = "{m.x}"\nn = [50', "line 8: data.small.seed may only refer"),
        ("n = [50, 100]", "n = []", "line 8: data.small.n is an empty list"),
        ("m = 4", "m = 2026-01-01", "line 6: data.small.m must be text, a number"),
        ('"synthetic"', '"syntetic"', "line 5: data.small.source cannot be used: unknown data"),
        ('"synthetic"', '"no.such:thing"', "cannot load the data source 'no.such:thing'"),
        ('method = "exact"', 'method = "exakt"', "line 11: method.exact.method cannot be used"),
        (PAPER, "method = 3", "line 14: method.paper.method must be text, got 3"),
        (PAPER, 'method = "svi-dag-publishd"', "line 14: method.paper.method .* did you mean"),
        (PAPER, 'mechansm = "linear"', "line 14: method.paper.mechansm .* unknown setting"),
        (
            PAPER,
            f'{PAPER}\nmechanism = "lineer"',
            "line 15: method.paper.mechanism .*; got 'lineer'",
        ),
        (PAPER, f"{PAPER}\niterations = 0", "line 15: .*iterations must be at least 1; got 0"),
        (PAPER, f'{PAPER}\nstandardise = "no"', "line 15: .*standardise must be true or false"),
        (PAPER, f'{PAPER}\ngraph_weights = "x"', "line 15: .*graph_weights must be one of"),
        (PAPER, f'{PAPER}\npreset = "paper"', "line 15: .*preset .* unknown setting 'preset'"),
        ("[[8, 8], [16]]", "[[8, 8], [0]]", "line 15: .*hidden must be at least 1; got 0"),
        ('method = "exact"', 'chains = "many"', "line 11: .*chains must be a whole number"),
        ('method = "exact"', 'method = "exact"\nunit = 3', "line 12: method.exact.unit cannot"),
        ("p = 0.1", "p = 2", "line 17: prior.sparse is not a valid prior: p must be"),
        ('prior = "sparse"', 'prior = "spars"', "line 24: cells.prior names 'spars', .*'sparse'"),
        ('"mec"', '"mek"', "line 30: cells.measures cannot be used: unknown measure 'mek'"),
        ("replicates = 1\nmeas", "replicate = 1\nmeas", "line 29: cells.replicate is not a known"),
        ("replicates = 1\nmeas", "replicates = 0\nmeas", "line 29: cells.replicates must be a pos"),
        ("data.small.n = 50", "data.smal.n = 50", "quick.data.smal changes data.smal, which"),
        ('skip = ["paper"]', 'skip = ["papr"]', "line 35: quick.skip names 'papr'"),
        ("[quick]", "[quick]\nsize = 3", "line 33: quick.size is not a known key"),
        (
            "data.small.n = 50",
            'data.small.n = "a"',
            "line 34: quick.data.small.n must be a whole number",
        ),
        ("data.small.n = 50", "data.small.nn = 5", "line 34: quick.data.small.nn is not a known"),
        ('skip = ["paper"]', 'skip = ["small"]', "cells leaves no cell: all are in `skip`"),
        ("[quick]", "[show]\nlevels = { small = 3 }\n[quick]", "show.levels.small must be text"),
        ("[quick]", '[show]\nx = "nn"\n[quick]', "line 33: show.x names 'nn', which the"),
        ('prior = "sparse"\n', "", None),
    ],
)
def test_an_error_names_the_key_and_the_line(tmp_path, old, new, message):
    assert old in GOOD
    text = GOOD.replace(old, new)
    if message is None:
        assert len(read(tmp_path, text).cells) == 8
        return
    with pytest.raises(StudyError, match=message):
        read(tmp_path, text)


def test_a_cell_asked_for_twice_is_an_error(tmp_path):
    again = GOOD.replace("[quick]", '[[cells]]\ndata = "small"\nmethod = "paper"\n[quick]')
    with pytest.raises(StudyError, match="asks twice for the same cell: small n=50 paper"):
        read(tmp_path, again.replace('replicates = 1\nmeasures = ["mec"]', ""))


def test_one_table_is_no_array_of_tables(tmp_path):
    one = GOOD[: GOOD.rindex("[[cells]]")].replace("[[cells]]", "[cells]")
    with pytest.raises(StudyError, match=r"line 2[0-9]: cells must be tables headed"):
        read(tmp_path, one)


def test_a_module_that_cannot_be_imported_is_an_error(tmp_path):
    (tmp_path / "broken_source.py").write_text("def")
    text = GOOD.replace('"synthetic"', '"broken_source:make"')
    with pytest.raises(StudyError, match=r"cannot load the data source .* SyntaxError"):
        read(tmp_path, text)


def test_a_study_without_cells_or_without_a_quick_size_is_an_error(tmp_path):
    with pytest.raises(StudyError, match="cells is missing"):
        read(tmp_path, "draws = 3")
    with pytest.raises(StudyError, match="there is no \\[quick\\] size"):
        read(tmp_path, GOOD[: GOOD.index("[quick]")], quick=True)


def test_digest_and_seeds_follow_the_content_and_nothing_else(tmp_path):
    first = read(tmp_path, GOOD).cells[0]
    renamed = read(tmp_path, GOOD.replace("small", "tiny").replace("[3, 5]", "[5, 3]")).cells[1]
    assert first.digest == renamed.digest
    assert (first.seed, first.data_seed) == (renamed.seed, renamed.data_seed)
    longer = read(tmp_path, GOOD.replace("draws = 100", "draws = 200")).cells[0]
    assert first.digest != longer.digest
    assert first.seed == longer.seed


def test_methods_and_priors_share_the_data_of_a_replicate(tmp_path):
    cells = read(tmp_path, GOOD.replace("replicates = 1\nmeas", "replicates = [3]\nmeas")).cells
    same = [cell for cell in cells if cell.replicate == 3 and cell.data["n"] == 50]
    assert len({cell.data_seed for cell in same}) == 1
    assert len({cell.seed for cell in same}) == len(same) == 3


def test_a_seed_pattern_gives_the_data_it_names():
    data = {
        "source": "synthetic",
        "m": 4,
        "edges": 3,
        "n": 20,
        "seed": "ER_p{m}|n={n}|r={replicate}",
    }
    cell = Cell(data=data, method={"method": "exact"}, replicate=2)
    assert cell.data_seed == content_seed("ER_p4|n=20|r=2")
    truth = synthetic(4, 3, 20, seed="ER_p4|n=20|r=2").truth.to_numpy()
    outcome = compute(dataclasses.replace(cell, measures=("forecasts",)))
    assert outcome["metrics"]["forecasts"][0]["outcome"] == truth[~np.eye(4, dtype=bool)].tolist()


@pytest.mark.slow
def test_a_cell_is_a_pure_function_of_its_content():
    cell = Cell(
        data={"source": "synthetic", "m": 5, "edges": 4, "n": 30},
        method={"method": "order-mcmc", "mechanism": "linear", "exact": False, "chains": 2},
        prior={"p": 0.3},
        measures=("scores", "mec", "exact", "forecasts"),
        draws=50,
    )
    first, second = compute(cell), compute(Cell.from_dict(cell.to_dict()))
    assert first["metrics"] == second["metrics"]
    assert first["metrics"]["exact"][0]["mean_error"] < 0.05


@pytest.mark.parametrize("standardise", [True, False])
def test_the_exact_method_has_no_error(standardise):
    """The exact posterior that a fit is compared with has the fit's own prior."""
    data = {"source": "synthetic", "m": 4, "edges": 3, "n": 30}
    method = {"method": "exact", "mechanism": "linear", "standardise": standardise}
    row = compute(Cell(data=data, method=method, measures=("exact",), draws=10))
    assert row["metrics"]["exact"][0]["worst_error"] < 1e-9


def test_a_figure_that_is_undefined_is_null_in_the_row():
    data = {"source": "synthetic", "m": 3, "edges": 0, "n": 20}
    row = compute(Cell(data=data, method={"method": "exact"}, levels=("dag",), draws=10))
    assert [record["auroc"] for record in row["metrics"]["scores"]] == [None, None]
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [False, True])
def test_every_study_of_ours_reads(path, quick):
    assert Study.read(path, quick=quick).cells


def test_options_of_synthetic_data_have_the_defaults_of_the_generator():
    theirs = inspect.signature(synthetic).parameters
    ours = inspect.signature(sources.synthetic).parameters
    shared = {k for k in ours.keys() & theirs.keys() if theirs[k].default is not theirs[k].empty}
    assert len(shared) > 10
    stated = {k for k in shared if ours[k].default is not ours[k].empty}
    assert {k: ours[k].default for k in stated} == {k: theirs[k].default for k in stated}
    assert shared - stated == {"seed"}
