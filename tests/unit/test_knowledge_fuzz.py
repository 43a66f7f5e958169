"""Whatever a knowledge file holds, it is read or refused with a ValueError that names it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from svidag.prior import Prior

pytestmark = pytest.mark.slow  # many generated files

NAMES = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["no", "1", "null", "=", "<<", "~", "1e3"]
)
PAIRS = st.tuples(NAMES, NAMES).filter(lambda pair: pair[0] != pair[1])
quick = settings(max_examples=80, deadline=2000, derandomize=True, database=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("knowledge")


def refusal(call: Callable[[], Prior]) -> str | None:
    """The message of the ValueError, if there is one; any other error fails the test."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


@st.composite
def statements(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of every shape; each name has a number, and edges go up, so nothing clashes."""
    rank = {name: k for k, name in enumerate(draw(st.lists(NAMES, unique=True, max_size=6)))}
    upward = [(a, b) for a in rank for b in rank if rank[a] < rank[b]]
    some = st.lists(st.sampled_from(upward), unique=True) if upward else st.just([])
    beliefs = {pair: draw(st.floats(0.5, 1)) for pair in draw(some)}
    own = st.fixed_dictionaries({}, optional={pair: st.floats(0, 1e6) for pair in beliefs})
    confidence = draw(st.none() | own | (st.floats(0, 1e300) if beliefs else st.none()))
    return {
        "p": draw(st.none() | st.floats(0, 1)),
        "beliefs": beliefs,
        "confidence": confidence if confidence != {} else None,
        "shrink_to": draw(st.floats(0.01, 0.99)),
        "required": draw(some),
        "forbidden": [(b, a) for a, b in draw(some)],
        "tiers": [[name] for name in rank],
        "closed_tiers": draw(st.lists(st.integers(0, len(rank) - 1))) if rank else (),
        "nu_min": draw(st.floats(0, 100)),
    }


@quick
@given(stated=statements())
def test_any_prior_survives_a_file(stated, folder):
    prior, path = Prior(**stated), folder / "k.yaml"
    prior.to_file(path)
    assert Prior.from_file(path) == prior
    assert Prior.from_dict(json.loads(json.dumps(prior.to_dict()))) == prior


def reads_or_says_why(path: Path) -> None:
    message = refusal(lambda: Prior.from_file(path))
    assert message is None or message.startswith(f"{path}: ")


LINES = st.lists(
    st.text(max_size=20)
    | st.sampled_from(
        [
            *("/knowledge", "addtemporal", "1 a b", "2* c", "forbiddirect", "a b", "requiredirect"),
            *("from,to,p", "from,to,status", "a,b,0.5", "a,b,required", '"a', "a;b"),
            *(
                "p: 0.1",
                "tiers:",
                "- [a, b]",
                "- {from: a, to: b, p: 0.2}",
                "beliefs:",
                "required:",
            ),
            *("? [a]", "- &x a", "- *x", "<<: {p: 1}", "p: !!int x", "{", "}", "[", "|", ">", "%"),
            *('{"p": 0.1}', '{"tiers": [["a"]]}', "0b_", "2020-99-99", "---", "...", "\t", "\0"),
        ]
    ),
    max_size=8,
)


@quick
@given(lines=LINES, ending=st.sampled_from(["yaml", "json", "csv", "tsv", "txt"]))
def test_any_text_reads_or_says_why(lines, ending, folder):
    path = folder / f"whitelist.{ending}"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    reads_or_says_why(path)


@quick
@given(raw=st.binary(max_size=60), ending=st.sampled_from(["yaml", "json", "csv", "txt"]))
def test_any_bytes_read_or_say_why(raw, ending, folder):
    path = folder / f"k.{ending}"
    path.write_bytes(raw)
    reads_or_says_why(path)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.sampled_from(["from", "to", "p", "cause", "effect"]), inner)
    ),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [
        *("p", "expected_parents", "beliefs", "confidence", "shrink_to", "required", "forbidden"),
        *("tiers", "closed_tiers", "search_space", "nu_min", "required_edges", "temporal_order"),
        *("tier_settings", "forbidden_groups", "context_all", "beleifs"),
    ]
)


@quick
@given(words=st.dictionaries(WORDS, VALUES, max_size=4), ending=st.sampled_from(["yaml", "json"]))
def test_any_plain_data_reads_or_says_why(words, ending, folder):
    path = folder / f"k.{ending}"
    text = yaml.safe_dump(words) if ending == "yaml" else json.dumps(words)
    path.write_text(text, encoding="utf-8")
    reads_or_says_why(path)


@quick
@given(stated=VALUES)
@pytest.mark.parametrize(
    "argument", ["p", "beliefs", "confidence", "required", "tiers", "closed_tiers", "shrink_to"]
)
def test_any_argument_is_accepted_or_refused_with_its_name(argument, stated):
    message = refusal(lambda: Prior(**{argument: stated}))
    assert message is None or argument in message
