"""The command line, run in this process."""

import dataclasses
import io
import json
import shutil

import pandas as pd
import pytest
from command_line import done, run
from rich.console import Console
from typer.testing import CliRunner

import svidag
from svidag.cli import app
from svidag.cli.run_directory import RunDirectory
from svidag.cli.tables import print_matrix
from svidag.methods import METHODS

pytestmark = pytest.mark.slow  # runs commands with whole fits

QUICK = ("--mechanism", "linear", "--set", "orders=60", "--set", "burn_in=60", "--quiet")


def refused(code: int, message: str, *arguments: object) -> None:
    result = run(*arguments)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert message in result.stderr


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with names that a careless program stumbles over."""
    example = svidag.datasets.synthetic(m=4, edges=4, n=150, seed=2)
    frame = example.data.set_axis(["a b", "[red]x", "№ 1", "y,z"], axis=1)
    path = tmp_path_factory.mktemp("data") / "my table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def finished(table, tmp_path_factory):
    """The directory of one finished run."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    done("fit", table, "-o", directory, *QUICK)
    return directory


def test_help_names_every_command():
    shown = done("--help").output
    commands = ("demo", "check", "fit", "report", "graphs", "effect", "next", "export", "methods")
    for name in (*commands, "data", "bench"):
        assert name in shown


def test_a_fit_prints_its_verdict_and_saves_what_it_printed(table, tmp_path):
    result = done("fit", table, "-o", tmp_path / "run", *QUICK)
    assert "Verdict: " in result.output
    assert "[red]x" in result.output
    edges = pd.read_csv(tmp_path / "run" / "edges.csv")
    assert set(edges["cause"]) <= {"a b", "[red]x", "№ 1", "y,z"}
    assert not (tmp_path / "run" / "checkpoint.npz").exists()


def test_a_finished_run_is_not_repeated(table, finished):
    before = (finished / "posterior.svidag").stat().st_mtime_ns
    assert "is finished" in done("fit", table, "-o", finished, *QUICK).stderr
    assert "is finished" in done("fit", finished).stderr
    assert (finished / "posterior.svidag").stat().st_mtime_ns == before


def test_another_fit_does_not_overwrite_a_run(table, finished):
    refused(2, "seed: 0 there, 5 now", "fit", table, "-o", finished, *QUICK, "--seed", 5)


def test_an_unfinished_run_goes_on_from_its_directory(table, finished, tmp_path):
    request = RunDirectory(finished).request()
    RunDirectory(tmp_path / "again").begin(request)
    refused(2, "is not finished", "graphs", tmp_path / "again")
    done("fit", tmp_path / "again", "--quiet")
    first = svidag.load(finished / "posterior.svidag").edge_probabilities()
    assert first.equals(svidag.load(tmp_path / "again/posterior.svidag").edge_probabilities())


def test_a_refused_fit_leaves_no_trace(table, finished, tmp_path):
    refused(2, "unknown setting", "fit", table, "-o", tmp_path / "new", "--set", "order=3")
    assert not (tmp_path / "new").exists()
    before = {path: path.read_bytes() for path in finished.iterdir()}
    refused(2, "unknown setting", "fit", table, "-o", finished, "--restart", "--set", "order=3")
    refused(2, "does not exist", "fit", tmp_path / "no.csv", "-o", finished, "--restart")
    assert {path: path.read_bytes() for path in finished.iterdir()} == before


def test_a_restart_replaces_the_run(table, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / "mine.txt").write_text("kept", encoding="utf-8")
    done("fit", table, "-o", run, *QUICK, "--seed", 1, "--restart")
    assert RunDirectory(run).request().seed == 1
    assert sorted(path.name for path in run.iterdir()) == [
        "edges.csv", "mine.txt", "posterior.svidag", "request.json",
    ]  # fmt: skip
    repeated = run / "posterior.svidag"
    stamp = repeated.stat().st_mtime_ns
    done("fit", run, "--restart", "--quiet")
    assert repeated.stat().st_mtime_ns > stamp


def test_a_run_goes_on_as_it_was_asked_and_not_otherwise(finished):
    refused(2, "seed: 0 there, 4 now", "fit", finished, "--seed", 4)
    done("fit", finished, "--mechanism", "linear")


