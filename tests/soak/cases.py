"""Names of cases, their random numbers, and what came of each."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

DONE, REFUSED = "done", "refused"
UNCLEAR, CHANGED, HANG = "unclear error", "lost or changed result", "hang"
FAILURES = (UNCLEAR, CHANGED, HANG)
"""What must never happen."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case: a right result, a clear refusal, or one of the failures."""

    case: str
    verdict: str
    detail: str = ""
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return asdict(self)

    @property
    def failed(self) -> bool:
        """Whether it must never happen."""
        return self.verdict in FAILURES


def generator(seed: int, case: str) -> np.random.Generator:
    """The random numbers of a case, which depend on nothing but the seed and its name."""
    digest = hashlib.sha256(f"{seed} {case}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def pick(rng: np.random.Generator, values: Any) -> Any:
    """One of several values."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def chance(rng: np.random.Generator, probability: float) -> bool:
    """True with a probability."""
    return bool(rng.random() < probability)
