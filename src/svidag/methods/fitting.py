"""`svidag.fit`: the entry point of every method, and all that they have in common."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np

from svidag.methods.base import Fitted, Method, Run, Support
from svidag.methods.registry import METHODS, find_method
from svidag.posterior import Posterior
from svidag.posterior.diagnostics import Diagnostics, Level
from svidag.posterior.structure_weights import structure_weighted
from svidag.prior import Prior
from svidag.problem import Problem, checkpoint_path
from svidag.run.checkpoint import Checkpoint, resumable
from svidag.run.deadline import Deadline
from svidag.run.progress import meter
from svidag.run.stages import Stages
from svidag.run.warnings import FitWarning

WEIGHTS = ("order", "structure")
"""Ways to weigh graphs."""


def fit(
    data: Any,
    *,
    method: str | Method = "order-mcmc",
    mechanism: str = "auto",
    prior: Prior | None = None,
    interventions: Any = None,
    standardise: bool = True,
    graph_weights: str = "order",
    coarsen: float | None = None,
    minutes: float | None = None,
    seed: int = 0,
    progress: Any = None,
    checkpoint: Any = None,
) -> Posterior:
    """Find the posterior over causal graphs.

    Parameters
    ----------
    data
        DataFrame, 2-d array, `Dataset`, or the path of a CSV, TSV or Parquet file.
    method
        The name of a method, or one of `svidag.methods` with settings of your own:
        ``svidag.methods.OrderMCMC(chains=8)``. `svidag.methods.METHODS` lists them.
    mechanism
        How effects follow from causes: ``"linear"`` (BGe), ``"nonlinear"`` (a wide network with
        Gaussian noise), ``"flexible"`` (linear or curved, with noise of any shape that may grow
        with the causes), or a method's own. ``"auto"`` is what the method declares as its default;
        ``"order-mcmc"`` decides by evidence between linear and flexible ones, and the diagnostics
        say what it chose and by how much.
    prior
        Beliefs and hard knowledge; by default one expected parent per variable.
    interventions
        Boolean frame or array [N, m] of entries set from outside, or the name of the column that
        names each row's target. Such an entry is no evidence about its own causes.
    standardise
        Centre and scale each column by its entries that were not set from outside.
    graph_weights
        ``"order"``: uniform over orders, the model of the paper. ``"structure"``: each graph counts
        once; draws are reweighted, and the diagnostics give the effective sample size.
    coarsen
        α: the likelihood counts to the power α/(α + N), so that beyond about α rows more rows do
        not make the posterior surer. For models that hold only roughly; by default rows count
        fully.
    minutes
        When this time is over, the fit ends with what it has found; the diagnostics and the verdict
        of the report say what was cut short. By default there is no limit.
    seed
        The same seed gives the same result, whatever the chunk size or interruptions.
    progress
        None shows a bar on a terminal and plain lines elsewhere; False shows nothing.
    checkpoint
        A file to save to and, if it exists, to resume from, to the same result.

    Returns
    -------
    Posterior

    Warns
    -----
    FitWarning
        If the result cannot be relied on; the message says why.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=5, edges=5, n=300, seed=1)
    >>> posterior = svidag.fit(example.data, mechanism="linear", progress=False)
    >>> posterior.edge_probabilities().shape
    (5, 5)
    """
    started = time.perf_counter()
    chosen = check(
        method=method,
        mechanism=mechanism,
        standardise=standardise,
        graph_weights=graph_weights,
        coarsen=coarsen,
        minutes=minutes,
        seed=seed,
    )
    problem = Problem.build(data, prior=prior, interventions=interventions, standardise=standardise)
    _require_support(chosen, problem)
    own_weights = chosen.support.structure_weights
    identity = problem.fingerprint(
        method=chosen.name,
        mechanism=mechanism,
        graph_weights=graph_weights if own_weights else "order",
        seed=seed,
        **({} if coarsen is None else {"coarsen": float(coarsen)}),
        **chosen.identity(),
    )
    kept = Checkpoint(checkpoint_path(checkpoint), identity)
    with Stages(meter(progress)) as stages, resumable(kept):
        saved = kept.load()
        run = Run(
            chosen.support.mechanism(mechanism),
            graph_weights if own_weights else "order",
            seed,
            stages.report,
            kept,
            saved,
            Deadline(minutes),
            None if coarsen is None else float(coarsen),
        )
        fitted = chosen.run(problem, run)
        kept.write()
    posterior = _posterior(problem, chosen, run, fitted, identity, started)
    if graph_weights != run.graph_weights:
        posterior = structure_weighted(posterior, seed)
    _warn(posterior)
    return posterior


def check(
    *,
    method: str | Method = "order-mcmc",
    mechanism: str = "auto",
    standardise: bool = True,
    graph_weights: str = "order",
    coarsen: float | None = None,
    minutes: float | None = None,
    seed: int = 0,
) -> Method:
    """The method, or an error that says what `fit` would refuse in these arguments.

    Examples
    --------
    >>> check(method="order-mcmc", mechanism="mlp")
    Traceback (most recent call last):
        ...
    ValueError: method 'order-mcmc' has the mechanisms 'auto', 'linear', ...; got 'mlp'; ...
    """
    chosen = find_method(method)
    if mechanism not in ("auto", *chosen.support.mechanisms):
        known = ", ".join(map(repr, chosen.support.mechanisms))
        raise ValueError(
            f"method {chosen.name!r} has the mechanisms {known}; got {mechanism!r}"
            + _others(lambda support: mechanism in support.mechanisms)
        )
    if not isinstance(standardise, bool):
        raise ValueError(f"standardise must be true or false; got {standardise!r}")
    if graph_weights not in WEIGHTS:
        raise ValueError(f"graph_weights must be one of {sorted(WEIGHTS)}; got {graph_weights!r}")
    if coarsen is not None:
        _check_coarsening(chosen, coarsen)
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0 on; got {seed!r}")
    Deadline(minutes)
    return chosen


def _check_coarsening(method: Method, coarsen: Any) -> None:
    number = isinstance(coarsen, Real) and not isinstance(coarsen, bool)
    if not (number and coarsen > 0 and np.isfinite(coarsen)):
        raise ValueError(f"coarsen must be a number of rows above 0, or None; got {coarsen!r}")
    if not method.support.coarsening:
        raise ValueError(
            f"method {method.name!r} does not support coarsen"
            + _others(lambda support: support.coarsening)
        )


def _require_support(method: Method, problem: Problem) -> None:
    """Refuse a problem that asks for more than a method supports."""
    prior, support = problem.prior, method.support
    off_diagonal = prior.belief[prior.free]
    asked = {
        "interventions": ("interventions", problem.data.intervened.any()),
        "beliefs": (
            "beliefs that differ between arrows",
            bool(len(off_diagonal)) and off_diagonal.min() != off_diagonal.max(),
        ),
        "hard_knowledge": (
            "required or forbidden arrows, or tiers",
            prior.required.any() or (~prior.allowed).sum() > len(prior.allowed),
        ),
    }
    for name, (words, wanted) in asked.items():
        if wanted and not getattr(support, name):
            raise ValueError(
                f"method {method.name!r} does not support {words}"
                + _others(lambda support, name=name: getattr(support, name))
            )


def _others(suits: Callable[..., bool]) -> str:
    """Which methods can do what one cannot."""
    names = list(_suitable(suits))
    return "; " + " or ".join(f"method={name!r}" for name in names) + " can" if names else ""


def _suitable(suits: Callable[[Support], bool]) -> Iterator[str]:
    return (name for name, method in METHODS.items() if suits(method.support))


def _posterior(
    problem: Problem,
    method: Method,
    run: Run,
    fitted: Fitted,
    identity: dict[str, Any],
    started: float,
) -> Posterior:
    diagnostics = Diagnostics(
        method=method.name,
        mechanism=fitted.mechanism,
        status=fitted.status,
        seconds=time.perf_counter() - started,
        reasons=fitted.reasons,
        settings=method.identity(),
        fingerprint=identity,
        mechanism_margin=fitted.mechanism_margin,
        graph_weights=run.graph_weights,
        details=fitted.details,
    )
    return Posterior(
        problem.data.names,
        fitted.graphs,
        fitted.parameters,
        log_evidence=fitted.log_evidence,
        diagnostics=diagnostics,
        problem=problem,
    )


def _warn(posterior: Posterior) -> None:
    assert posterior.diagnostics is not None
    for reason in posterior.diagnostics.reasons:
        if reason.level is Level.NOT:
            warnings.warn(reason.text, FitWarning, stacklevel=3)
