"""Every kind of posterior comes back from its file as it was; other files are refused by name."""

import dataclasses
import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from types import MappingProxyType

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import svidag
from svidag import io
from svidag.data import Finding
from svidag.io import archive
from svidag.io.tree import Encoder, decode
from svidag.io.types import TYPES
from svidag.mechanisms.equations import ParameterDistribution
from svidag.methods import SVIDAG, OrderMCMC, PublishedSVIDAG
from svidag.methods.chain_diagnostics import ChainDiagnostics
from svidag.methods.gradient_diagnostics import GradientDiagnostics
from svidag.posterior import DrawnGraphs, GraphDistribution, Posterior
from svidag.posterior.diagnostics import Details, Diagnostics, Level, Reason
from svidag.run.status import Status
from svidag.variational.order_guide import GaussianOrders
from svidag.variational.particle_algorithm import ParticleAlgorithm
from svidag.variational.particle_bound import Rows
from svidag.variational.particle_posterior import GuideGraphs, NetworkParameters

pytestmark = pytest.mark.slow  # runs whole fits

NAMES = ("a b", "1", 'q"', "<script>")
PRIOR = svidag.Prior(p=0.4, beliefs={("1", 'q"'): 0.9}, required=[("<script>", "1")])


def table(n=60):
    rng = np.random.default_rng(0)
    x = 3 + rng.standard_normal((n, 4))
    x[:, 1] += x[:, 0]
    return svidag.Dataset.from_any(x, names=NAMES, interventions=rng.random((n, 4)) < 0.1)


def published(seed=0, **settings):
    """What Algorithm 1 gives, with networks moved off their start, without a fit."""
    chosen = PublishedSVIDAG(blocks=2, width=8, hidden=(8,), hyper=(4,), **settings)
    problem = svidag.problem.Problem.build(table(), prior=PRIOR, standardise=True)
    prior = problem.prior.to_jax()
    rows = Rows(jnp.asarray(problem.data.values, jnp.float32), jnp.ones((60, 4), bool))
    algorithm = ParticleAlgorithm.build(rows, prior, chosen, seed)
    arrays, rest = eqx.partition(algorithm.start, eqx.is_inexact_array)
    rng = np.random.default_rng(seed)
    moved = jax.tree.map(
        lambda leaf: jnp.asarray(leaf + 0.3 * rng.standard_normal(leaf.shape, np.float32)), arrays
    )
    networks = eqx.combine(moved, rest)
    orders = jnp.asarray([[0.1, 0.2, 0.3, 0.4], [0.9, 0.1, -1.0, 0.2]], jnp.float32)
    if chosen.orders == "gaussian":
        orders = GaussianOrders(orders[0], orders[1])
    return Posterior(
        NAMES,
        GuideGraphs(networks, orders, prior),
        NetworkParameters(networks, problem.scaling),
        diagnostics=Diagnostics(
            "svi-dag-published",
            "mlp",
            Status.TIME,
            1.5,
            reasons=(Reason(Level.NOT, "cut short"),),
            settings={"hidden": chosen.hidden},
            details=GradientDiagnostics(2, 0, 0.5, 1.0, {"bound": np.arange(2.0)}),
        ),
        problem=problem,
    )


def exact(**choices):
    return svidag.exact.posterior(table(), prior=PRIOR, **choices)


QUICK = OrderMCMC(exact=False, orders=20, thin=2, units=20)


def fitted(method=QUICK, mechanism="linear", **choices):
    asked = {"prior": PRIOR, "progress": False, **choices}
    return svidag.fit(table(), method=method, mechanism=mechanism, **asked)


