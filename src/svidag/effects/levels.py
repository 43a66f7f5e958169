"""Effects of and on discrete variables, in the words of the table.

A discrete cause goes from one of its levels to another. The effect on a discrete variable is the
change of the probability of one of its levels:

    P(y = k | do(x = to)) − P(y = k | do(x = at)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svidag.data import Kind
from svidag.data.columns import show
from svidag.data.kinds import Level
from svidag.effects.arguments import (
    kind_of,
    levels_of,
    next_value,
    number,
    setting,
    usual_outcome,
    usual_value,
)
from svidag.effects.estimation import share_before
from svidag.effects.query import EffectQuery
from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior import Posterior


@dataclass(frozen=True)
class LevelWords:
    """What an effect of or on a discrete variable is about.

    Attributes
    ----------
    levels
        The levels of a discrete cause, before and after; None for others.
    outcome
        The level of a discrete effect whose probability changes; None for others.
    before
        Its probability before; None for others.
    """

    levels: tuple[Level, Level] | None
    outcome: Level | None
    before: float | None


def moves(posterior: Posterior, x: int, change: Any, at: Any, to: Any) -> tuple[float, float]:
    """From where the cause goes, and by how much; codes of a discrete one."""
    name, discrete = show(posterior.names[x]), bool(levels_of(posterior, x))
    start = usual_value(posterior, x) if at is None else setting(posterior, x, at, "at")
    if discrete and change != 1.0:
        raise ValueError(f"{name} is discrete: say from which value it goes to which by at and to")
    if to is not None and change != 1.0:
        raise ValueError("say either change or to, not both")
    if to is not None:
        step = setting(posterior, x, to, "to") - start
    elif discrete:
        step = next_value(posterior, x, start) - start
    else:
        step = number(change, "change")
    if step == 0:
        raise ValueError("change must not be 0: by how much is the cause moved?")
    if kind_of(posterior, x) is Kind.COUNT:
        setting(posterior, x, start + step, f"{name} after the change")
    return start, step


def outcome_of(posterior: Posterior, y: int, value: Any) -> int | None:
    """The code of the level that is meant of a discrete effect; None for others."""
    if not levels_of(posterior, y):
        if value is not None:
            raise ValueError(
                f"value is for discrete effects; {show(posterior.names[y])} is "
                f"{kind_of(posterior, y)}, and its mean is what changes"
            )
        return None
    return (
        usual_outcome(posterior, y) if value is None else int(setting(posterior, y, value, "value"))
    )


def level_words(
    posterior: Posterior, distribution: ParameterDistribution, query: EffectQuery, n: int, seed: int
) -> LevelWords | None:
    """The labels of an effect; None where neither variable is discrete."""
    causes = levels_of(posterior, query.cause)
    effects = levels_of(posterior, query.effect)
    if not causes and not effects:
        return None
    start = float(query.fixed[query.cause])
    ends = (causes[int(start)], causes[int(start + query.change)]) if causes else None
    if query.outcome is None:
        return LevelWords(ends, None, None)
    before = share_before(posterior, distribution, query, n, seed)
    return LevelWords(ends, effects[query.outcome], before)
