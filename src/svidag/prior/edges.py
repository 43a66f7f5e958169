"""The prior as matrices: densities, marginals and draws for the columns of one table.

`EdgePrior` is the prior in NumPy and float64; :mod:`svidag.prior.jax_edges` has the same matrices
for compiled code. All have ``[i, j]`` for i → j, so that a node's parents are a column. JAX is
imported only where it is asked for: a default fit does without, and starts half a second sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, UInt8
from scipy import special

from svidag.graph.extension import draw_linear_extensions
from svidag.orders.mask import before
from svidag.run.streams import Stream, generator

if TYPE_CHECKING:
    from jaxtyping import Array

    from svidag.prior.jax_edges import JaxEdgePrior

CELLS_AT_ONCE = 2**22
"""Prior draws are made in blocks of about this many matrix cells."""


def logistic_beta_log_density(
    gamma: Float[Array, "*shape"] | Float[np.ndarray, "*shape"],
    alpha: Float[Array, "..."] | Float[np.ndarray, "..."],
    beta: Float[Array, "..."] | Float[np.ndarray, "..."],
) -> Any:
    """Logistic–Beta log density of each edge logit; in JAX and its precision if `gamma` is.

    log p(γ) = α log σ(γ) + β log σ(−γ) − log 𝓑(α, β)   (paper, Eq. logistic-beta-prior-main)

    α and β have the shape of the last axes of γ.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> one = jnp.ones((1, 1))
    >>> round(float(logistic_beta_log_density(jnp.zeros((1, 1)), one, one)[0, 0]), 4)
    -1.3863
    """
    if isinstance(gamma, np.ndarray):
        log_gamma, log_sigmoid = special.gammaln, special.log_expit
    else:
        import jax

        alpha, beta = (jax.numpy.asarray(x, gamma.dtype) for x in (alpha, beta))
        log_gamma, log_sigmoid = jax.scipy.special.gammaln, jax.nn.log_sigmoid
    # Cheaper to compile than jax's betaln, and in float64 more exact.
    log_normaliser = log_gamma(alpha) + log_gamma(beta) - log_gamma(alpha + beta)
    a, b, c = (x[(None,) * (gamma.ndim - x.ndim)] for x in (alpha, beta, log_normaliser))
    return a * log_sigmoid(gamma) + b * log_sigmoid(-gamma) - c


@dataclass(frozen=True, eq=False)
class EdgePrior:
    """The prior over edges of a given table, as matrices with ``[i, j]`` for i → j.

    Parameters
    ----------
    names
        The columns, in order.
    belief, concentration
        p_ij and ν_ij.
    alpha, beta
        Parameters of the Beta distribution of π_ij.
    allowed
        False on the diagonal and where hard knowledge deletes the pair.
    required
        True where the edge is certain.

    Examples
    --------
    >>> from svidag.prior import Prior
    >>> edges = Prior(p=0.5).bind(["a", "b"])
    >>> edges.alpha.tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    >>> edges.allowed.tolist()
    [[False, True], [True, False]]
    """

    names: tuple[str, ...]
    belief: Float[np.ndarray, "m m"]
    concentration: Float[np.ndarray, "m m"]
    alpha: Float[np.ndarray, "m m"]
    beta: Float[np.ndarray, "m m"]
    allowed: Bool[np.ndarray, "m m"]
    required: Bool[np.ndarray, "m m"]

    def __post_init__(self) -> None:
        for name in ("belief", "concentration", "alpha", "beta", "allowed", "required"):
            getattr(self, name).setflags(write=False)

    @property
    def free(self) -> Bool[np.ndarray, "m m"]:
        """Pairs whose B_ij hard knowledge leaves open (the order may still rule out the arrow)."""
        return self.allowed & ~self.required

    @property
    def marginal(self) -> Float[np.ndarray, "m m"]:
        """p(B_ij = 1) = α/(α + β) on allowed pairs, required ones included; 0 on deleted pairs."""
        return np.where(self.allowed, self.alpha / (self.alpha + self.beta), 0.0)

    @property
    def logit(self) -> Float[np.ndarray, "m m"]:
        """Log odds log(α/β) of the marginal; −∞ on deleted pairs."""
        return np.where(self.allowed, np.log(self.alpha) - np.log(self.beta), -np.inf)

    @cached_property
    def free_log_odds(self) -> Float[np.ndarray, "m m"]:
        """log(α/β), which a present edge adds to the log prior; 0 if hard knowledge decides."""
        return np.where(self.free, np.log(self.alpha) - np.log(self.beta), 0.0)

    @cached_property
    def free_log_absent(self) -> Float[np.ndarray, "m m"]:
        """log p(B_ij = 0) = log(β/(α + β)); 0 where hard knowledge decides the pair."""
        return np.where(self.free, np.log1p(-self.marginal), 0.0)

    def to_jax(self) -> JaxEdgePrior:
        """The same matrices for compiled code, in single precision."""
        from svidag.prior.jax_edges import jax_edge_prior

        return jax_edge_prior(self)

    def parents_log_prior(
        self,
        nodes: Int[np.ndarray, "..."],
        predecessors: Bool[np.ndarray, "*batch m"],
        parents: Bool[np.ndarray, "*batch m"],
    ) -> Float[np.ndarray, "*batch"]:
        """log p(B_·j) = Σ_i log p(B_ij) over the free predecessors i of each node j.

        `nodes` is broadcast against the batch.

        Examples
        --------
        >>> import numpy as np
        >>> from svidag.prior import Prior
        >>> before = np.array([[True, False]])
        >>> edges = Prior(p=0.5).bind(["a", "b"])
        >>> edges.parents_log_prior(np.array([1]), before, before).round(4).tolist()
        [-0.6931]
        """
        present = np.where(parents, self.free_log_odds.T[nodes], 0.0)
        return (present + np.where(predecessors, self.free_log_absent.T[nodes], 0.0)).sum(axis=-1)

    def log_density(
        self, gamma: Float[np.ndarray, "*batch m m"]
    ) -> Float[np.ndarray, "*batch m m"]:
        """Logistic–Beta log density of each logit; 0 where hard knowledge decides the pair.

        The sum over pairs is log p(γ) of the free logits.

        Examples
        --------
        >>> import numpy as np
        >>> from svidag.prior import Prior
        >>> Prior(p=0.5, nu_min=0).bind(["a", "b"]).log_density(np.zeros((2, 2))).round(4).tolist()
        [[0.0, -1.3863], [-1.3863, 0.0]]
        """
        density = logistic_beta_log_density(gamma, self.alpha, self.beta)
        return np.where(self.free, density, 0.0)

    def log_marginal(self, B: UInt8[np.ndarray, "*batch m m"]) -> Float[np.ndarray, "*batch"]:
        """Beta–Bernoulli log p(B | K): −∞ if B lacks a required edge or has a deleted one.

        Examples
        --------
        >>> import numpy as np
        >>> from svidag.prior import Prior
        >>> edges = Prior(p=0.5).bind(["a", "b"])
        >>> round(float(edges.log_marginal(np.array([[0, 1], [0, 0]], dtype=np.uint8))), 4)
        -1.3863
        """
        present = B.astype(bool)
        log_total = np.log(self.alpha + self.beta)
        open_term = np.where(present, np.log(self.alpha), np.log(self.beta)) - log_total
        hard_term = np.where(present == self.required, 0.0, -np.inf)
        return np.asarray(np.where(self.free, open_term, hard_term).sum(axis=(-2, -1)))

    def sample_potentials(self, n: int, seed: int = 0) -> Float[np.ndarray, "n m"]:
        """Draw n vectors r of standard normal potentials given r_i > r_j for every required i → j.

        Examples
        --------
        >>> from svidag.prior import Prior
        >>> r = Prior(required=[("b", "a")]).bind(["a", "b"]).sample_potentials(100)
        >>> bool((r[:, 1] > r[:, 0]).all())
        True
        """
        rng = generator(seed, Stream.PRIOR_POTENTIALS)
        orders = draw_linear_extensions(self.required, n, rng)
        falling = -np.sort(rng.standard_normal(orders.shape), axis=1)
        potentials = np.empty_like(falling)
        np.put_along_axis(potentials, orders, falling, axis=1)
        return potentials

    def sample(self, n: int, seed: int = 0) -> UInt8[np.ndarray, "n m m"]:
        """Draw n graphs from the prior given hard knowledge: A = B ⊙ M(r), (B, r) ~ p(B, r | K).

        Examples
        --------
        >>> from svidag.prior import Prior
        >>> A = Prior(p=0.3, forbidden=[("a", "b")]).bind(["a", "b", "c"]).sample(1000, seed=1)
        >>> A.shape, int(A[:, 0, 1].sum())
        ((1000, 3, 3), 0)
        """
        r = self.sample_potentials(n, seed)
        rng = generator(seed, Stream.PRIOR_EDGES)
        p = np.where(self.required, 1.0, self.marginal)
        A = np.empty((n, *p.shape), dtype=np.uint8)
        for rows in self._blocks(n):
            A[rows] = before(r[rows]) & (rng.random(A[rows].shape) < p)
        return A

    def edge_probabilities(self, n: int = 20_000, seed: int = 0) -> pd.DataFrame:
        """Prior probability of each arrow, p(A_ij = 1 | K) = p(B_ij = 1 | K) p(r_i > r_j | K).

        Exact, and half the marginal, when nothing is required. Otherwise the order's part is the
        mean over n draws of r, with a standard error of at most ½/√n.

        Examples
        --------
        >>> from svidag.prior import Prior
        >>> Prior(p=0.5).bind(["a", "b"]).edge_probabilities().loc["a", "b"]
        np.float64(0.25)
        """
        ahead = self._order_probabilities(n, seed) if self.required.any() else 0.5
        return pd.DataFrame(
            np.where(self.required, 1.0, self.marginal * ahead),
            index=pd.Index(self.names, name="cause"),
            columns=pd.Index(self.names, name="effect"),
        )

    def _order_probabilities(self, n: int, seed: int) -> Float[np.ndarray, "m m"]:
        r = self.sample_potentials(n, seed)
        count = np.zeros(self.alpha.shape)
        for rows in self._blocks(n):
            count += before(r[rows]).sum(axis=0)
        return count / n

    def _blocks(self, n: int) -> Iterator[slice]:
        step = max(1, CELLS_AT_ONCE // self.alpha.size)
        return (slice(start, start + step) for start in range(0, n, step))
