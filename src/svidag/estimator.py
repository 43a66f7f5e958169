"""`svidag.fit` in the conventions of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from svidag.data.columns import show
from svidag.data.environments import split_environments
from svidag.data.resampling import split_groups
from svidag.methods import fit
from svidag.posterior import Posterior


class SVIDAG(BaseEstimator):
    """The posterior over causal graphs as a scikit-learn estimator.

    Parameters
    ----------
    method, mechanism, prior, kinds, transforms, missing, standardise, graph_weights, coarsen, bags,
    bag_rows, minutes, workers, seed
        As in :func:`svidag.fit`.
    progress, checkpoint
        As in :func:`svidag.fit`; progress is silent unless asked for. Settings are those of the
        method: ``SVIDAG(method=svidag.methods.OrderMCMC(chains=8))``.

    Attributes
    ----------
    posterior_
        The fitted `Posterior`.
    edge_probabilities_
        P(cause → effect | data), a labelled frame.
    n_features_in_, feature_names_in_
        The number of columns seen by `fit`, and their names where they were strings.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
    >>> model = svidag.SVIDAG(mechanism="linear").fit(example.data)
    >>> model.edge_probabilities_.shape
    (4, 4)
    """

    def __init__(
        self,
        *,
        method: Any = "order-mcmc",
        mechanism: Any = "auto",
        prior: Any = None,
        kinds: Any = None,
        transforms: Any = None,
        missing: Any = "error",
        standardise: Any = True,
        graph_weights: Any = "order",
        coarsen: Any = None,
        bags: Any = "auto",
        bag_rows: Any = None,
        minutes: Any = None,
        workers: Any = None,
        seed: Any = 0,
        progress: Any = False,
        checkpoint: Any = None,
    ) -> None:
        self.method = method
        self.mechanism = mechanism
        self.prior = prior
        self.kinds = kinds
        self.transforms = transforms
        self.missing = missing
        self.standardise = standardise
        self.graph_weights = graph_weights
        self.coarsen = coarsen
        self.bags = bags
        self.bag_rows = bag_rows
        self.minutes = minutes
        self.workers = workers
        self.seed = seed
        self.progress = progress
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        interventions: Any = None,
        environments: Any = None,
        groups: Any = None,
    ) -> SVIDAG:
        """Find the posterior over causal graphs of the columns of X.

        Parameters
        ----------
        X
            DataFrame or array of numbers, one row for each observation.
        y
            Ignored.
        interventions
            Boolean frame or array like X of entries set from outside, or the name of the column of
            X that names each row's target.
        environments
            The column, or columns, of batch, laboratory or experiment, or a label for each row: any
            mechanism may change with them.
        groups
            The column of families or other rows that belong together, or a label for each row:
            resamples take whole groups.
        """
        choices = self.get_params(deep=False)
        X = X.to_pandas() if callable(getattr(X, "to_pandas", None)) else X
        measured, _ = split_environments(X, environments, interventions)
        measured, _ = split_groups(measured, groups, interventions)
        if isinstance(interventions, str):
            if interventions not in getattr(measured, "columns", ()):
                raise ValueError(
                    f"interventions is {show(interventions)}, which is not a column of X"
                )
            measured = measured.drop(columns=interventions)
        values = validate_data(
            self,
            measured,
            dtype=np.float64,
            ensure_min_samples=3,
            ensure_min_features=2,
            ensure_all_finite=True if self.missing == "error" else "allow-nan",
        )
        self.posterior_: Posterior = fit(
            X if isinstance(X, pd.DataFrame) else values,
            interventions=interventions,
            environments=environments,
            groups=groups,
            **choices,
        )
        self.edge_probabilities_: pd.DataFrame = self.posterior_.edge_probabilities()
        return self

    def score_samples(self, X: Any) -> Float[np.ndarray, " N"]:
        """log p(row | data) of each row, averaged over graphs and parameters."""
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, reset=False)
        return self.posterior_.predictive_log_likelihood(values)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: larger is better."""
        return float(self.score_samples(X).mean())
