"""The noise that a report shows: what the mechanisms leave, beside what the fit expects."""

import re
import warnings

import numpy as np
import pytest

import svidag
from svidag.posterior.residuals import expected_noise
from svidag.report.noise import noise_plots


@pytest.fixture(scope="module")
def skewed():
    return svidag.datasets.synthetic(m=3, edges=2, n=500, noise="lognormal", seed=3).data


def fit(data, mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svidag.fit(data, mechanism=mechanism, progress=False)


def test_a_fitted_density_meets_the_noise_and_a_gaussian_one_does_not(skewed):
    flexible = [plot.difference for plot in noise_plots(fit(skewed, "flexible"))]
    linear = [plot.difference for plot in noise_plots(fit(skewed, "linear"))]
    assert max(flexible) < 0.12
    assert min(linear) > 0.2


def test_expected_noise_is_skewed_where_the_fit_is(skewed):
    quantiles = expected_noise(fit(skewed, "flexible"), np.array([-1.5, 0.0, 1.5]))
    assert (np.diff(quantiles, axis=0) > 0).all()
    upper, lower = quantiles[2] - quantiles[1], quantiles[1] - quantiles[0]
    assert (np.abs(np.log(upper / lower)) > 0.5).all()


def test_the_page_draws_bars_where_they_belong_and_a_line_over_them(skewed, tmp_path):
    skewed = skewed.assign(x1=np.where(np.arange(len(skewed)) == 0, 60.0, skewed["x1"]))
    fit(skewed, "linear").report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    first = text[text.index('id="data-table"') :]
    histogram, noise = first[: first.index("</svg>")], first[first.index("noise: bars observed") :]
    assert 'x="92"' in histogram  # one value far away: the last bar stands at the end
    assert re.search(r'<polyline points="1.7,', noise[: noise.index("</svg>")])
