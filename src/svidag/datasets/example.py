"""The shape every data set comes in: a table, the graph behind it, and what was done to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Shaped

from svidag.datasets.structural import StructuralModel
from svidag.graph import is_dag


@dataclass(frozen=True)
class Example:
    """A table with the causal graph that is taken as its truth.

    Attributes
    ----------
    data : DataFrame [N, m]
        Rows in original units; nothing is standardised or transformed.
    truth : DataFrame [m, m]
        1 where the row's variable (`cause`) is a parent of the column's (`effect`), else 0.
    interventions : DataFrame [N, m] or None
        True where an experiment set the variable in that row; None if there was none.
    description : str
        What this is and where it comes from, in a sentence or two.
    conditions : Series [N] or None
        The experiment each row belongs to, where the data set has named experiments.
    model : StructuralModel or None
        The equations that made the data, where they are known.
    batches : Series [N] or None
        The batch each row was measured in, 0, 1, …, where there are several. It is not a variable
        of the graph: it may shift any variable, and none of them causes it.
    groups : Series [N] or None
        The group (family, person, plot) each row belongs to, where rows of a group are alike.

    Examples
    --------
    >>> from svidag.datasets import synthetic
    >>> example = synthetic(m=3, edges=2, n=5, seed=1)
    >>> example.data.shape, int(example.truth.to_numpy().sum()), example.cyclic
    ((5, 3), 2, False)
    """

    data: pd.DataFrame
    truth: pd.DataFrame
    interventions: pd.DataFrame | None
    description: str
    conditions: pd.Series | None = None
    model: StructuralModel | None = None
    batches: pd.Series | None = None
    groups: pd.Series | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, in the order of the columns."""
        return tuple(self.data.columns)

    @property
    def cyclic(self) -> bool:
        """Whether the truth has a directed cycle, so that no DAG can equal it."""
        return not is_dag(self.truth.to_numpy())


def labelled(values: Shaped[np.ndarray, "m m"], names: Sequence[str]) -> pd.DataFrame:
    """Matrix over ordered pairs as a frame with `cause` rows and `effect` columns."""
    causes, effects = pd.Index(names, name="cause"), pd.Index(names, name="effect")
    return pd.DataFrame(values, index=causes, columns=effects, copy=True)
