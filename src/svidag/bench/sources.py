"""Data sets a study can name.

A source takes its options, ``seed`` and ``replicate`` as keywords and returns an `Example`. Its
annotations are the schema of the options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from svidag import datasets
from svidag.bench.mixed_tables import lose_cells, mixed
from svidag.bench.prior_predictive import prior_predictive
from svidag.data import Dataset
from svidag.datasets import Example

Source = Callable[..., Example]


def synthetic(
    *,
    m: int,
    edges: int,
    n: int,
    kind: str = "linear",
    graph: str = "er",
    noise: str = "gaussian",
    freedom: float = 3.0,
    interventions: float | None = None,
    hidden: int = 0,
    batches: int = 0,
    batch_shift: float = 1.0,
    autocorrelation: float = 0.0,
    groups: int = 0,
    group_share: float = 0.5,
    measurement_error: float = 0.0,
    distortion: str | None = None,
    rows: int | None = None,
    missing: float = 0.0,
    lost: str = "random",
    seed: int,
    replicate: int,
) -> Example:
    """Random equations on a random DAG; only the first `rows` of the n rows, if given.

    `missing` and `lost` are those of `lose_cells`, the others of `svidag.datasets.synthetic`.
    """
    example = datasets.synthetic(
        m,
        edges,
        n,
        kind,
        graph,
        seed,
        noise=noise,
        freedom=freedom,
        interventions=interventions,
        hidden=hidden,
        batches=batches,
        batch_shift=batch_shift,
        autocorrelation=autocorrelation,
        groups=groups,
        group_share=group_share,
        measurement_error=measurement_error,
        distortion=distortion,
    )
    return lose_cells(_first(example, rows), missing, lost, seed)


def two_node(
    *,
    kind: str,
    n: int = 1000,
    rows: int | None = None,
    published: bool = False,
    seed: int,
    replicate: int,
) -> Example:
    """x1 → x2; with `published` the paper's own data, whatever the replicate."""
    return _first(datasets.two_node(kind, n, None if published else seed), rows)


def sachs(
    *,
    rows: str = "pooled",
    truth: str = "consensus17",
    transform: str | None = None,
    targets: bool = False,
    folds: int | None = None,
    seed: int,
    replicate: int,
) -> Example:
    """The Sachs data; with `folds` the training rows of the fold that the replicate numbers.

    `transform` is one of `Dataset`'s, such as ``"log"``. Without `targets` the interventions
    are ignored.
    """
    example = datasets.sachs(rows, truth)
    data, interventions = example.data, example.interventions if targets else None
    conditions = example.conditions
    if folds is not None:
        if rows != "pooled":
            raise ValueError(f"folds need rows='pooled'; got rows={rows!r}")
        if replicate >= folds:
            raise ValueError(
                f"replicate {replicate} has no fold: there are {folds} folds, numbered from 0"
            )
        kept = datasets.sachs_folds(folds)[replicate]
        data = data.iloc[kept].reset_index(drop=True)
        if interventions is not None:
            interventions = interventions.iloc[kept].reset_index(drop=True)
        conditions = None if conditions is None else conditions.iloc[kept].reset_index(drop=True)
    if transform is not None:
        data = Dataset.from_any(data, transforms=transform).to_frame()
    return replace(example, data=data, interventions=interventions, conditions=conditions)


def _first(example: Example, rows: int | None) -> Example:
    if rows is None:
        return example
    if not 1 <= rows <= len(example.data):
        raise ValueError(f"rows must be between 1 and n = {len(example.data)}, got {rows}")
    by_row = {
        name: getattr(example, name)
        for name in ("data", "interventions", "conditions", "batches", "groups")
    }
    kept = {name: None if each is None else each.iloc[:rows] for name, each in by_row.items()}
    return replace(example, **kept)


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "synthetic": synthetic,
        "mixed": mixed,
        "two-node": two_node,
        "sachs": sachs,
        "prior-predictive": prior_predictive,
    }
)
