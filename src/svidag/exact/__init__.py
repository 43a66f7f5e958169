"""The exact posterior for small problems, against which every approximation is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svidag.posterior import Posterior
    from svidag.prior import Prior

__all__ = ["posterior"]


def posterior(
    data: Any,
    *,
    prior: Prior | None = None,
    mechanism: str = "linear",
    interventions: Any = None,
    kinds: Any = None,
    standardise: bool = True,
    graph_weights: str = "order",
    coarsen: float | int | None = None,
    units: int = 200,
    seed: int = 0,
) -> Posterior:
    """Compute the posterior over causal graphs exactly: `svidag.fit` with ``method="exact"``.

    Parameters
    ----------
    data
        DataFrame, 2-d array, `Dataset`, or the path of a CSV, TSV or Parquet file.
    prior
        Beliefs and hard knowledge; by default 0.4 expected parents per variable.
    mechanism
        ``"linear"``: linear Gaussian mechanisms with their parameters integrated out (BGe).
        ``"nonlinear"``: wide networks with their output weights integrated out, for at most 12
        variables. ``"flexible"``: curved locations, varying scales and noise of any shape, for at
        most 10. ``"discrete"``: tables of probabilities (BDeu), for discrete columns. ``"mixed"``:
        regressions by the kind of each column, for at most 10 variables. ``"auto"``: by the kinds
        of the columns.
    interventions
        Boolean frame or array [N, m] of entries set from outside, or the name of the column that
        names each row's target. Such an entry does not count as evidence about its own causes.
    kinds
        What columns are where their dtype and values do not say it, as in `svidag.fit`.
    standardise
        Centre and scale each continuous column by its entries that were not set from outside.
    graph_weights
        ``"order"``: uniform over orders, the model of the paper, so that a graph counts once for
        every order it agrees with. ``"structure"``: each graph counts once.
    coarsen
        α: the likelihood counts to the power α/(α + N).
    units, seed
        Of nonlinear mechanisms, as in `svidag.fit`: hidden units, and the seed that draws them.

    Returns
    -------
    Posterior
        With exact edge and graph probabilities, exact log evidence and independent draws.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=5, edges=5, n=200, seed=0)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> probability = posterior.edge_probabilities()
    >>> bool((probability.to_numpy() <= 1).all())
    True
    """
    from svidag.methods import Exact, fit

    return fit(
        data,
        method=Exact(units=units),
        mechanism=mechanism,
        prior=prior,
        interventions=interventions,
        kinds=kinds,
        standardise=standardise,
        graph_weights=graph_weights,
        coarsen=coarsen,
        seed=seed,
        progress=False,
    )
