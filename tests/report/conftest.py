"""Posteriors that cost nothing to fit, and one browser for a module."""

import shutil

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from svidag.graph import random_dag, topological_order
from svidag.posterior import DrawnGraphs, Posterior

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def noisy_posterior(m, edges, *, seed, draws=300, **fields):
    """A graph whose edges come and go between draws, with a few weak ones along its order."""
    truth = random_dag(m, edges, seed=seed)
    rng = np.random.default_rng(seed)
    place = np.argsort(topological_order(truth))
    kept = np.where(truth, rng.choice([1.0, 0.95, 0.7], size=truth.shape), 0.0)
    weak = (rng.random((m, m)) < 0.05) * 0.3 * (place[:, None] < place[None, :])
    graphs = (rng.random((draws, m, m)) < np.where(truth, kept, weak)).astype(np.uint8)
    names = tuple(f"gene_{k + 1}" for k in range(m))
    return Posterior(names, DrawnGraphs(graphs, np.full(draws, 1 / draws)), **fields)


@pytest.fixture(scope="session")
def fifty():
    return noisy_posterior(50, 80, seed=3)


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.fail(
            f"the report is tested in a browser, and none of {', '.join(BROWSERS)} is on the PATH; "
            "`make chromium` installs one on Debian"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()
