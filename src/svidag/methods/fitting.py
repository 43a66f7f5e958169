"""`svidag.fit`: checks the arguments, runs the method, and issues the warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from svidag.data import Dataset, DataWarning, Finding
from svidag.data.environments import split_environments
from svidag.data.imputation import complete_rows
from svidag.data.resampling import split_groups
from svidag.methods.bagging import MixtureCheckpoint, check_bags, fit_automatically, fit_bags
from svidag.methods.base import Method
from svidag.methods.column_kinds import DISCRETE, mechanism_for_table
from svidag.methods.imputing import fit_imputed, tables_needed
from svidag.methods.mixing import FitBatch
from svidag.methods.registry import METHODS, find_method
from svidag.posterior import Posterior
from svidag.posterior.diagnostics import Level
from svidag.prior import Prior
from svidag.problem import Problem
from svidag.run import cores
from svidag.run.checkpoint import Checkpoint, resumable
from svidag.run.deadline import Deadline
from svidag.run.progress import meter
from svidag.run.stages import Stages
from svidag.run.warnings import FitWarning
from svidag.run.workers import check_workers, open_workers

WEIGHTS = ("order", "structure")
"""Ways to weigh graphs."""
MISSING = ("error", "drop", "impute")
"""What to do about missing cells."""


def fit(
    data: Any,
    *,
    method: str | Method = "order-mcmc",
    mechanism: str = "auto",
    prior: Prior | None = None,
    interventions: Any = None,
    environments: Any = None,
    groups: Any = None,
    kinds: Any = None,
    transforms: Any = None,
    missing: str = "error",
    standardise: bool = True,
    graph_weights: str = "order",
    coarsen: float | int | None = None,
    bags: int | str | None = "auto",
    bag_rows: int | None = None,
    minutes: float | int | None = None,
    workers: Any = None,
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
        ``"order-mcmc"`` decides between these three by evidence, and the diagnostics
        say what it chose and by how much. For tables of discrete columns ``"auto"`` is
        ``"discrete"`` (tables of probabilities, BDeu), and ``"mixed"`` (a regression for each kind)
        where only some columns are discrete.
    prior
        Beliefs and hard knowledge; by default 0.4 parents are expected for a variable.
    interventions
        Boolean frame or array [N, m] of entries set from outside, or the name of the column that
        names each row's target. Such an entry is no evidence about its own causes.
    environments
        The column, or columns, of batch, laboratory or experiment, or a label for each row. They
        are no variables and have no causes; any mechanism may change with them: its mean, its
        scale, its slopes. `Posterior.changes` says which do.
    groups
        A column that names families, batches of a panel or other rows that belong together, or a
        label for each row. It is not a variable; resamples take whole groups.
    kinds
        What columns are where their dtype and values do not say it: ``{"stage": "ordinal"}``, with
        ``"continuous"``, ``"binary"``, ``"categorical"``, ``"ordinal"`` or ``"count"``; the levels
        of an ordinal column in their order, ``{"stage": ["low", "high"]}``; or one kind for every
        column.
    transforms
        ``"log"`` or ``"rank-gaussian"`` for every column before the fit, or for some of them by
        name: ``{"CRP": "log"}``. Effects are then in the units of the transformed column.
    missing
        What to do about missing cells. ``"error"``: refuse the table. ``"drop"``: leave out the
        rows that have any. ``"impute"``: complete the table eight times by draws from fitted
        mechanisms, each column by its kind, fit each, and mix the posteriors; with ``bags=B``, B
        tables, each resampled. Values are taken to be missing at random; `Posterior.imputed` has
        the draws.
    standardise
        Centre and scale each continuous column by its entries that were not set from outside.
    graph_weights
        ``"order"``: uniform over orders, the model of the paper. ``"structure"``: each graph counts
        once; draws are reweighted, and the diagnostics give the effective sample size.
    coarsen
        α: the likelihood counts to the power α/(α + N), so that beyond about α rows more rows do
        not make the posterior surer. For models that hold only roughly; by default rows count
        fully.
    bags
        A number of fits: each is of a resampled table under its own specification (raw or
        rank-Gaussian margins, and the mechanisms in turn where the mechanism is left open), and the
        posterior is their mixture. None is one fit of the table, and so is ``"auto"``, the default,
        where a method without mechanisms to choose from, or a mechanism, is asked for by name.
        Elsewhere ``"auto"`` fits all rows and checks whether the fit explains the table and its
        sure arrows (above 0.95) survive other specifications. Where not, a mixture of 16 fits
        follows, each of the fewer rows the worse that is. `Posterior.sensitivity` says what was
        found.
    bag_rows
        Rows of each resample; by default as many as the table has, and with ``bags="auto"`` by how
        bad the fit is.
    minutes
        When this time is over, the fit ends with what it has found; the diagnostics and the verdict
        of the report say what was cut short. By default there is no limit.
    workers
        A number: cores of this machine to use, and processes for the fits of a mixture; by default
        all that there are. Or the address of a Dask scheduler (``"tcp://127.0.0.1:8786"``), or a
        Dask ``Client``: fits of a mixture, or searches, chains and scores of one fit, then run on
        its workers.
    seed
        The same seed gives the same result, whatever the chunk size, workers or interruptions.
    progress
        None shows a bar on a terminal and plain lines elsewhere; False shows nothing.
    checkpoint
        A file to save to and, if it exists, to resume from, to the same result.

    Returns
    -------
    Posterior

    Warns
    -----
    DataWarning
        Of what the audit of the table found.
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
    chosen = check(
        method=method,
        mechanism=mechanism,
        missing=missing,
        standardise=standardise,
        graph_weights=graph_weights,
        coarsen=coarsen,
        bags=bags,
        bag_rows=bag_rows,
        minutes=minutes,
        workers=workers,
        seed=seed,
    )
    fits = check_bags(bags, bag_rows, chosen, mechanism)
    data, contexts = split_environments(data, environments, interventions)
    data, labels = split_groups(data, groups, interventions)
    table = Dataset.from_any(data, interventions=interventions, transforms=transforms, kinds=kinds)
    _require_rows("groups", labels, table)
    _require_rows("environments", None if contexts is None else contexts.labels, table)
    notes: tuple[Finding, ...] = ()
    if missing == "drop":
        table, labels, contexts, notes = complete_rows(table, labels, contexts)
    able = _able(lambda support: set(table.kinds) <= set(support.kinds))
    mechanism, table = mechanism_for_table(chosen, mechanism, table, able)
    if fits == "auto" and mechanism == DISCRETE:
        fits = None
    with open_workers(workers) as opened, Stages(meter(progress)) as stages:
        completed = tables_needed(fits) if missing == "impute" else 0
        if completed and np.isnan(table.values).any():
            stages.report("completing the table", 0, None)
        problem = Problem.build(
            table,
            prior=prior,
            standardise=standardise,
            tables=completed,
            seed=seed,
            notes=notes,
            environments=contexts,
        )
        _warn_of_data(problem.findings[len(notes) :], standardise)
        _require_support(chosen, problem)
        identity = problem.fingerprint(
            method=chosen.name,
            mechanism=mechanism,
            graph_weights=graph_weights,
            seed=seed,
            **({} if coarsen is None else {"coarsen": float(coarsen)}),
            **({} if fits is None else {"bags": fits, "bag_rows": bag_rows, "groups": labels}),
            **({} if problem.missing is None else {"missing": missing}),
            **({} if contexts is None else {"environments": contexts.labels}),
            **chosen.identity(),
        )
        state_file = Checkpoint(checkpoint, identity)
        with resumable(state_file), cores.at_most(opened.cores):
            batch = FitBatch(
                problem,
                chosen,
                graph_weights,
                None if coarsen is None else float(coarsen),
                seed,
                labels,
                opened,
                Deadline(minutes),
                stages.report,
            )
            try:
                posterior = _fit(batch, mechanism, fits, bag_rows, state_file, identity)
            except np.linalg.LinAlgError as error:
                if problem.scaling is not None:
                    raise
                raise ValueError(_scales_differ(problem)) from error
    _warn_of_result(posterior)
    return posterior


def _scales_differ(problem: Problem) -> str:
    """Why a table that was not standardised cannot be fitted."""
    spread = problem.data.values.std(axis=0)
    least, most = int(spread.argmin()), int(spread.argmax())
    names = problem.data.names
    return (
        f"the scales of the columns differ too much to compute with: {names[most]!r} has the "
        f"standard deviation {spread[most]:.3g} and {names[least]!r} {spread[least]:.3g}; use "
        "standardise=True, or give them other units"
    )


def _fit(
    batch: FitBatch,
    mechanism: str,
    fits: int | str | None,
    bag_rows: int | None,
    state_file: Checkpoint,
    identity: dict[str, Any],
) -> Posterior:
    """One fit, a mixture, or whichever the table asks for; from where an earlier call ended."""
    saved = state_file.load()
    if fits is None and batch.problem.missing is None:
        return batch.fit_table(mechanism, state_file, saved, identity)
    done = MixtureCheckpoint.load(state_file, saved)
    if batch.problem.missing is not None:
        return fit_imputed(batch, mechanism, fits, bag_rows, done, saved, identity)
    if isinstance(fits, int):
        return fit_bags(batch, mechanism, fits, bag_rows, done, identity)
    return fit_automatically(batch, mechanism, bag_rows, done, saved, identity)


def check(
    *,
    method: str | Method = "order-mcmc",
    mechanism: str = "auto",
    missing: str = "error",
    standardise: bool = True,
    graph_weights: str = "order",
    coarsen: float | int | None = None,
    bags: int | str | None = "auto",
    bag_rows: int | None = None,
    minutes: float | int | None = None,
    workers: Any = None,
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
    if not _is_one_of(mechanism, ("auto", *chosen.support.mechanisms)):
        known = ", ".join(map(repr, chosen.support.mechanisms))
        raise ValueError(
            f"method {chosen.name!r} has the mechanisms {known}; got {mechanism!r}"
            + _able(lambda support: _is_one_of(mechanism, support.mechanisms))
        )
    chosen.check_mechanism(chosen.support.mechanism(mechanism))
    if not isinstance(standardise, bool):
        raise ValueError(f"standardise must be true or false; got {standardise!r}")
    if not _is_one_of(graph_weights, WEIGHTS):
        raise ValueError(f"graph_weights must be one of {sorted(WEIGHTS)}; got {graph_weights!r}")
    if not _is_one_of(missing, MISSING):
        raise ValueError(f"missing must be one of {list(MISSING)}; got {missing!r}")
    if coarsen is not None:
        _check_coarsening(chosen, coarsen)
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0 on; got {seed!r}")
    check_workers(workers)
    Deadline(minutes)
    check_bags(bags, bag_rows, chosen, mechanism)
    return chosen


def _is_one_of(value: Any, words: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in words


def _check_coarsening(method: Method, coarsen: Any) -> None:
    number = isinstance(coarsen, int | float | np.number) and not isinstance(coarsen, bool)
    if not (number and 0 < float(coarsen) < np.inf):
        raise ValueError(f"coarsen must be a number of rows above 0, or None; got {coarsen!r}")
    if not method.support.coarsening:
        raise ValueError(
            f"method {method.name!r} does not support coarsen"
            + _able(lambda support: support.coarsening)
        )


def _require_support(method: Method, problem: Problem) -> None:
    """Refuse a problem that asks for more than a method supports."""
    prior, support = problem.prior, method.support
    off_diagonal = prior.belief[prior.free]
    asked = {
        "interventions": ("interventions", problem.data.intervened.any()),
        "environments": ("environments", problem.environments is not None),
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
                + _able(lambda support, name=name: getattr(support, name))
            )


def _able(suits: Callable[..., bool]) -> str:
    """Which methods can do what one cannot."""
    able = [f"method={name!r}" for name, method in METHODS.items() if suits(method.support)]
    return f"; {' or '.join(able)} can" if able else ""


def _require_rows(argument: str, labels: np.ndarray | None, data: Dataset) -> None:
    if labels is not None and len(labels) != data.n_rows:
        raise ValueError(
            f"{argument} has {len(labels)} labels; expected {data.n_rows}, one for each row"
        )


def _warn_of_data(findings: tuple[Finding, ...], standardise: bool) -> None:
    """Warn of what the audit found; differences of scale are of no concern once they are gone."""
    for finding in findings:
        if not (standardise and finding.kind == "varsortability"):
            warnings.warn(finding.message, DataWarning, stacklevel=3)


def _warn_of_result(posterior: Posterior) -> None:
    assert posterior.diagnostics is not None
    for reason in posterior.diagnostics.reasons:
        if reason.level is Level.NOT:
            warnings.warn(reason.text, FitWarning, stacklevel=3)