def test_a_run_and_its_table_can_move_together(table, finished, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(table, home / "t.csv")
    monkeypatch.chdir(home)
    RunDirectory(home / "run").begin(
        dataclasses.replace(RunDirectory(finished).request(), data=str(home / "t.csv"))
    )
    moved = home.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    done("fit", moved / "run", "--quiet")
    assert (moved / "run/posterior.svidag").exists()


def test_a_run_keeps_its_method_and_settings_and_has_them_in_the_fit(table, tmp_path):
    small = ("--method", "svi-dag-published", "--set", "iterations=3", "--set", "hidden=[4]")
    small += ("--set", "hyper=[4]", "--set", "guide=mean-field", "--quiet")
    result = done("fit", table, "-o", tmp_path / "run", *small)
    assert "note: 3 steps are too few to say anything." in result.stderr
    assert "Verdict: do not trust" in result.stdout
    facts = svidag.load(tmp_path / "run/posterior.svidag").diagnostics
    assert facts.method == "svi-dag-published"
    assert (facts.settings["iterations"], facts.settings["hidden"]) == (3, (4,))
    kept = json.loads((tmp_path / "run/request.json").read_text(encoding="utf-8"))
    assert (kept["format"], kept["method"]) == ("svidag run 3", "svi-dag-published")
    assert kept["settings"]["hidden"] == [4]
    assert "is finished" in done("fit", table, "-o", tmp_path / "run", *small).stderr
    other = ("fit", table, "-o", tmp_path / "run", "--method", "exact")
    refused(2, "method: 'svi-dag-published' there, 'exact' now", *other)


def test_methods_lists_every_method_with_its_mechanisms():
    lines = done("methods", columns=300).stdout.splitlines()
    for name, method in METHODS.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert ", ".join(method.support.mechanisms) in line
        assert method.summary in line


@pytest.mark.parametrize("name", METHODS)
def test_methods_lists_every_setting_of_one_with_its_default(name):
    lines = done("methods", name, columns=400).stdout.splitlines()
    assert lines[0] == f"{name}: {METHODS[name].summary}"
    listed = {line.split()[0]: line for line in lines[2:-1]}
    assert list(listed) == list(METHODS[name].values())
    for field in METHODS[name].describe():
        row = listed[field.name]
        assert row.split()[1:] == f"{field.default!r} {field.type} {field.help}".split()


def test_an_unknown_method_is_told_with_the_nearest():
    refused(2, "unknown method 'exakt'; did you mean 'exact'?", "methods", "exakt")
    refused(2, "unknown method 'qqq'; known are bayesdag, bcd-nets", "methods", "qqq")


@pytest.mark.parametrize("name", ["seed", "data", "method", "progress", "checkpoint"])
def test_arguments_are_no_settings(table, tmp_path, name):
    refused(
        2, "an argument of svidag.fit", "fit", table, "-o", tmp_path / "r", "--set", f"{name}=1"
    )


@pytest.mark.parametrize(("width", "numbered"), [(60, True), (200, False), (20, None)])
def test_the_matrix_is_legible_or_not_there(width, numbered):
    names = ["a rather long name", "another one", "x"]
    frame = pd.DataFrame(0.25, index=names, columns=names)
    screen = Console(width=width, file=io.StringIO())
    print_matrix(screen, frame)
    lines = screen.file.getvalue()
    assert lines.count("0.25") == (0 if numbered is None else 6)
    assert ("1 a rather long name" in lines) == bool(numbered)


@pytest.mark.parametrize("saved", [True, False])
def test_an_interrupted_fit_says_how_it_goes_on(table, tmp_path, monkeypatch, saved):
    def interrupted(*_, checkpoint, **__):
        if saved:
            checkpoint.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr(svidag, "fit", interrupted, raising=False)
    message = "what was done is saved" if saved else "before there was anything to save"
    refused(130, message, "fit", table, "-o", tmp_path / "my run")
    assert f"svidag fit '{tmp_path / 'my run'}'" in run("fit", tmp_path / "my run").stderr
    assert ("Going on" in run("fit", tmp_path / "my run").stderr) == saved


def test_a_place_that_cannot_be_written_is_named(finished, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    target = tmp_path / "file" / "x.csv"
    refused(2, f"cannot write {target}: {target.parent} is a file", "export", finished, target)


def test_a_terminal_without_arrows_gets_their_code(finished):
    result = CliRunner(charset="ascii").invoke(app, ["graphs", str(finished), "--consensus"])
    assert result.exit_code == 0
    assert "\\u2192" in result.stdout


def test_json_is_for_programs(table, finished):
    content = json.loads(done("fit", table, "-o", finished, *QUICK, "--json").stdout)
    saved = svidag.load(finished / "posterior.svidag")
    assert content["edge_probabilities"] == saved.edge_probabilities().to_numpy().tolist()
    assert content["verdict"] in ("trust", "be careful", "do not trust")


def test_graphs_classes_and_the_consensus(finished):
    ranked = json.loads(done("graphs", finished, "-k", 2, "--json").stdout)
    assert len(ranked) == 2
    assert ranked[0]["probability"] >= ranked[1]["probability"]
    assert "probability" in done("graphs", finished, "--classes").output
    consensus = json.loads(done("graphs", finished, "--consensus", "--json").stdout)
    assert consensus[0]["edges"]


def test_the_effect_of_a_cause(finished):
    posterior = svidag.load(finished / "posterior.svidag")
    found = json.loads(done("effect", finished, "a b", "№ 1", "--change", 1, "--json").stdout)
    assert found["mean"] == posterior.effect("a b", "№ 1").to_dict()["mean"]
    usual = json.loads(done("effect", finished, "a b", "№ 1", "--json").stdout)
    assert usual["change"] == posterior.problem.scaling.scale[0]
    assert "a b" in done("effect", finished, "a b", "№ 1").output
    refused(2, "'a c'", "effect", finished, "a c", "№ 1")


def test_the_effect_says_what_is_held_and_where_no_data_are(finished):
    asked = ("effect", finished, "a b", "№ 1", "--at", 1e6, "--holding", "[red]x=0.5")
    result = done(*asked)
    assert "'a b' = 1e+06 is far outside the observed values" in result.stderr
    assert "[red]x is held" in result.stdout
    assert json.loads(done(*asked, "--json").stdout)["cautions"]
    refused(2, "--holding takes name=value", "effect", finished, "a b", "№ 1", "--holding", "x")


@pytest.mark.parametrize("ending", ["csv", "json", "dot", "gml", "graphml", "svg", "png"])
def test_export_by_ending(finished, tmp_path, ending):
    done("export", finished, tmp_path / f"g.{ending}")
    assert (tmp_path / f"g.{ending}").stat().st_size > 0


def test_an_unknown_export_is_refused_and_nothing_is_written(finished, tmp_path):
    refused(2, ".docx", "export", finished, tmp_path / "g.docx")
    assert not list(tmp_path.iterdir())


def test_the_report_is_one_page(finished, tmp_path):
    done("report", finished, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")


def test_check_says_what_is_wrong_without_fitting(table, tmp_path):
    assert "No problem was found" in done("check", table).output
    broken = tmp_path / "broken.csv"
    broken.write_text("a,b\n1,2\n1,\n3,4\n", encoding="utf-8")
    refused(2, "'b'", "check", broken)
    knowledge = tmp_path / "knowledge.yaml"
    knowledge.write_text("required: [[a b, nobody]]\n", encoding="utf-8")
    refused(2, "nobody", "check", table, "--knowledge", knowledge)


def test_hard_knowledge_from_a_file_holds_in_every_draw(table, tmp_path):
    knowledge = tmp_path / "knowledge.yaml"
    knowledge.write_text('required: [["№ 1", "a b"]]\n', encoding="utf-8")
    done("fit", table, "-o", tmp_path / "run", "-k", knowledge, *QUICK)
    draws = svidag.load(tmp_path / "run/posterior.svidag").sample(200)
    assert draws[:, 2, 0].all()


def test_dropped_columns_are_no_variables(table, tmp_path):
    done("fit", table, "-o", tmp_path / "run", "--drop", "y,z", *QUICK)
    assert svidag.load(tmp_path / "run/posterior.svidag").names == ("a b", "[red]x", "№ 1")
    refused(2, "'nobody'", "fit", table, "-o", tmp_path / "other", "--drop", "nobody", *QUICK)


def test_workers_are_asked_for_anew_and_change_no_number(table, finished, tmp_path, monkeypatch):
    asked, fit = [], svidag.fit
    monkeypatch.setattr(
        svidag, "fit", lambda data, **given: asked.append(given["workers"]) or fit(data, **given)
    )
    RunDirectory(tmp_path / "run").begin(RunDirectory(finished).request())
    done("fit", tmp_path / "run", "--workers", 1, "--quiet")
    assert asked == [1]
    first = svidag.load(finished / "posterior.svidag").edge_probabilities()
    assert first.equals(svidag.load(tmp_path / "run/posterior.svidag").edge_probabilities())


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("does not exist", ("fit", "absent.csv")),
        ("--set takes name=value", ("fit", "TABLE", "--set", "orders")),
        ("unknown setting 'order'; did you mean 'orders'?", ("fit", "TABLE", "--set", "order=3")),
        ("orders must be a whole number; got 'x'", ("fit", "TABLE", "--set", "orders=x")),
        ("orders must be at least 1; got 0", ("fit", "TABLE", "--set", "orders=0")),
        ("has the mechanisms 'auto', 'linear'", ("fit", "TABLE", "--mechanism", "cubic")),
        ("did you mean 'order-mcmc'?", ("fit", "TABLE", "--method", "order-mcmd")),
        ("unknown setting 'orders'", ("fit", "TABLE", "--method", "exact", "--set", "orders=3")),
        ("graph_weights must be", ("fit", "TABLE", "--graph-weights", "both")),
        ("not a column", ("fit", "TABLE", "--interventions", "target")),
        ("Invalid value for '--workers'", ("fit", "TABLE", "--workers", "0")),
        ("Invalid value for '--workers'", ("fit", "TABLE", "--workers", "-2")),
        ("Invalid value for '--workers'", ("fit", "TABLE", "--workers", "all")),
        ("holds no run", ("report", "nowhere")),
    ],
)
def test_bad_input_is_one_clear_line(table, tmp_path, monkeypatch, message, arguments):
    monkeypatch.chdir(tmp_path)
    given = [str(table) if word == "TABLE" else word for word in arguments]
    if given[0] == "fit":
        given += ["-o", str(tmp_path / "run")]
    refused(2, message, *given)
    assert "Traceback" not in run(*given).output


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "svidag run 2"}', "\0"])
def test_a_damaged_request_is_told(tmp_path, content):
    (tmp_path / "request.json").write_text(content, encoding="utf-8")
    refused(2, "request.json is damaged", "fit", tmp_path)


@pytest.mark.parametrize(("rows", "count"), [("pooled", 7466), ("observational", 853)])
def test_data_prints_a_csv_that_reads_back(rows, count):
    table = pd.read_csv(io.StringIO(done("data", "sachs", "--rows", rows).stdout))
    assert table.shape == (count, 11)
    assert tuple(table.columns) == svidag.datasets.sachs().names


def test_data_can_name_the_targets_of_each_row():
    table = pd.read_csv(io.StringIO(done("data", "sachs", "--targets").stdout))
    assert table["target"].value_counts()["PKC"] == 723 + 913
    assert table["target"].isna().sum() == 853 + 902


def test_an_unknown_data_set_is_an_error_on_standard_error():
    refused(2, "unknown data set 'asia'", "data", "asia")


def test_the_demo_fits_reports_and_says_where(tmp_path):
    result = done("demo", "-o", tmp_path / "demo")
    assert "7466 cells" in result.output
    assert "a mixture of 16 fits of 500 rows" in result.output
    assert "Verdict: be careful" in result.output
    assert "By itself `svidag fit` lets the evidence decide" in " ".join(result.output.split())
    assert (tmp_path / "demo" / "report.html").exists()
    assert "report.html" in result.stdout.splitlines()[-1]
