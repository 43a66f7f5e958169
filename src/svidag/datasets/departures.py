"""Ways in which rows depart from independent draws of the equations: what models assume away.

Every departure draws from a stream of its own, named after it, so that asking for one changes no
draw of the graph, the equations, the noise or another departure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int
from scipy.signal import lfilter

from svidag.datasets.seeds import stream

Transform = Callable[[np.ndarray], np.ndarray]

TRANSFORMS: Mapping[str, Transform] = MappingProxyType(
    {
        "exponential": np.exp,
        "cubic": lambda z: z + z**3,
        "logarithmic": lambda z: np.arcsinh(3 * z),
    }
)
"""Increasing functions of a standardised value: right-skewed, stretched and compressed tails."""

DISTORTIONS = (*TRANSFORMS, "mixed")


@dataclass(frozen=True)
class Departures:
    """What was asked for; `svidag.datasets.synthetic` documents each field.

    Examples
    --------
    >>> Departures(measurement_error=1.5)
    Traceback (most recent call last):
        ...
    ValueError: measurement_error must be a share of the variance in [0, 1), got 1.5
    """

    hidden: int = 0
    batches: int = 0
    batch_shift: float = 1.0
    autocorrelation: float = 0.0
    groups: int = 0
    group_share: float = 0.5
    measurement_error: float = 0.0
    distortion: str | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "batches", "groups"):
            _check_count(name, getattr(self, name))
        for name in ("measurement_error", "group_share"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise ValueError(f"{name} must be a share of the variance in [0, 1), got {share}")
        if not -1 < self.autocorrelation < 1:
            raise ValueError(
                f"autocorrelation must lie strictly between −1 and 1, got {self.autocorrelation}"
            )
        if not 0 <= self.batch_shift < np.inf:
            raise ValueError(
                f"batch_shift must be a number of noise deviations ≥ 0, got {self.batch_shift}"
            )
        if self.distortion is not None and self.distortion not in DISTORTIONS:
            raise ValueError(
                f"distortion must be one of {', '.join(DISTORTIONS)} or None, "
                f"got {self.distortion!r}"
            )

    def check_size(self, m: int, n: int) -> None:
        """Raise if m variables and n rows are too few."""
        if self.hidden and m < 2:
            raise ValueError(f"hidden causes act on two variables, so m must be ≥ 2, got {m}")
        for name in ("batches", "groups"):
            if getattr(self, name) > n:
                raise ValueError(f"{name} must be at most n = {n}, got {getattr(self, name)}")

    @property
    def description(self) -> str:
        """The departures from the model, as the end of a sentence; empty if there are none."""
        parts = {
            f"{self.hidden} hidden common causes": self.hidden,
            f"{self.batches} batches": self.batches,
            f"autocorrelation {self.autocorrelation}": self.autocorrelation,
            f"{self.groups} groups": self.groups,
            f"measurement error {self.measurement_error}": self.measurement_error,
            f"{self.distortion} distortion": self.distortion,
        }
        return "".join(f", {words}" for words, present in parts.items() if present)

    def disturb(
        self,
        unit: Float[np.ndarray, "N m"],
        batch: Int[np.ndarray, "N"] | None,
        group: Int[np.ndarray, "N"] | None,
        sd: Float[np.ndarray, "m"],
        seed: int,
    ) -> Float[np.ndarray, "N m"]:
        """Noise of the equations from unit noise, given the batch and the group of each row."""
        m = unit.shape[1]
        if self.autocorrelation:
            unit = _autocorrelated(unit, self.autocorrelation)
        if group is not None:
            s = self.group_share
            u = stream(seed, "group effects").standard_normal((self.groups, m))
            unit = np.sqrt(s) * u[group] + np.sqrt(1 - s) * unit
        noise = sd * unit
        if batch is not None:
            b = stream(seed, "batch shifts").standard_normal((self.batches, m))
            noise = noise + (self.batch_shift * sd * b)[batch]
        return noise

    def measure(self, x: Float[np.ndarray, "N m"], seed: int) -> Float[np.ndarray, "N m"]:
        """What an instrument shows of the values x: noisy by `measurement_error`, then bent."""
        if self.measurement_error:
            q = self.measurement_error
            e = stream(seed, "measurement error").standard_normal(x.shape)
            x = x + np.sqrt(q / (1 - q)) * x.std(axis=0) * e
        if self.distortion is not None:
            chosen = _transforms(self.distortion, x.shape[1], seed)
            x = np.column_stack([g(_standardised(x[:, j])) for j, g in enumerate(chosen)])
        return x


def assign(rows: int, parts: int, name: str, seed: int) -> Int[np.ndarray, "N"]:
    """The part each row belongs to: parts of equal size up to one, rows at random.

    Examples
    --------
    >>> np.bincount(assign(10, 3, "batches", seed=0)).tolist()
    [4, 3, 3]
    """
    return stream(seed, name).permutation(np.arange(rows) % parts)


def hidden_weights(
    count: int, m: int, bounds: tuple[float, float], seed: int
) -> Float[np.ndarray, "k m"]:
    """Coefficients of hidden common causes, each of two variables that are drawn at random.

    Examples
    --------
    >>> (hidden_weights(4, 6, (0.3, 0.7), seed=0) != 0).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """
    rng = stream(seed, "hidden")
    H = np.zeros((count, m))
    for k in range(count):
        pair = rng.choice(m, size=2, replace=False)
        H[k, pair] = rng.uniform(*bounds, size=2) * rng.choice(np.array([-1.0, 1.0]), size=2)
    return H


def _autocorrelated(unit: Float[np.ndarray, "N m"], rho: float) -> Float[np.ndarray, "N m"]:
    """e_t = ρ e_{t−1} + √(1 − ρ²) ε_t, of variance 1 from the first row on."""
    fresh = np.sqrt(1 - rho**2) * unit
    fresh[0] = unit[0]
    return np.asarray(lfilter([1.0], [1.0, -rho], fresh, axis=0))


def _transforms(name: str, m: int, seed: int) -> list[Transform]:
    """The function of each variable; ``"mixed"`` draws one for each."""
    if name != "mixed":
        return [TRANSFORMS[name]] * m
    drawn = stream(seed, "distortion").integers(len(TRANSFORMS), size=m)
    return [list(TRANSFORMS.values())[k] for k in drawn]


def _standardised(x: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    spread = x.std()
    return (x - x.mean()) / (spread if spread > 0 else 1.0)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number ≥ 0, got {value!r}")
