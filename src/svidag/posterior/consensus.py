"""One graph that stands for a posterior: the DAG nearest, on average, to a draw from it.

For a threshold t, a wrong arrow costs t and a missing one 1 − t. The expected cost of a graph G is

    Σ_ij t G_ij (1 − p_ij) + (1 − t)(1 − G_ij) p_ij = constant − Σ_{i→j in G} (p_ij − t),

so the best graph has the largest Σ (p_ij − t) among all DAGs. At t = ½ it minimises the expected
number of cells in which G and a draw differ; a reversed arrow differs in two.

Arrows with p_ij > t often form no cycle, and then they are the answer. Otherwise only the strongly
connected parts of their graph are open. Each is an integer programme, an arrow to be dropped from
every cycle, to which cycles are added until none is left. Should that take too long, the cycles are
cut greedily, and in the order so found single nodes are moved while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, UInt8
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from svidag.graph import find_cycle, topological_order
from svidag.posterior.posterior import Posterior
from svidag.posterior.text import Readable, arrow_lines, counted, probability, shortened

CYCLES = 400
"""How many cycles an integer programme may have to cut; more take minutes."""
BRANCHES = 50
"""How many branches it may take."""
CERTAIN = 1e-9
"""An arrow this close to probability 1 is in every draw, and so in the consensus."""


@dataclass(frozen=True, eq=False, repr=False)
class Consensus(Readable):
    """The DAG with the least expected cost, and what had to give way to its being one.

    Attributes
    ----------
    graph
        Labelled by cause and effect.
    threshold
        t: what a wrong arrow costs, of 1 shared with a missing one.
    expected_differences
        The expected number of cells in which the graph and a draw differ.
    left_out
        Arrows above the threshold that would have closed a cycle: cause, effect, probability.
    exact
        Whether no DAG can have a lower cost; False where a search had to do.
    """

    graph: pd.DataFrame
    threshold: float
    expected_differences: float
    left_out: pd.DataFrame
    exact: bool

    def _text(self) -> tuple[str, list[str]]:
        lines = arrow_lines(self.graph)
        what = "least possible" if self.exact else "least found"
        cost = "" if self.threshold == 0.5 else f", threshold {self.threshold:g}"
        apart = (
            f"a draw differs from it in {self.expected_differences:.3g} cells on average ({what})"
        )
        left_out = [
            f"left out, to avoid a cycle: {row['cause']} → {row['effect']} "
            f"({probability(row['probability'])})"
            for row in self.left_out.to_dict("records")
        ]
        title = f"Consensus graph with {counted(len(lines), 'arrow')}{cost}"
        return title, [apart, *shortened(lines), *shortened(left_out)]


def consensus(posterior: Posterior, threshold: float = 0.5) -> Consensus:
    """The graph nearest to the posterior's draws; see `Posterior.consensus`.

    Examples
    --------
    >>> from svidag.posterior import DrawnGraphs
    >>> graphs = np.zeros((2, 2, 2), np.uint8)
    >>> graphs[0, 0, 1] = 1
    >>> found = consensus(Posterior(("a", "b"), DrawnGraphs(graphs, np.array([0.8, 0.2]))))
    >>> int(found.graph.loc["a", "b"]), round(found.expected_differences, 2), found.exact
    (1, 0.2, True)
    """
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1; got {threshold!r}")
    frame = posterior.edge_probabilities()
    p = frame.to_numpy()
    graph, exact = least_cost_graph(p, threshold)
    cause, effect = np.nonzero((p > threshold) & (graph == 0))
    names = np.array(posterior.names, dtype=object)
    left_out = pd.DataFrame(
        {"cause": names[cause], "effect": names[effect], "probability": p[cause, effect]}
    )
    return Consensus(
        graph=pd.DataFrame(graph, index=frame.index, columns=frame.columns),
        threshold=float(threshold),
        expected_differences=float(np.where(graph == 1, 1 - p, p).sum()),
        left_out=left_out,
        exact=exact,
    )


def least_cost_graph(
    p: Float[np.ndarray, "m m"], threshold: float
) -> tuple[UInt8[np.ndarray, "m m"], bool]:
    """The DAG with the largest Σ (p_ij − t), and whether it is known to be that.

    Examples
    --------
    >>> p = np.array([[0.0, 0.9, 0.0], [0.0, 0.0, 0.6], [0.6, 0.0, 0.0]])
    >>> p[2, 0] = 0.55
    >>> graph, exact = least_cost_graph(p, 0.5)
    >>> graph.tolist(), exact
    ([[0, 1, 0], [0, 0, 1], [0, 0, 0]], True)
    """
    gain = np.where(p > threshold, p - threshold, 0.0)
    # Arrows in every draw form no cycle; outweighing all others, they are all kept.
    gain[p > 1 - CERTAIN] = 1.0 + gain.sum()
    kept = gain > 0
    count, part = connected_components(kept, directed=True, connection="strong")
    exact = True
    for nodes in (np.flatnonzero(part == c) for c in range(count)):
        inside = np.ix_(nodes, nodes)
        kept[inside], solved = without_cycles(gain[inside])
        exact &= solved
    return kept.astype(np.uint8), exact


def without_cycles(
    gain: Float[np.ndarray, "k k"],
) -> tuple[Bool[np.ndarray, "k k"], bool]:
    """The arrows with gain that are kept so that none form a cycle, and whether that is the best.

    Examples
    --------
    >>> kept, exact = without_cycles(np.array([[0.0, 0.2, 0.0], [0.0, 0.0, 0.1], [0.3, 0.0, 0.0]]))
    >>> kept.astype(int).tolist(), exact
    ([[0, 1, 0], [0, 0, 0], [1, 0, 0]], True)
    """
    arrows = gain > 0
    cycles: list[np.ndarray] = []
    while len(cycles) <= CYCLES:
        kept = _cut(gain, cycles) if cycles else arrows
        if kept is None:
            break
        found, _ = _greedily_cut(kept, gain)
        if not found:
            return kept, True
        cycles += found
    order = topological_order(_greedily_cut(arrows, gain)[1])
    return arrows & _forward(_improved(gain, order)), False


def _cut(gain: np.ndarray, cycles: list[np.ndarray]) -> Bool[np.ndarray, "k k"] | None:
    """The arrows left when the least gain is given up that cuts all these cycles."""
    kept = gain > 0
    hit = np.stack([cycle[kept] for cycle in cycles]).astype(float)
    found = milp(
        gain[kept],
        integrality=np.ones(hit.shape[1]),
        bounds=(0, np.where(gain[kept] < 1, 1, 0)),  # certain arrows stay
        constraints=LinearConstraint(csr_array(hit), lb=1),
        options={"mip_rel_gap": 0.0, "node_limit": BRANCHES},
    )
    if not found.success:
        return None
    kept[kept] = found.x < 0.5
    return kept


def _greedily_cut(
    kept: Bool[np.ndarray, "k k"], gain: np.ndarray
) -> tuple[list[np.ndarray], Bool[np.ndarray, "k k"]]:
    """Cycles, as matrices, found by dropping the weakest arrow of each; and what is left then."""
    kept, cycles = kept.copy(), []
    while (nodes := find_cycle(kept.astype(np.uint8))) is not None:
        steps = np.array(nodes), np.roll(nodes, -1)
        cycles.append(np.zeros_like(kept))
        cycles[-1][steps] = True
        weakest = gain[steps].argmin()
        kept[steps[0][weakest], steps[1][weakest]] = False
    return cycles, kept


def _improved(gain: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Take nodes out and put them back at their best place until none moves."""
    moved = True
    while moved:
        moved = False
        for node in range(len(order)):
            rest = order[order != node]
            ahead = np.concatenate([[0.0], np.cumsum(gain[rest, node] - gain[node, rest])])
            here, there = int(np.flatnonzero(order == node)[0]), int(ahead.argmax())
            if ahead[there] > ahead[here] + 1e-12:
                order, moved = np.insert(rest, there, node), True
    return order


def _forward(order: Int[np.ndarray, " k"]) -> Bool[np.ndarray, "k k"]:
    """Which pairs the order puts the right way round."""
    place = np.argsort(order)
    return place[:, None] < place[None, :]
