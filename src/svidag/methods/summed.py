"""Small problems: the sum over all orders and parent sets, exactly."""

from __future__ import annotations

from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.methods.task import Found, Task

MOST_LINEAR = 18
"""Variables up to which linear problems are summed: eight seconds."""

MOST_NETWORK = 25_000_000
"""Parent sets times rows up to which networks are: half a minute."""


def feasible(model: LinearGaussian | WideNetwork) -> bool:
    """Whether the sum takes little time."""
    if isinstance(model, LinearGaussian):
        return model.m <= MOST_LINEAR
    return model.columns.shape[1] * 2.0**model.m <= MOST_NETWORK


def run(task: Task) -> Found:
    """Score all parent sets and sum over all orders."""
    task.report("scoring all parent sets", 0, None)
    prior = task.problem.prior
    distribution = ExactOrders.build(
        parent_weights(task.scores.score_tables(), prior), prior.required
    )
    figures = {"edges": "all orders", "status": "exact"}
    return Found(distribution, figures, {"edges": "table"}, distribution.log_evidence)
