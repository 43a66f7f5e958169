"""Settings say what is wrong with a value when it is given, and describe themselves."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from svidag.methods import METHODS, SVIDAG, OrderMCMC
from svidag.run.settings import Field, Settings, setting, suggest


@dataclass(frozen=True)
class Walk(Settings):
    """One setting of every kind."""

    steps: int = setting(10, "Steps to take.", least=1)
    pace: float = setting(1.5, "Steps a second.", above=0, most=3)
    name: str = setting("walk", "What to call it.")
    ground: str = setting("sand", "What is walked on.", choices=("sand", "rock"))
    back: bool = setting(False, "Whether it goes back.")
    rest: int | None = setting(None, "Steps between two rests.", least=2)
    turns: tuple[int, ...] = setting((1, 2), "Steps at which to turn.", least=0)
    place: tuple[float, float] = setting((0.0, 0.0), "Where it begins.")
    map: Any = setting(None, "A map.")
    guide: Callable[[int], int] = setting(abs, "Says where to go.")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", np.int64(3)),
        ("pace", 2),
        ("pace", np.float32(0.5)),
        ("pace", np.int8(1)),
        ("back", True),
        ("rest", None),
        ("rest", 2),
        ("turns", ()),
        ("turns", (0, 3, 9)),
        ("place", (1, 2.5)),
        ("map", object()),
        ("map", "text"),
        ("guide", len),
    ],
)
def test_a_value_of_the_right_type_is_kept_as_it_is(name, value):
    assert getattr(Walk(**{name: value}), name) is value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", 3.0, "a whole number; got 3.0"),
        ("steps", "3", "a whole number; got '3'"),
        ("steps", True, "a whole number; got True"),
        ("steps", None, "a whole number; got None"),
        ("pace", "fast", "a number; got 'fast'"),
        ("pace", True, "a number; got True"),
        ("pace", 1 + 0j, r"a number; got \(1\+0j\)"),
        ("name", 3, "text; got 3"),
        ("ground", None, "text; got None"),
        ("back", 1, "true or false; got 1"),
        ("back", "no", "true or false; got 'no'"),
        ("rest", "never", "a whole number or None; got 'never'"),
        ("rest", False, "a whole number or None; got False"),
        ("turns", 3, "a list of whole numbers; got 3"),
        ("turns", "12", "a list of whole numbers; got '12'"),
        ("turns", (1, 2.5), r"a list of whole numbers; got \(1, 2.5\)"),
        ("turns", (1, True), r"a list of whole numbers; got \(1, True\)"),
        ("place", (1.0,), r"a list of numbers; got \(1.0,\)"),
        ("place", (1.0, "x"), r"a list of numbers; got \(1.0, 'x'\)"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(name, value, words):
    with pytest.raises(ValueError, match=f"^{name} must be {words}$"):
        Walk(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", 0, "at least 1; got 0"),
        ("pace", 0, "above 0; got 0"),
        ("pace", 3.1, "at most 3; got 3.1"),
        ("pace", float("nan"), "above 0; got nan"),
        ("pace", float("inf"), "at most 3; got inf"),
        ("rest", 1, "at least 2; got 1"),
        ("turns", (4, -1), "at least 0; got -1"),
        ("ground", "ice", r"one of \['sand', 'rock'\]; got 'ice'"),
    ],
)
def test_a_value_outside_the_limits_is_refused(name, value, words):
    with pytest.raises(ValueError, match=f"^{name} must be {words}$"):
        Walk(**{name: value})


@pytest.mark.parametrize(
    "values", [{"steps": 1}, {"pace": 1e-9}, {"pace": 3}, {"rest": 2}, {"ground": "rock"}]
)
def test_the_limits_themselves_are_allowed_unless_they_must_be_exceeded(values):
    assert values.items() <= Walk(**values).values().items()


def test_other_values_by_name_leave_the_settings_as_they_were():
    before = Walk(steps=5)
    after = before.with_values({"pace": 2.0, "back": True})
    assert (after.steps, after.pace, after.back) == (5, 2.0, True)
    assert type(after) is Walk
    assert before == Walk(steps=5)
    assert before.with_values({}) == before


def test_lists_count_as_tuples():
    found = Walk().with_values({"turns": [3, 4], "map": [[1, 2], [3]], "name": "ab"})
    assert found.turns == (3, 4)
    assert found.map == ((1, 2), (3,))
    assert found.name == "ab"
    with pytest.raises(ValueError, match="turns must be at least 0; got -3"):
        Walk().with_values({"turns": [-3]})


def test_other_values_are_checked():
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        Walk().with_values({"steps": 0})


def test_an_unknown_name_is_told_with_the_nearest_or_all_that_are_known():
    with pytest.raises(ValueError, match=r"^unknown setting 'stepz'; did you mean 'steps'\?$"):
        Walk().with_values({"stepz": 3})
    with pytest.raises(ValueError, match="unknown setting 'qqq'; known are back, ground, guide,"):
        Walk().with_values({"steps": 3, "qqq": 3})


def test_suggestions():
    assert suggest("chain", {"chains": 1, "thin": 2}) == "; did you mean 'chains'?"
    assert suggest("qqq", ["thin", "chains"]) == "; known are chains, thin"


def test_all_values_by_name():
    values = Walk(steps=3).values()
    assert list(values) == [field.name for field in dataclasses.fields(Walk)]
    assert values["steps"] == 3
    assert Walk(**values) == Walk(steps=3)


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Walk().steps = 3


def test_settings_describe_themselves():
    described = Walk.describe()
    assert described[0] == Field("steps", "a whole number", 10, "Steps to take.")
    assert {field.name: field.type for field in described} == {
        "steps": "a whole number",
        "pace": "a number",
        "name": "text",
        "ground": "'sand' or 'rock'",
        "back": "true or false",
        "rest": "a whole number or None",
        "turns": "a list of whole numbers",
        "place": "a list of numbers",
        "map": "an object",
        "guide": "an object",
    }
    assert [field.default for field in described] == list(Walk().values().values())


def test_settings_of_a_parent_come_along():
    @dataclass(frozen=True)
    class Hike(Walk):
        height: float = setting(100.0, "Metres.", least=0)
        steps: int = setting(1000, "Many steps.", least=100)

    assert [field.name for field in Hike.describe()][-1] == "height"
    assert Hike.describe()[0] == Field("steps", "a whole number", 1000, "Many steps.")
    with pytest.raises(ValueError, match="height must be at least 0; got -1"):
        Hike(height=-1)
    with pytest.raises(ValueError, match="steps must be at least 100; got 10"):
        Hike(steps=10)


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_every_setting_of_a_method_is_described_in_a_sentence(method):
    described = method.describe()
    assert {field.name: field.default for field in described} == method.values()
    for field in described:
        assert field.help.endswith("."), field.name
        assert "\n" not in field.help
        assert field.type != "an object" or "optimiser" in field.name


@pytest.mark.usefixtures("as_users_call")
def test_methods_refuse_wrong_types_and_take_whole_numbers_as_numbers():
    with pytest.raises(ValueError, match="chains must be a whole number; got 'many'"):
        OrderMCMC(chains="many")
    assert OrderMCMC(agreement=1).rule.tolerance == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 2, "thin": 3, "check_every": 3}, "rounds must be at least thin = 3, .* got 2"),
        ({"check_every": 5, "thin": 2}, "check_every must be a multiple of thin = 2; got 5"),
        ({"bound": "published", "guide": "mean-field"}, "bound='published' .* needs a flow"),
    ],
)
def test_settings_of_a_guide_that_do_not_go_together_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        SVIDAG(**values)


def test_powers_are_known_once_the_ladder_is():
    with pytest.raises(ValueError, match="levels and flattest must be resolved"):
        _ = SVIDAG(levels=3).powers
    np.testing.assert_allclose(SVIDAG(levels=3, flattest=0.25).powers, [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(SVIDAG(levels=1, flattest=0.25).powers, [1.0])
