"""Structural equations that can be simulated, with and without interventions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

from svidag.datasets.noise import unit_noise


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
class CurvedMechanism:
    """f(x) = Σ_i √2 w_i sin(ω_i x_i + φ_i): smooth, additive, each term of about variance w_i².

    Examples
    --------
    >>> f = CurvedMechanism(np.array([1.0]), np.array([2.0]), np.array([0.0]))
    >>> f(np.array([[0.0], [np.pi / 4]])).round(3)
    array([0.   , 1.414])
    """

    weights: Float[np.ndarray, "k"]
    frequencies: Float[np.ndarray, "k"]
    phases: Float[np.ndarray, "k"]

    def __call__(self, x: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N"]:
        """Return the mean of the variable for each row of its parents' values."""
        return np.sqrt(2.0) * np.sin(self.frequencies * x + self.phases) @ self.weights


@dataclass(frozen=True)
class GrowingScale:
    """s(x) = c (0.2 + log(1 + exp z)), z = (x_1 − centre) / spread, of the first parent x_1.

    It grows from 0.2 c without bound, in proportion to large z. The constant c makes the mean of
    s² one over the values it was fitted to.

    Examples
    --------
    >>> s = GrowingScale.fitted(np.linspace(-2.0, 2.0, 101))
    >>> s(np.array([[-2.0], [0.0], [2.0]])).round(2)
    array([0.32, 0.79, 1.84])
    """

    centre: float
    spread: float
    constant: float

    @classmethod
    def fitted(cls, values: Float[np.ndarray, "N"]) -> "GrowingScale":
        """The scale whose mean square is one over these values of the parent."""
        shape = cls(float(values.mean()), float(values.std()), 1.0)
        mean_square = float(np.mean(shape(values[:, None]) ** 2))
        return cls(shape.centre, shape.spread, mean_square**-0.5)

    def __call__(self, x: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N"]:
        """Return the factor of the noise for each row of the parents' values."""
        z = (x[:, 0] - self.centre) / self.spread
        return self.constant * (0.2 + np.logaddexp(0.0, z))


@dataclass(frozen=True)
class StructuralModel:
    """x_j = f_j(parents of j) + s_j(parents of j) (σ_j ε_j + Σ_k h_kj u_k).

    All ε_j and u_k are independent, with mean 0 and variance 1.

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
        Distribution of ε_j and u_k, one of those of `svidag.datasets.synthetic`.
    freedom : float
        Degrees of freedom of ``"t"`` noise.
    scales : tuple of callables or None
        s_j, from the parents' values [N, k] to a factor [N]; None stands for 1, and so does an
        empty tuple for all variables.
    hidden_weights : float64 [k, m] or None
        h_kj, the coefficient of the hidden cause k in the equation of j.

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
    freedom: float = 3.0
    scales: tuple[Callable[[np.ndarray], np.ndarray] | None, ...] = ()
    hidden_weights: Float[np.ndarray, "k m"] | None = None

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
        noise = self.draw_noise(n, np.random.default_rng(seed))
        return pd.DataFrame(self.propagate(noise, fixed), columns=list(self.names))

    def draw_noise(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "N m"]:
        """Draw σ_j ε_j + Σ_k h_kj u_k: each variable in topological order, then hidden causes."""
        noise = np.empty((n, len(self.names)))
        for j in draw_order(self.adjacency):
            noise[:, j] = self.noise_sd[j] * unit_noise(rng, self.noise, n, self.freedom)
        if self.hidden_weights is not None:
            noise += self.draw_hidden(n, rng) @ self.hidden_weights
        return noise

    def draw_hidden(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "N k"]:
        """Draw the values u_k of the hidden causes, one cause after another."""
        count = 0 if self.hidden_weights is None else len(self.hidden_weights)
        drawn = [unit_noise(rng, self.noise, n, self.freedom) for _ in range(count)]
        return np.column_stack(drawn) if drawn else np.zeros((n, 0))

    def propagate(
        self, noise: Float[np.ndarray, "N m"], fixed: Float[np.ndarray, "N m"]
    ) -> Float[np.ndarray, "N m"]:
        """Solve the equations for given noise; `fixed` is NaN where nothing was set."""
        x = np.empty_like(noise)
        for j in draw_order(self.adjacency):
            parents = x[:, self.adjacency[:, j] != 0]
            scale = self.scales[j] if self.scales else None
            added = noise[:, j] if scale is None else scale(parents) * noise[:, j]
            natural = self.mechanisms[j](parents) + added
            x[:, j] = np.where(np.isnan(fixed[:, j]), natural, fixed[:, j])
        return x


def draw_order(adjacency: UInt8[np.ndarray, "m m"]) -> list[int]:
    """Topological order in which random numbers are drawn.

    Of the many valid orders this is networkx's, since a seed stands for one data set only if
    everyone draws in the same order.
    """
    return list(nx.topological_sort(nx.DiGraph(adjacency)))
