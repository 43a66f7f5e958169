"""Centre and scale of each column, and the map to and from standard units."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64

SMALLEST = 1e-150
"""Range below which a column counts as constant, since squares leave the range of float64."""


def read_only(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return the array C-contiguous and locked against writing; a writable one is copied."""
    if array.dtype == dtype and array.flags.c_contiguous and not array.flags.writeable:
        return array
    locked = np.array(array, dtype=dtype, order="C")
    locked.setflags(write=False)
    return locked


@dataclass(frozen=True, eq=False)
class Scaling:
    """The affine map z = (x − centre) / scale, column by column.

    Examples
    --------
    >>> import numpy as np
    >>> scaling = Scaling(centre=np.array([1.0, 0.0]), scale=np.array([2.0, 5.0]))
    >>> scaling.apply(np.array([[5.0, 10.0]]))
    array([[2., 2.]])
    >>> scaling.invert(np.array([[2.0, 2.0]]))
    array([[ 5., 10.]])
    """

    centre: Float64[np.ndarray, " m"]
    scale: Float64[np.ndarray, " m"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", read_only(self.centre, np.float64))
        object.__setattr__(self, "scale", read_only(self.scale, np.float64))

    def __reduce__(self):
        return Scaling, (self.centre, self.scale)

    def apply(self, values: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "... m"]:
        """Return values in original units as standard units."""
        return (values - self.centre) / self.scale

    def invert(self, values: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "... m"]:
        """Return values in standard units as original units."""
        return values * self.scale + self.centre


def centre_and_scale(column: Float64[np.ndarray, " N"]) -> tuple[float, float]:
    """Return the mean and the standard deviation (divisor N); the scale of a constant is 1."""
    low = float(column.min())
    width = float(column.max()) - low
    if width < SMALLEST:
        return low, 1.0
    # In units of the range, neither a large offset nor tiny units cost precision.
    unit = (column - low) / width
    return low + width * float(unit.mean()), width * float(unit.std())


def scaling_of(
    values: Float64[np.ndarray, "N m"],
    intervened: Bool[np.ndarray, "N m"],
    scaled: Bool[np.ndarray, " m"] | None = None,
) -> Scaling:
    """Return the scaling of each column over the rows where it was not intervened on.

    Columns that are not to be `scaled` keep their units.

    A column intervened on in every row has no likelihood of its own; its scaling is over all rows.
    """
    moments = np.stack([np.zeros(values.shape[1]), np.ones(values.shape[1])])
    for j in range(values.shape[1]) if scaled is None else np.flatnonzero(scaled):
        free = ~intervened[:, j]
        column = values[free, j] if free.any() else values[:, j]
        moments[:, j] = centre_and_scale(column)
    return Scaling(centre=moments[0], scale=moments[1])
