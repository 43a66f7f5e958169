"""Whatever happens to the bytes of a file, loading gives the same posterior or a clear error."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import svidag
from svidag.io.tree import Encoder, decode

pytestmark = pytest.mark.slow  # many generated files

QUICK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(0)
    return svidag.fit(
        rng.standard_normal((9, 3)),
        method=svidag.methods.OrderMCMC(exact=False, orders=3, chains=2),
        mechanism="linear",
        progress=False,
    )


@pytest.fixture(scope="module")
def content(posterior, tmp_path_factory):
    return posterior.save(tmp_path_factory.mktemp("saved") / "run.svidag").read_bytes()


def check(path, content, posterior):
    path.write_bytes(content)
    try:
        loaded = svidag.load(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise
        return False
    assert loaded.names == posterior.names
    assert loaded.edge_probabilities().equals(posterior.edge_probabilities())
    assert (loaded.sample(20) == posterior.sample(20)).all()
    assert loaded.problem.data.checksum == posterior.problem.data.checksum
    assert loaded.diagnostics.settings == posterior.diagnostics.settings
    assert loaded.diagnostics.reasons == posterior.diagnostics.reasons
    return True


def test_untouched_bytes_load(posterior, content, tmp_path):
    assert check(tmp_path / "run", content, posterior)


@QUICK
@given(data=st.data())
def test_flipped_bytes_are_noticed_or_do_not_matter(data, posterior, content, tmp_path):
    where = st.one_of(
        st.integers(0, len(content) - 1),
        st.integers(len(content) - 1500, len(content) - 1),  # the directory of the ZIP file
    )
    damaged = bytearray(content)
    for position in data.draw(st.lists(where, min_size=1, max_size=4)):
        damaged[position] ^= data.draw(st.integers(1, 255))
    check(tmp_path / "run", bytes(damaged), posterior)


@QUICK
@given(data=st.data())
def test_truncation_and_insertion_are_noticed_or_do_not_matter(data, posterior, content, tmp_path):
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.integers(0, len(content) - at))
    inserted = data.draw(st.binary(max_size=30))
    check(tmp_path / "run", content[:at] + inserted + content[at + cut :], posterior)
    assert not check(tmp_path / "run", content[:at], posterior)


@QUICK
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(posterior, tmp_path, noise):
    assert not check(tmp_path / "run", noise, posterior)
    assert not check(tmp_path / "run", b"PK\x03\x04" + noise, posterior)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(["$array", "$tuple"]), inner)
        | st.dictionaries(st.integers() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=12,
)


@QUICK
@given(plain)
def test_nested_values_come_back_through_text(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value), allow_nan=False)
    assert repr(decode(json.loads(text), encoder.arrays)) == repr(value)
