"""An effect query: which variables are set by intervention, and which equations then matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.graph import ancestors, distinct


class RelevantNodes(NamedTuple):
    """The nodes that matter to the effect in each graph.

    `reached` says whether a path leads from the cause to the effect, past all that is set from
    outside; `relevant` are the nodes whose equations decide about the effect, and `moved` those of
    them that the cause moves.
    """

    reached: Bool[np.ndarray, " S"]
    relevant: Bool[np.ndarray, "S m"]
    moved: Bool[np.ndarray, "S m"]


@dataclass(frozen=True, eq=False)
class EffectQuery:
    """Which effect is meant, by column: `fixed` is NaN where nothing is set from outside.

    `outcome` is the code of a level of a discrete effect whose probability, no mean, is meant.

    Examples
    --------
    >>> import numpy as np
    >>> chain = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]], dtype=np.uint8)
    >>> query = EffectQuery(cause=1, effect=2, change=1.0, fixed=np.array([np.nan, 0.0, np.nan]))
    >>> query.relevant_nodes(chain).relevant.tolist()
    [[False, False, True]]
    """

    cause: int
    effect: int
    change: float
    fixed: Float[np.ndarray, " m"]
    outcome: int | None = None

    def measured(self, rows: Float[np.ndarray, "*rows m"]) -> Float[np.ndarray, "*rows"]:
        """The effect, or whether it has the level that is meant."""
        values = rows[..., self.effect]
        return values if self.outcome is None else (values == self.outcome).astype(float)

    def relevant_nodes(self, graphs: UInt8[np.ndarray, "S m m"]) -> RelevantNodes:
        """The nodes whose equations decide about the effect."""
        free = np.isnan(self.fixed)
        descends = ancestors(graphs * free.astype(np.uint8))
        relevant = descends[:, :, self.effect] & free
        relevant[:, self.effect] = True
        return RelevantNodes(
            descends[:, self.cause, self.effect], relevant, relevant & descends[:, self.cause]
        )


def structures(
    graphs: UInt8[np.ndarray, "S m m"], nodes: Bool[np.ndarray, "S m"]
) -> Int[np.ndarray, " S"]:
    """Number the graphs by the parents of these nodes alone.

    Examples
    --------
    >>> import numpy as np
    >>> graphs = np.array([[[0, 1], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]], dtype=np.uint8)
    >>> structures(graphs, np.array([[True, False]] * 3)).tolist()
    [0, 1, 0]
    """
    return distinct(graphs * nodes[:, None].astype(np.uint8))[1]
