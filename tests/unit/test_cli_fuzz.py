"""Whatever is typed or lies in a file: a right answer or a clear line, and nothing half-written."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import svidag
from svidag.cli import app

pytestmark = pytest.mark.slow  # many generated commands

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SLOWER = settings(QUICK, max_examples=25)
FEW = settings(QUICK, max_examples=5)
NAMES = ("a b", "[/red]", "x=1")

# Words that mean something somewhere, in places where they may mean nothing.
OPTIONS = [
    "--json", "--change", "--at", "--holding", "-k", "--classes", "--consensus", "-o", "--format",
    "--rows", "--targets", "--drop", "--transform", "--interventions", "--set", "--seed",
    "--mechanism", "--method", "--restart", "--quiet", "--graph-weights", "--no-standardise",
    "--knowledge", "--output=", "--help", "--",
]  # fmt: skip
VALUES = [
    *NAMES, "run", "bad", "table.csv", "knowledge.yaml", "absent", "new/page.html", "page.html",
    "out.csv", "out.dot", "out.json", "out.graphml", "out.gml", "0", "1", "-1", "1e400", "nan",
    "x=1=2", "[/red]=3", "a b=inf", "log", "csv", "sachs", "linear", "exact", "orders=x", "seed=1",
    "", ".", "..", "/dev/null", "\x1b[2J", ":smile:", "[bold]",
]  # fmt: skip
words = st.one_of(st.sampled_from(OPTIONS), st.sampled_from(VALUES), st.text(max_size=6))
printed = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def table(names=NAMES, n=30):
    x = np.random.default_rng(0).standard_normal((n, len(names)))
    x[:, 1] += x[:, 0]
    return pd.DataFrame(x, columns=list(names))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a saved posterior."""
    path = tmp_path_factory.mktemp("saved") / "posterior.svidag"
    return svidag.exact.posterior(table()).save(path).read_bytes()


