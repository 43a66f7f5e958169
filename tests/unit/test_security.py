"""No file that svidag reads can run code or exhaust memory; no fit uses a network.

One test for each format, with a file that would run code in a careless reader.
"""

import hashlib
import html.parser
import io
import json
import pickle
import socket
import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import svidag
from svidag.bench.cluster import Cluster
from svidag.bench.schema import StudyError
from svidag.bench.study import Study
from svidag.cli import app
from svidag.cli.run_directory import RunDirectory
from svidag.prior import Prior
from svidag.run.checkpoint import Checkpoint

DEEP = 20_000
STUDY = """
[data.small]
source = "synthetic"
m = 4
edges = 3
n = 50
[method.exact]
method = "exact"
[[cells]]
data = "small"
method = "exact"
"""


class Payload:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def mark(tmp_path):
    """A file that only a payload creates."""
    path = tmp_path / "executed"
    yield path
    assert not path.exists(), "a file that was only read ran code"


def table():
    x = np.random.default_rng(0).standard_normal((40, 3))
    return pd.DataFrame(x, columns=["<b>a</b>", "b", "c"])


def pickled_array(mark):
    """The bytes of a .npy file of objects, as `numpy.save` writes them."""
    file = io.BytesIO()
    np.save(file, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    return file.getvalue()


def with_member(path, kind, content):
    """An archive of ours whose only array is these bytes, all of its sums made good."""
    about = {"format": kind, "version": 3, "posterior": {"$array": "a0"}, "stage": "s", "notes": {}}
    about |= {"state": {"$array": "a0"}, "fingerprint": {}, "provenance": {}}
    about["members"] = {"a0": hashlib.sha256(content).hexdigest()}
    text = json.dumps(about).encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("arrays/a0.npy", content)
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sha256", hashlib.sha256(text).hexdigest())
    return path


def test_a_saved_posterior_with_a_pickle_in_it_is_refused(tmp_path, mark):
    path = with_member(tmp_path / "run.svidag", "svidag posterior", pickled_array(mark))
    with pytest.raises(ValueError, match=r"run\.svidag is damaged.*object elements"):
        svidag.load(path)
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(ValueError, match=r"run\.svidag is cut short, or not"):
        svidag.load(path)


@pytest.mark.slow
def test_a_checkpoint_with_a_pickle_in_it_is_refused(tmp_path, mark):
    path = with_member(tmp_path / "checkpoint.npz", "svidag checkpoint", pickled_array(mark))
    with pytest.raises(ValueError, match=r"checkpoint\.npz is damaged.*object elements"):
        Checkpoint(path, {}).load()
    np.savez(path, a=np.array([Payload(mark)], dtype=object))
    with pytest.raises(ValueError, match=r"checkpoint\.npz"):
        svidag.fit(table(), method="exact", checkpoint=path, progress=False)


@pytest.mark.parametrize("name", ["builtins:eval", "os.system", "svidag.io.tree:decode"])
def test_a_type_that_a_file_names_is_one_of_ours_or_refused(tmp_path, name):
    path = svidag.exact.posterior(table()).save(tmp_path / "run.svidag")
    with zipfile.ZipFile(path) as old:
        members = {member: old.read(member) for member in old.namelist()}
    about = json.loads(members["manifest.json"])
    about["posterior"] = {"$object": [name, {"source": "1"}]}
    members["manifest.json"] = json.dumps(about).encode()
    digest = hashlib.sha256(members["manifest.json"]).hexdigest()
    members["manifest.sha256"] = digest.encode()
    with zipfile.ZipFile(path, "w") as new:
        for member, content in members.items():
            new.writestr(member, content)
    with pytest.raises(ValueError, match="is unknown"):
        svidag.load(path)


def test_a_header_larger_than_its_file_is_refused(tmp_path):
    header = b"\x93NUMPY\x01\x00\xff\xff" + b"{'descr': '<f8', 'shape': (9,)" + b" " * 50
    path = with_member(tmp_path / "run.svidag", "svidag posterior", header)
    with pytest.raises(ValueError, match="is damaged"):
        svidag.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "p: !!python/object/apply:builtins.open [MARK, w]",
        "!!python/object/new:builtins.open [MARK, w]",
        "p: !!python/name:os.system",
        "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "p: " + "[" * DEEP + "]" * DEEP,
    ],
    ids=["apply", "new", "name", "aliases", "deep"],
)
def test_a_knowledge_file_in_yaml_has_no_tags_no_aliases_and_no_depth(tmp_path, mark, text):
    path = tmp_path / "knowledge.yaml"
    path.write_text(text.replace("MARK", json.dumps(str(mark))))
    with pytest.raises(ValueError, match=r"knowledge\.yaml"):
        Prior.from_file(path)


@pytest.mark.parametrize(
    "text",
    ['{"py/reduce": [{"py/type": "builtins.open"}, {"py/tuple": ["MARK", "w"]}]}', "[" * DEEP],
    ids=["object", "deep"],
)
def test_json_files_are_plain_data(tmp_path, mark, text):
    text = text.replace("MARK", str(mark))
    (tmp_path / "knowledge.json").write_text(text)
    with pytest.raises(ValueError, match=r"knowledge\.json"):
        Prior.from_file(tmp_path / "knowledge.json")
    (tmp_path / "request.json").write_text(text)
    with pytest.raises(ValueError, match=r"request\.json is damaged"):
        RunDirectory(tmp_path).request()


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:run", "antigravity:x", "numpy:load", "builtins:eval"]
)
@pytest.mark.parametrize("place", ["source", "method", "measures"])
def test_a_study_file_alone_runs_nothing(tmp_path, name, place):
    old = {"source": 'source = "synthetic"', "method": 'method = "exact"\n[[', "measures": "[data."}
    new = {
        "source": f'source = "{name}"',
        "method": f'method = "{name}"\n[[',
        "measures": f'measures = ["{name}"]\n[data.',
    }
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace(old[place], new[place]))
    with pytest.raises(StudyError, match="is no module of your own"):
        Study.read(path)


