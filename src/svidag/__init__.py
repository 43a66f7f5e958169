"""Bayesian causal discovery: a table and what you believe in, a posterior over graphs out.

One convention holds everywhere: ``A[i, j] = 1`` means i → j.
"""

from svidag import datasets, exact
from svidag.data import Dataset
from svidag.posterior import Posterior
from svidag.prior import Prior

__version__ = "0.1.0.dev0"
__all__ = ["Dataset", "Posterior", "Prior", "datasets", "exact"]
