"""The tests check the annotations of svidag: a wrong shape or type is an error, each time."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from svidag.mechanisms.linear import LinearGaussian
from svidag.orders.permutation import possible_edges


@pytest.mark.parametrize("call", ["first", "second"])
def test_a_wrong_shape_is_noticed(call):
    with pytest.raises(TypeCheckError, match=r"from_values.*\n.*parameter 'values'"):
        LinearGaussian.from_values(np.zeros(3))


def test_sizes_that_differ_are_noticed():
    with pytest.raises(TypeCheckError, match="possible_edges"):
        possible_edges(np.array([[0, 1, 2]]), np.ones((4, 4), dtype=bool))