POSTERIORS = {
    "exact": exact,
    "exact, structures": lambda: svidag.exact.posterior(table(), graph_weights="structure"),
    "exact, enumerated": lambda: svidag.exact.posterior(
        table(), prior=svidag.Prior(forbidden=[("1", "a b")]), graph_weights="structure"
    ),
    "orders": fitted,
    "all orders": lambda: fitted(OrderMCMC()),
    "visited graphs": lambda: fitted(SVIDAG(iterations=2, covering=2, rounds=4)),
    "reweighted": lambda: fitted(graph_weights="structure"),
    "nonlinear": lambda: fitted(mechanism="nonlinear"),
    "chosen mechanism": lambda: fitted(mechanism="auto"),
    "graphs alone": lambda: Posterior(
        ("x", "y"), DrawnGraphs(np.array([[[0, 1], [0, 0]]], np.uint8), np.ones(1))
    ),
    "guide": lambda: published(guide="mean-field"),
}


def trees_equal(a, b):
    """Equal structure and leaves; flows of one shape may differ in the functions they hold."""
    a, b = (jax.tree.leaves(eqx.filter(x, eqx.is_array)) for x in (a, b))
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def same(a, b):
    """Whether two values are equal, arrays and what is not a number included."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(vars(a), vars(b))
    if isinstance(a, dict | MappingProxyType):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b, equal_nan=isinstance(a, float)))


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # so short that chains may disagree
@pytest.mark.parametrize("name", POSTERIORS)
def test_a_posterior_comes_back_as_it_was(name, tmp_path):
    posterior = POSTERIORS[name]()
    path = tmp_path / "run.svidag"
    assert posterior.save(path) == path
    loaded = svidag.load(path)
    assert loaded.names == posterior.names
    assert type(loaded.graphs) is type(posterior.graphs)
    if name != "guide":  # spares two compilations: its draws come from the same networks
        assert loaded.edge_probabilities().equals(posterior.edge_probabilities())
    np.testing.assert_array_equal(loaded.sample(50, seed=3), posterior.sample(50, seed=3))
    assert loaded.log_evidence == posterior.log_evidence
    if (log_p := posterior.graphs.log_probability(posterior.sample(5))) is not None:
        np.testing.assert_array_equal(loaded.graphs.log_probability(posterior.sample(5)), log_p)
    assert same(loaded.diagnostics, posterior.diagnostics)
    assert type(loaded.mechanisms) is type(posterior.mechanisms)
    if name != "guide" and posterior.mechanisms is not None:
        graph = posterior.sample(1)[0]
        assert same(loaded.parameters(graph, n=3), posterior.parameters(graph, n=3))
        effects = [one.effect("a b", "1", n=20).draws for one in (loaded, posterior)]
        np.testing.assert_array_equal(*effects)
    if posterior.problem is not None:
        assert loaded.problem.data.checksum == posterior.problem.data.checksum
        assert loaded.problem.original_checksum == posterior.problem.original_checksum
        assert loaded.problem.findings == posterior.problem.findings
        prior = posterior.problem.prior.edge_probabilities()
        assert loaded.problem.prior.edge_probabilities().equals(prior)
        np.testing.assert_array_equal(loaded.problem.scaling.scale, posterior.problem.scaling.scale)


def test_networks_are_kept_once_for_graphs_and_parameters(tmp_path):
    posterior = published()
    posterior.save(tmp_path / "run")
    with zipfile.ZipFile(tmp_path / "run") as file:
        sums = [member.CRC for member in file.infolist() if member.file_size > 1000]
    assert len(sums) == len(set(sums)) > 4
    loaded = svidag.load(tmp_path / "run")
    assert trees_equal(loaded.mechanisms.networks, posterior.mechanisms.networks)
    np.testing.assert_array_equal(loaded.mechanisms.scaling.centre, table().standardise()[1].centre)


@pytest.mark.parametrize(
    "settings",
    [
        {"guide": "flow"},
        {"guide": "affine-coupling"},
        {"guide": "mean-field", "orders": "gaussian"},
        {"guide": "mean-field", "bound": "tight", "condition": "graph"},
    ],
    ids=lambda settings: " ".join(settings.values()),
)
def test_every_guide_of_algorithm_1_comes_back(settings, tmp_path):
    posterior = published(**settings)
    loaded = svidag.load(posterior.save(tmp_path / "run.svidag"))
    for mine, other in (
        (loaded.graphs.networks, posterior.graphs.networks),
        (loaded.graphs.orders, posterior.graphs.orders),
        (loaded.graphs.prior, posterior.graphs.prior),
    ):
        assert trees_equal(mine, other)
    statics = [
        (distribution.networks.mechanism.widths, distribution.networks.mechanism.condition)
        for distribution in (loaded.graphs, posterior.graphs)
    ]
    assert statics[0] == statics[1]
    draw = eqx.filter_jit(lambda edges: edges.sample(jr.key(2), jnp.arange(4.0)))
    drawn = [
        draw(distribution.networks.edges) for distribution in (loaded.graphs, posterior.graphs)
    ]
    np.testing.assert_array_equal(*drawn)


def test_settings_among_the_diagnostics_come_back_as_plain_data(tmp_path):
    stored = {
        "nothing": None,
        "numbers": (np.float32(0.5), np.int64(3), np.bool_(True), float("-inf"), 10**30),
        "arrays": [np.arange(3, dtype=np.int8), jnp.ones(()), np.zeros((0, 2))],
        "by number": {1: "one", (2, 3): "pair"},
        "$odd": {"$array": "not one"},
        "finding": Finding("skew", ("a",), "column 'a' is skewed"),
        "not a number": float("nan"),
    }
    distribution = DrawnGraphs(np.zeros((1, 2, 2), np.uint8), np.ones(1))
    facts = Diagnostics("mine", "linear", Status.COMPLETED, 1.0, settings=stored)
    Posterior(("x", "y"), distribution, diagnostics=facts).save(tmp_path / "run")
    back = svidag.load(tmp_path / "run").diagnostics.settings
    assert same(back, stored)
    assert type(back["numbers"][1]) is int
    assert back["arrays"][0].dtype == np.int8
    mine = dataclasses.replace(facts, settings={"a": hashlib.new})
    with pytest.raises(ValueError, match=r"builtins.function cannot be saved"):
        Posterior(("x", "y"), distribution, diagnostics=mine).save(tmp_path / "run")


def test_status_and_levels_come_back_as_what_they_were(tmp_path):
    loaded = svidag.load(published(guide="mean-field").save(tmp_path / "run")).diagnostics
    assert loaded.status is Status.TIME
    (reason,) = loaded.reasons
    assert reason.level is Level.NOT  # not merely the same text
    assert "bound" in loaded.details.trace


def test_provenance_says_what_wrote_the_file_and_what_the_fit_was(tmp_path):
    posterior = fitted(seed=7)
    stored = io.describe(posterior.save(tmp_path / "run.svidag"))
    provenance = stored["provenance"]
    assert provenance["svidag"] == svidag.__version__
    assert provenance["numpy"] == np.__version__
    assert provenance["data"] == table().checksum
    assert provenance["fit"]["seed"] == 7
    assert provenance["saved"].endswith("+00:00")
    assert (stored["graphs"], stored["mechanisms"], stored["names"]) == ("orders", "linear", NAMES)


def test_saving_replaces_the_file_in_one_step(tmp_path, monkeypatch):
    path = tmp_path / "run.svidag"
    exact().save(path)
    before = path.read_bytes()

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_write_array", fail)
    with pytest.raises(KeyboardInterrupt):
        exact().save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.svidag"]


def test_saving_makes_directories_follows_links_and_keeps_the_usual_mode(tmp_path):
    posterior = POSTERIORS["graphs alone"]()
    path = posterior.save(tmp_path / "new" / "run.svidag")
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    link = tmp_path / "link"
    link.symlink_to(path)
    posterior.save(str(link))
    assert link.is_symlink()
    with pytest.raises(ValueError, match=r"new is a directory"):
        posterior.save(tmp_path / "new")


def test_a_distribution_of_ones_own_cannot_be_saved_but_its_draws_can(tmp_path):
    class Mine(GraphDistribution):
        def sample(self, n, seed):
            return np.zeros((n, 2, 2), np.uint8)

        def edge_probabilities(self):
            return np.zeros((2, 2))

        def log_probability(self, graphs):
            return None

    with pytest.raises(ValueError, match=r"Mine cannot be saved.*draws of this posterior can"):
        Posterior(("x", "y"), Mine()).save(tmp_path / "run")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def saved(tmp_path):
    return POSTERIORS["graphs alone"]().save(tmp_path / "run.svidag")


def test_what_is_no_file_of_ours_is_refused_by_name(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone"):
        svidag.load(tmp_path / "gone")
    (tmp_path / "run").mkdir()
    with pytest.raises(ValueError, match=r"is a directory"):
        svidag.load(tmp_path / "run")
    (tmp_path / "run" / "posterior.svidag").write_bytes(saved.read_bytes())
    assert svidag.load(tmp_path / "run").names == ("x", "y")
    with pytest.raises(ValueError, match=r"/dev/null is a special file"):
        svidag.load("/dev/null")
    other = tmp_path / "other"
    for content, reason in (
        (b"", "other is empty"),
        (b"a,b\n1,2\n", "other is cut short, or not a 'svidag posterior' file"),
        (saved.read_bytes()[:-30], "other is cut short, or"),
    ):
        other.write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            svidag.load(other)
    with zipfile.ZipFile(other, "w") as archive_:
        archive_.writestr("word/document.xml", "<x/>")
    with pytest.raises(ValueError, match=r"is a ZIP file, but not a 'svidag posterior' file"):
        svidag.load(other)


def rewrite(path, change=lambda manifest: None, seal=True, **members):
    """The same file with another manifest or other members, its seal made good."""
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()} | members
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    if seal:
        digest = hashlib.sha256(content["manifest.json"]).hexdigest()
        content["manifest.sha256"] = digest.encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in content.items():
            new.writestr(name, data)


def parts(manifest):
    """What the manifest says of the posterior."""
    return manifest["posterior"]["$object"][1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 4}, r"written by another svidag \(0.1.*format version is 4.*reads 3"),
        ({"version": "1"}, r"format version is '1'"),
        ({"format": "svidag checkpoint"}, r"not a 'svidag posterior' file"),
        ({"posterior": {"$object": ["tomorrow", {}]}}, r"type 'tomorrow' is unknown"),
        ({"posterior": {"$object": ["graphs", {"m": 10**9}]}}, r"has the parts \['m'\]"),
        ({"members": {"a0": "0" * 64}}, r"array 'a0' differs from its checksum"),
        ({"members": {}}, r"damaged: KeyError"),
        ({"posterior": {"$eval": "1"}}, r"unknown mark '\$eval'"),
        ({"posterior": {"$number": "x"}}, r"damaged: KeyError: 'x'"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(saved, change, reason):
    rewrite(saved, lambda manifest: manifest.update(change))
    with pytest.raises(ValueError, match=reason) as caught:
        svidag.load(saved)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("graphs", {"$bits": ["a0", "u", 10**9, 2, 2]}, "does not fill its bits"),
        ("graphs", {"$array": "a1"}, r"has the shape \(1,\) and.*expected UInt8"),
        ("probability", {"$bits": ["a0", "u", 1]}, "probability of 'graphs' has the shape"),
    ],
)
def test_arrays_of_another_shape_or_type_are_refused(saved, name, value, reason):
    rewrite(saved, lambda manifest: parts(manifest)["graphs"]["$object"][1].update({name: value}))
    with pytest.raises(ValueError, match=reason):
        svidag.load(saved)


def test_an_edited_manifest_is_noticed(saved):
    rewrite(saved, lambda manifest: parts(manifest).update(names=["y", "x"]), seal=False)
    with pytest.raises(ValueError, match=r"its manifest differs from its checksum"):
        svidag.load(saved)


def member(array, **header):
    """Bytes of a .npy file that may lie about itself."""
    content = np.lib.format.magic(1, 0)
    described = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    text = repr(described).encode().ljust(200) + b"\n"
    return content + len(text).to_bytes(2, "little") + text + array.tobytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (member(np.zeros(4, np.uint8), shape=(10**15,)), "does not fill its member"),
        (member(np.zeros(4, np.uint8), shape=(2**40, 2**40)), "does not fill its member"),
        (member(np.zeros(4, np.uint8), shape=(-1, -4)), "not of a kind that svidag writes"),
        (member(np.zeros(4, np.uint8), fortran_order=True), "not of a kind that svidag writes"),
        (member(np.zeros(8, np.uint8), descr="|O", shape=(1,)), "not of a kind that svidag writes"),
        (
            member(np.zeros(8, np.uint8), descr="|V8", shape=(1,)),
            "not of a kind that svidag writes",
        ),
        (member(np.zeros(8, np.uint8), descr="__import__('os')"), "damaged"),
        (b"\x93NUMPY", "damaged"),
        (b"cos\nsystem\n(S'true'\ntR.", "damaged"),
    ],
)
def test_an_array_that_lies_is_refused_before_memory_is_taken(saved, content, reason):
    def reseal(manifest):
        manifest["members"]["a0"] = hashlib.sha256(content).hexdigest()

    rewrite(saved, reseal, **{"arrays/a0.npy": content})
    with pytest.raises(ValueError, match=reason):
        svidag.load(saved)


def test_a_zip_bomb_is_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive_:
        archive_.writestr("arrays/a9.npy", bytes(10**7), compress_type=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"'arrays/a9.npy' is compressed"):
        svidag.load(saved)


def test_networks_larger_than_their_file_are_refused():
    encoder = Encoder()
    guide = encoder.encode(published().graphs.networks.edges)
    for name, size in (("width", 10**9), ("blocks", 10**9), ("bins", 10**12), ("depth", 10**12)):
        larger = json.loads(json.dumps(guide))
        larger["$object"][1]["settings"][name] = size
        with pytest.raises(ValueError, match="more parameters than there are"):
            decode(larger, encoder.arrays)


def test_every_distribution_of_the_package_has_a_type():
    for base in (GraphDistribution, ParameterDistribution):
        for distribution in base.__subclasses__():
            # A report wraps the distribution it reads for as long as it is made.
            if (
                distribution.__module__.startswith("svidag.")
                and "report" not in distribution.__module__
            ):
                assert f"{distribution.__module__}:{distribution.__name__}" in TYPES.values()


def subclasses(cls):
    return {cls}.union(*map(subclasses, cls.__subclasses__()))


def test_the_diagnostics_of_every_method_have_a_type():
    parents = {Details, ChainDiagnostics}  # of which no fit makes one
    for details in subclasses(Details) - parents:
        if details.__module__.startswith("svidag."):
            assert f"{details.__module__}:{details.__name__}" in TYPES.values()


def test_a_large_table_is_kept_once_though_a_network_has_it_turned(tmp_path):
    x = np.random.default_rng(0).standard_normal((3000, 4))
    few = OrderMCMC(units=4)
    posterior = svidag.fit(x, method=few, mechanism="nonlinear", progress=False)
    assert posterior.save(tmp_path / "run").stat().st_size < 1.5 * x.nbytes
    loaded = svidag.load(tmp_path / "run")
    assert np.array_equal(loaded.mechanisms.model.columns, posterior.mechanisms.model.columns)


LOADING = """
import sys
import svidag
svidag.load(sys.argv[1])
heavy = {"flowjax", "equinox", "optax", "sklearn", "plotly", "networkx"} & set(sys.modules)
assert not heavy, heavy
"""


def test_loading_imports_no_more_than_it_needs(tmp_path):
    path = exact().save(tmp_path / "run.svidag")
    subprocess.run([sys.executable, "-c", LOADING, str(path)], check=True, timeout=120)
