"""Residuals of many linear equations at once are those of each by itself."""

import numpy as np

import svidag
from svidag.posterior import residuals as module
from svidag.posterior.residuals import expected_noise, residuals


def test_residuals_of_many_linear_equations_are_those_of_each(monkeypatch):
    example = svidag.datasets.synthetic(m=6, edges=8, n=200, seed=1, interventions=0.1)
    posterior = svidag.exact.posterior(example.data, interventions=example.interventions)
    normal = np.linspace(-2, 2, 9)
    each, noise = residuals(posterior), expected_noise(posterior, normal)
    monkeypatch.setattr(module, "MANY_VARIABLES", 5)
    np.testing.assert_allclose(residuals(posterior), each, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(expected_noise(posterior, normal), noise, rtol=1e-10, atol=1e-10)
