"""Structural equations that can be simulated, with and without interventions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

NOISES = ("gaussian", "laplace", "uniform")


@dataclass(frozen=True)
class LinearMechanism:
    """f(x) = x w; without parents, zero.

    Examples
    --------
    >>> LinearMechanism(np.array([2.0, -1.0]))(np.array([[1.0, 3.0]]))
    array([-1.])
    """

    weights: Float[np.ndarray, "k"]

    def __call__(self, x: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N"]:
        """Return the mean of the variable for each row of its parents' values."""
        return x @ self.weights


@dataclass(frozen=True)
class ReluNetwork:
    """f(x) = ReLU(x W1 + b1) w2, one hidden layer without an output bias.

    Examples
    --------
    >>> net = ReluNetwork(np.ones((1, 2)), np.array([0.0, -1.0]), np.array([1.0, 0.5]))
    >>> net(np.array([[3.0], [-1.0]]))
    array([4., 0.])
    """

    W1: Float[np.ndarray, "k h"]
    b1: Float[np.ndarray, "h"]
    w2: Float[np.ndarray, "h"]

    def __call__(self, x: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N"]:
        """Return the mean of the variable for each row of its parents' values."""
        return np.maximum(x @ self.W1 + self.b1, 0.0) @ self.w2


@dataclass(frozen=True)
class StructuralModel:
    """x_j = f_j(parents of j) + σ_j ε_j with independent ε_j of mean 0 and variance 1.

    Attributes
    ----------
    names : tuple of str
        The variables.
    adjacency : uint8 [m, m]
        ``adjacency[i, j] = 1`` means i → j; parents enter f_j in column order.
    mechanisms : tuple of callables
        f_j, from the parents' values [N, k] to the variable's mean [N].
    noise_sd : float64 [m]
        σ_j.
    noise : str
        Distribution of ε_j: ``"gaussian"``, ``"laplace"`` or ``"uniform"``.

    Examples
    --------
    >>> from svidag.datasets import two_node
    >>> model = two_node("linear").model
    >>> round(float(model.simulate(10_000, seed=1, do={"x1": 3.0})["x2"].mean()), 1)
    3.0
    """

    names: tuple[str, ...]
    adjacency: UInt8[np.ndarray, "m m"]
    mechanisms: tuple[Callable[[np.ndarray], np.ndarray], ...]
    noise_sd: Float[np.ndarray, "m"]
    noise: str = "gaussian"

    @property
    def weights(self) -> Float[np.ndarray, "m m"] | None:
        """Coefficients ``W[i, j]`` of i in the equation of j; None unless all are linear."""
        W = np.zeros(self.adjacency.shape)
        for j, f in enumerate(self.mechanisms):
            if not isinstance(f, LinearMechanism):
                return None
            W[self.adjacency[:, j] != 0, j] = f.weights
        return W

    def simulate(self, n: int, *, seed: int, do: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Draw n rows, from the model itself or with some variables held at given values.

        Parameters
        ----------
        n : int
            Number of rows.
        seed : int
            Noise is drawn from ``numpy.random.default_rng(seed)``, variable by variable in
            topological order, and does not depend on `do`: two calls with the same seed give the
            same units under two interventions.
        do : mapping from name to value, optional
            Variables cut off from their parents and set to the value in every row.
        """
        fixed = np.full((n, len(self.names)), np.nan)
        for name, value in (do or {}).items():
            if name not in self.names:
                raise ValueError(f"do names {name!r}, which is none of {', '.join(self.names)}")
            fixed[:, self.names.index(name)] = value
        rng = np.random.default_rng(seed)
        noise = np.empty_like(fixed)
        for j in draw_order(self.adjacency):
            noise[:, j] = self.noise_sd[j] * unit_noise(rng, self.noise, n)
        return pd.DataFrame(self.propagate(noise, fixed), columns=list(self.names))

    def propagate(
        self, noise: Float[np.ndarray, "N m"], fixed: Float[np.ndarray, "N m"]
    ) -> Float[np.ndarray, "N m"]:
        """Solve the equations for given noise σ_j ε_j; `fixed` is NaN where nothing was set."""
        x = np.empty_like(noise)
        for j in draw_order(self.adjacency):
            natural = self.mechanisms[j](x[:, self.adjacency[:, j] != 0]) + noise[:, j]
            x[:, j] = np.where(np.isnan(fixed[:, j]), natural, fixed[:, j])
        return x


def draw_order(adjacency: UInt8[np.ndarray, "m m"]) -> list[int]:
    """Topological order in which random numbers are drawn.

    Of the many valid orders this is networkx's, since a seed stands for one data set only if
    everyone draws in the same order.
    """
    return list(nx.topological_sort(nx.DiGraph(adjacency)))


def unit_noise(rng: np.random.Generator, kind: str, n: int) -> Float[np.ndarray, "N"]:
    """Draw n values of mean 0 and variance 1."""
    match kind:
        case "gaussian":
            return rng.standard_normal(n)
        case "laplace":
            return rng.laplace(scale=np.sqrt(0.5), size=n)
        case "uniform":
            return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=n)
    raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {kind!r}")