@pytest.fixture
def place(tmp_path, monkeypatch, content):
    """A directory with a run, a damaged run, a table and knowledge, which is where we are."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "bad"):
        (tmp_path / name).mkdir()
    (tmp_path / "run/posterior.svidag").write_bytes(content)
    (tmp_path / "bad/posterior.svidag").write_bytes(content[:-400])
    (tmp_path / "page.html").write_text("mine", encoding="utf-8")
    (tmp_path / "out.csv").write_text("mine", encoding="utf-8")
    (tmp_path / "knowledge.yaml").write_text("required: [[a b, x=1]]\n", encoding="utf-8")
    table().to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def tree(place):
    return {str(path): path.is_file() and path.read_bytes() for path in place.rglob("*")}


def behaves(place, *arguments):
    """Run a command; it ends well, or with a clear word and all files as they were."""
    before = tree(place)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    shown = f"{arguments}: {result.exit_code} {result.output} {result.exception!r}"
    assert result.exception is None or isinstance(result.exception, SystemExit), shown
    assert result.exit_code in (0, 1, 2), shown
    assert "Traceback" not in result.output, shown
    assert "\x1b" not in result.output, shown
    after = tree(place)
    if result.exit_code:
        assert result.stderr.strip() or "Usage" in result.stdout, shown
        assert after == before, shown
    for path in after.keys() - before.keys():
        assert not path.rpartition("/")[2].startswith("."), shown
        assert not path.endswith((".part", ".before")), shown
    return result


@QUICK
@given(
    command=st.sampled_from(
        ["check", "graphs", "effect", "export", "methods", "data", "bench", "nothing"]
    ),
    rest=st.lists(words, max_size=6),
)
@example("effect", ["run", "[/red]", "x=1", "--holding", "a b=1e308", "--at", "-1e308"])
@example("effect", ["run", "x=1", "[/red]", "--change", "1e-320"])
@example("export", ["run", "\0.csv"])
@example("graphs", ["bad"])
def test_any_words_after_a_command(place, command, rest):
    behaves(place, command, *rest)


@QUICK
@given(st.lists(words, min_size=1, max_size=5))
@example(["bad", "--restart"])
@example(["table.csv", "--set", "seed=1"])
@example(["table.csv", "-o", "run", "--restart", "--set", "nonsense=1"])
@example(["table.csv", "-o", "page.html"])
@example(["table.csv", "-o", "page.html/run"])
@example(["[/red]"])
@example(["absent", "-o", "new/deeper/run"])
def test_any_words_after_fit_that_ask_for_the_impossible(place, rest):
    behaves(place, "fit", "--set", "nonsense=1", "--quiet", *rest)


@FEW
@given(st.lists(words, max_size=3))
@example(["-o", "page.html"])
@example(["-o", "new"])
def test_any_words_after_report(place, rest):
    behaves(place, "report", "run", *rest)


@SLOWER
@given(st.binary(max_size=200), st.sampled_from(["t.csv", "t.tsv", "t.parquet", "t.txt"]))
@example(b"a,b\n1,2\n2,1\n0,0\n5,6\n", "t.csv")
@example(b"a;b,c\n1,5;2,5,3\n", "t.csv")
def test_any_bytes_as_a_table_or_knowledge(place, noise, name):
    (place / name).write_bytes(noise)
    behaves(place, "check", name)
    behaves(place, "check", "table.csv", "--knowledge", name)


@SLOWER
@given(cut=st.floats(0, 0.95), tail=st.binary(max_size=20), request=st.binary(max_size=20))
def test_any_bytes_as_a_run(place, content, cut, tail, request):
    (place / "bad/posterior.svidag").write_bytes(content[: int(cut * len(content))] + tail)
    (place / "bad/request.json").write_bytes(request)
    for words in (["graphs", "bad"], ["export", "bad", "out.dot"], ["fit", "bad"]):
        assert behaves(place, *words).exit_code == 2


@SLOWER
@given(st.lists(printed, min_size=2, max_size=4, unique=True))
def test_any_names_of_columns_in_a_check(place, names):
    with (place / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *table(names).to_numpy().tolist()])
    result = behaves(place, "check", "t.csv")
    assert result.exit_code == 2 or all(repr(name) in result.stdout for name in names)


@FEW
@given(st.lists(printed.filter(str.strip), min_size=3, max_size=3, unique=True))
@example(["<script>", "</script>", "\x1b]0;x\x07"])
@example([":smile:", "[/]", "\u202e"])
def test_any_names_of_columns_in_answers(place, names):
    run = place / "named"
    run.mkdir(exist_ok=True)
    svidag.exact.posterior(table(names)).save(run / "posterior.svidag")
    found = json.loads(behaves(place, "graphs", "named", "--consensus", "--json").stdout)
    assert {name for edge in found[0]["edges"] for name in edge} <= set(names)
    asked = ("effect", "named", "--json", "--", *names[:2])
    assert json.loads(behaves(place, *asked).stdout)["cause"] == names[0]
    for words in (
        ["graphs", "named", "--classes"],
        ["effect", "named", "--", *names[1:]],
        ["export", "named", "named.dot"],
    ):
        assert behaves(place, *words).exit_code == 0
    behaves(place, "export", "named", "named.graphml")  # XML has no place for control characters


TINY = (
    "--mechanism", "linear", "--set", "orders=4", "--set", "chains=2", "--set", "burn_in=4",
    "--quiet",
)  # fmt: skip


@FEW
@given(names=st.lists(printed, min_size=2, max_size=3, unique=True), seed=st.integers(-5, 2**40))
def test_any_names_in_a_fit(place, names, seed):
    with (place / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *table(names).to_numpy().tolist()])
    result = behaves(place, "fit", "t.csv", *TINY, f"--seed={seed}", "-o", "t", "--restart")
    if result.exit_code == 0:
        assert svidag.load(place / "t/posterior.svidag").names == tuple(names)
