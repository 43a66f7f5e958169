"""Shapes of noise, all with mean 0 and variance 1, so that they differ in shape alone."""

import numpy as np
from jaxtyping import Float

NOISES = ("gaussian", "laplace", "uniform", "t", "lognormal", "mixture", "growing")

RARE_SHARE = 0.2
"""Share of the smaller of the two groups of ``"mixture"``."""
RARE_MEAN = 1.8
"""Its mean; that of the other group makes the mean of all zero."""


def unit_noise(
    rng: np.random.Generator, kind: str, n: int, freedom: float = 3.0
) -> Float[np.ndarray, "N"]:
    """Draw n values of mean 0 and variance 1; `synthetic` has the formulas.

    ``"growing"`` is Gaussian here: what grows is the scale it is multiplied with.

    Examples
    --------
    >>> x = unit_noise(np.random.default_rng(0), "lognormal", 100_000)
    >>> abs(float(x.mean())) < 0.01, round(float(x.std()), 1), round(float(x.min()), 1)
    (True, 1.0, -0.8)
    """
    match kind:
        case "gaussian" | "growing":
            return rng.standard_normal(n)
        case "laplace":
            return rng.laplace(scale=np.sqrt(0.5), size=n)
        case "uniform":
            return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=n)
        case "t":
            return rng.standard_t(freedom, size=n) * np.sqrt((freedom - 2) / freedom)
        case "lognormal":
            # exp(Z) has mean √e and variance e(e − 1).
            return (np.exp(rng.standard_normal(n)) - np.sqrt(np.e)) / np.sqrt(np.e * (np.e - 1))
        case "mixture":
            return _two_groups(rng, n)
    raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {kind!r}")


def _two_groups(rng: np.random.Generator, n: int) -> Float[np.ndarray, "N"]:
    """Draw from (1 − q) N(−qμ/(1 − q), τ²) + q N(μ, τ²), with τ for variance 1."""
    q, mu = RARE_SHARE, RARE_MEAN
    common = -q * mu / (1 - q)
    tau = np.sqrt(1 - q * mu**2 - (1 - q) * common**2)
    return np.where(rng.random(n) < q, mu, common) + tau * rng.standard_normal(n)