@pytest.mark.parametrize("text", ["a = " + "[" * DEEP + "]" * DEEP, "a = " + "9" * 5000])
def test_a_study_file_that_no_reader_can_hold_is_refused(tmp_path, text):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError, match=r"study\.toml"):
        Study.read(tmp_path / "study.toml")


@pytest.mark.parametrize(
    "name", ["subprocess.Popen", "os.system", "dask_x.run", "distributed.wait"]
)
def test_a_cluster_file_names_a_cluster_of_dask_and_nothing_else(tmp_path, name):
    path = tmp_path / "cluster.toml"
    path.write_text(f'class = "{name}"\n[options]\nargs = ["true"]\n')
    with pytest.raises(StudyError, match="must be a cluster of distributed"):
        Cluster.read(path)
    path.write_text('class = "dask_jobqueue.SLURMCluster"\njobs = 2\n')
    assert Cluster.read(path).jobs == 2


def test_a_parquet_file_with_a_pickled_type_runs_nothing(tmp_path, mark):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    hidden = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Payload(mark)),
    }
    field = pa.field("a", pa.float64(), metadata=hidden)
    rows = pa.array(np.random.default_rng(0).standard_normal(9))
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table([rows, rows], pa.schema([field, pa.field("b", pa.float64())])), path)
    assert svidag.Dataset.from_any(path).names == ("a", "b")


def test_a_table_of_formulas_is_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "=1+1,2\n@SUM(1),3\n" * 20)
    dataset = svidag.Dataset.from_any(path)
    assert set(dataset.to_frame()["a"]) == {"=1+1", "@SUM(1)"}


class Elements(html.parser.HTMLParser):
    """The elements of a page and the names of their attributes, and what stands in links."""

    def __init__(self):
        super().__init__()
        self.found, self.links = set(), set()

    def handle_starttag(self, tag, attrs):
        self.found.add((tag, *sorted(name for name, _ in attrs)))
        self.links |= {value for name, value in attrs if name in ("href", "src", "action")}


def elements(page):
    parser = Elements()
    parser.feed(page)
    return parser


HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>'


def page_with(word, folder):
    """A report in which a word stands in names, levels, the file's path, settings and notes."""
    import dataclasses

    from svidag.posterior import Posterior
    from svidag.posterior.diagnostics import Level, Reason

    frame = table().set_axis([f"a{word}", f"b{word}", f"c{word}"], axis=1)
    frame[f"d{word}"] = np.where(frame.iloc[:, 0] > 0, f"yes{word}", f"no{word}")
    place = folder / f"run {hashlib.sha256(word.encode()).hexdigest()[:4]}"
    made = svidag.fit(frame, method="exact", progress=False)
    facts = made.diagnostics
    facts = dataclasses.replace(
        facts,
        settings={**facts.settings, f"set{word}": f"to{word}"},
        reasons=(*facts.reasons, Reason(Level.CAREFUL, f"A note {word}.")),
        mechanism=facts.mechanism,
    )
    parts = {f.name: getattr(made, f.name) for f in dataclasses.fields(Posterior) if f.init}
    posterior = Posterior(**{**parts, "diagnostics": facts})
    return posterior.report(place / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_nothing_that_users_give_becomes_markup_in_a_report(tmp_path):
    plain, hostile = (page_with(word, tmp_path) for word in ("", HOSTILE))
    assert "<img" not in hostile
    assert elements(hostile).found <= elements(plain).found
    assert {
        link for link in elements(hostile).links if not link.startswith(("#", "data:,"))
    } == set()
    assert hostile.count("<script") == plain.count("<script")


@pytest.mark.slow
def test_the_policy_of_a_report_names_its_code_by_its_sum_and_allows_no_other(tmp_path):
    page = page_with("", tmp_path)
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('">')[0]
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert "https:" not in policy
    found = elements(page).found
    assert not any(
        name == "style" or name.startswith("on") for _, *names in found for name in names
    )


@pytest.mark.slow
def test_fits_reports_and_commands_need_no_network(tmp_path, monkeypatch):
    def closed(*_, **__):
        raise AssertionError("svidag opened a socket")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, closed)
    posterior = svidag.fit(table(), progress=False, mechanism="linear")
    posterior.report(tmp_path / "page.html")
    assert svidag.load(posterior.save(tmp_path / "run.svidag")).names == posterior.names
    table().to_csv(tmp_path / "table.csv", index=False)
    run = str(tmp_path / "run")
    for words in (
        ["check", str(tmp_path / "table.csv")],
        ["fit", str(tmp_path / "table.csv"), "-o", run, "--mechanism", "linear", "--quiet"],
        ["report", run],
        ["graphs", run],
        ["effect", run, "b", "c"],
        ["export", run, str(tmp_path / "edges.csv")],
        ["methods"],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
