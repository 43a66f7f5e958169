"""Sachs et al. (2005): eleven signalling proteins and lipids in 7466 human immune cells."""

import hashlib
import io
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int

from svidag.datasets.example import Example, labelled

FILE = "sachs.csv"
SHA256 = "fc331dcd0bc1d8765986b88cd1d23dd5a3f52e4ffc299fdf96de9d522ddf01aa"
ROWS = ("pooled", "observational")


class Condition(NamedTuple):
    """One experiment: its name, its number of rows, and the variable it acted on."""

    name: str
    rows: int
    target: str | None


CONDITIONS = (
    Condition("cd3cd28", 853, None),
    Condition("cd3cd28+icam2", 902, None),
    Condition("akt inhibitor", 911, "pakts473"),
    Condition("g0076 (PKC)", 723, "PKC"),
    Condition("psitectorigenin (PIP2)", 810, "PIP2"),
    Condition("u0126 (Mek)", 799, "pmek"),
    Condition("ly294002 (PI3K/Akt)", 848, "pakts473"),
    Condition("pma (PKC activator)", 913, "PKC"),
    Condition("b2camp (PKA activator)", 707, "PKA"),
)

# Cause: its effects.
TRUTHS = MappingProxyType(
    {
        "consensus17": {
            "praf": "pmek",
            "pmek": "p44/42",
            "plcg": "PIP2 PIP3",
            "PIP3": "PIP2",
            "p44/42": "pakts473",
            "PKA": "praf pmek p44/42 pakts473 P38 pjnk",
            "PKC": "praf pmek PKA P38 pjnk",
        },
        "cdt18": {
            "praf": "pmek",
            "pmek": "p44/42",
            "plcg": "PIP2 PKC",
            "PIP2": "PIP3 PKC",
            "PIP3": "plcg pakts473",
            "PKA": "praf pmek p44/42 pakts473 P38 pjnk",
            "PKC": "praf pmek P38 pjnk",
        },
        "tetrad20": {
            "praf": "pmek",
            "pmek": "p44/42",
            "plcg": "PIP2 PKC",
            "PIP2": "PKC",
            "PIP3": "PIP2 plcg pakts473",
            "p44/42": "pakts473",
            "PKA": "praf pmek p44/42 pakts473 P38 pjnk",
            "PKC": "praf pmek PKA P38 pjnk",
        },
    }
)


def sachs(rows: str = "pooled", truth: str = "consensus17") -> Example:
    """Flow-cytometry data of Sachs et al. (2005) with one of three graphs taken as the truth.

    Columns: praf, pmek, plcg, PIP2, PIP3, p44/42 (Erk), pakts473 (Akt), PKA, PKC, P38, pjnk.
    Values are raw fluorescence, strongly skewed and all at least 1; logarithms are the caller's
    choice.

    Parameters
    ----------
    rows : str
        ``"pooled"``: all 7466 cells of nine experiments; ``"observational"``: the 853 cells of
        the first one, in which nothing but the general stimulus was applied.
    truth : str
        ``"consensus17"``: 17 edges, acyclic, used with BCD Nets. ``"cdt18"``: 18 edges, shipped
        with the Causal Discovery Toolbox and used by the paper; it is **cyclic** (plcg → PIP2 →
        PIP3 → plcg), so no DAG can equal it. ``"tetrad20"``: 20 edges, acyclic, from Tetrad's
        example data sets. None is known to be right.

    Returns
    -------
    Example
        `conditions` names the experiment of each row; `interventions` marks that experiment's
        target in each of its rows (all False in observational rows, and in those with ICAM-2, a
        stimulus without a single target). The experiments activate or inhibit their target rather
        than set its measured level, so the mask idealises them.

    Examples
    --------
    >>> example = sachs()
    >>> example.data.shape, int(example.truth.to_numpy().sum()), example.cyclic
    ((7466, 11), 17, False)
    >>> int(example.interventions["PKC"].sum())
    1636
    >>> sachs("observational", truth="cdt18").cyclic
    True
    """
    if rows not in ROWS:
        raise ValueError(f"rows must be 'pooled' or 'observational', got {rows!r}")
    if truth not in TRUTHS:
        raise ValueError(f"truth must be one of {', '.join(TRUTHS)}, got {truth!r}")
    used = CONDITIONS if rows == "pooled" else CONDITIONS[:1]
    n = sum(condition.rows for condition in used)
    data = _read(n)
    graph = _graph(truth, list(data.columns))
    return Example(
        data=data,
        truth=graph,
        interventions=_interventions(used, data.columns),
        description=(
            f"Sachs et al. (2005), {rows} rows: {n} cells, 11 proteins and lipids, raw "
            f"fluorescence; truth {truth} with {graph.to_numpy().sum()} edges"
            + (", which is cyclic" if truth == "cdt18" else "")
        ),
        conditions=_conditions(used),
    )


def sachs_folds(k: int = 10, *, seed: int = 0) -> tuple[Int[np.ndarray, " n"], ...]:
    """Training rows of k-fold cross-validation on the pooled table, sorted within each fold.

    The defaults are the paper's ten folds: ``default_rng(0).permutation(7466)`` is cut into pieces
    of 747 (six times) and 746 (four times) rows, and each fit leaves one piece out.

    Examples
    --------
    >>> [len(rows) for rows in sachs_folds()][:7]
    [6719, 6719, 6719, 6719, 6719, 6719, 6720]
    >>> sachs().data.iloc[sachs_folds()[0]].shape
    (6719, 11)
    """
    n = sum(condition.rows for condition in CONDITIONS)
    if not 2 <= k <= n:
        raise ValueError(f"k must be between 2 and {n}, got {k}")
    pieces = np.array_split(np.random.default_rng(seed).permutation(n), k)
    return tuple(np.setdiff1d(np.arange(n), piece) for piece in pieces)


def _read(n: int) -> pd.DataFrame:
    raw = (files("svidag.datasets") / "data" / "sachs" / FILE).read_bytes()
    _check_digest(raw)
    return pd.read_csv(io.BytesIO(raw), nrows=n)


def _check_digest(raw: bytes) -> None:
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"the packaged file {FILE} was changed: expected SHA-256 {SHA256}, got {digest}; "
            "reinstall svidag"
        )


def _graph(truth: str, names: list[str]) -> pd.DataFrame:
    A = labelled(np.zeros((len(names), len(names)), dtype=np.uint8), names)
    for cause, effects in TRUTHS[truth].items():
        A.loc[cause, effects.split()] = 1
    return A


def _interventions(used: tuple[Condition, ...], names: pd.Index) -> pd.DataFrame:
    targets = np.repeat([c.target or "" for c in used], [c.rows for c in used])
    return pd.DataFrame({name: targets == name for name in names})


def _conditions(used: tuple[Condition, ...]) -> pd.Series:
    names = [condition.name for condition in used]
    codes = np.repeat(np.arange(len(used)), [condition.rows for condition in used])
    return pd.Series(pd.Categorical.from_codes(codes, names), name="condition")
