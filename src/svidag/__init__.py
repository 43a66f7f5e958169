"""Bayesian causal discovery: a table and what you believe in, a posterior over graphs out.

One convention holds everywhere: ``A[i, j] = 1`` means i → j.
"""

__version__ = "0.1.0.dev0"
