"""The tests check the annotations of svidag: a wrong shape or type is an error."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import annotations
from svidag.mechanisms.linear import LinearGaussian
from svidag.orders.permutation import possible_edges


@pytest.mark.parametrize("call", ["first", "second"])
def test_a_wrong_shape_is_noticed(call):
    with pytest.raises(TypeCheckError, match=r"from_values.*\n.*parameter 'values'"):
        LinearGaussian.from_values(np.zeros(3))


def test_sizes_that_differ_are_noticed():
    with pytest.raises(TypeCheckError, match="possible_edges"):
        possible_edges(np.array([[0, 1, 2]]), np.ones((4, 4), dtype=bool))


def test_the_first_calls_of_a_test_are_checked_and_then_one_in_many():
    @annotations.check
    def double(x: int) -> float:
        return 2.0 * x

    def noticed(calls):
        count = 0
        for _ in range(calls):
            try:
                double(0.5)
            except TypeCheckError:
                count += 1
        return count

    assert noticed(annotations.FIRST) == annotations.FIRST
    assert noticed(annotations.EVERY) == 1
    annotations.begin_test()
    assert noticed(annotations.FIRST) == annotations.FIRST
