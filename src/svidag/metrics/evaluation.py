"""Expected scores of graph draws against a known truth, and coverage of its equivalence class.

Two conventions for the same four scores (Brier, E-SHD, E-F1, AUROC):

``standard``
    The definitions in the paper's appendix on evaluation. A reversed edge counts once in the
    SHD. At CPDAG level the truth and every draw are converted first and all four scores use the
    converted graphs, where an undirected i – j is a mark in both cells [i, j] and [j, i].
``reference``
    The scoring behind the published tables, for comparison with them only. At DAG level a
    reversal counts twice. At CPDAG level only the SHD looks at CPDAGs; the F1 compares skeletons,
    and Brier and AUROC score the larger of the two DAG frequencies p_ij and p_ji against the
    skeleton, which understates the probability of an adjacency (that is p_ij + p_ji) by up to half.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt8
from numpy.typing import ArrayLike

from svidag.graph import adjacency, cpdag, cpdags, distinct, require_dag, size
from svidag.metrics.distances import f1, shd
from svidag.metrics.forecasts import auroc, brier


def evaluate(
    draws: ArrayLike,
    truth: ArrayLike,
    level: Literal["dag", "cpdag"] = "dag",
    convention: Literal["standard", "reference"] = "standard",
    *,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    allow_cyclic_truth: bool = False,
) -> dict[str, float]:
    """Brier score, expected SHD, expected F1 and AUROC of graph draws against the true graph.

    ========  =================================  ===============================================
    level     standard                           reference
    ========  =================================  ===============================================
    dag       SHD: differing unordered pairs;    SHD: differing ordered pairs;
              F1, Brier, AUROC: ordered pairs    F1, Brier, AUROC: ordered pairs
    cpdag     the same four on the marks of      SHD: differing unordered pairs of CPDAGs;
              the CPDAGs                         F1: skeletons, Brier and AUROC: max(p_ij, p_ji)
                                                 of the DAG frequencies, on unordered pairs
    ========  =================================  ===============================================

    Parameters
    ----------
    draws
        Graphs [S, m, m], ``draws[s, i, j] = 1`` for i → j. At CPDAG level each must be acyclic.
    truth
        The true graph [m, m]; a labelled frame (causes in rows, effects in columns) must have
        equal row and column labels.
    names
        Variables in the order of the draws; a labelled truth is put into that order.
    weights
        Weight of each draw, of any positive total; equal by default.
    probabilities
        Probability of each arrow i → j [m, m], in place of the frequencies among the draws, for
        Brier and AUROC. Not for standard CPDAG scores: they need frequencies of CPDAG marks.
    allow_cyclic_truth
        Score CPDAGs against a truth with a cycle, which has no CPDAG (see `svidag.graph.cpdag`
        for what is used instead). Reference convention only.

    Returns
    -------
    dict
        ``brier``, ``e_shd``, ``e_f1`` and ``auroc``; the last two between 0 and 1. The F1 of a
        draw without a correct edge is 0, even if truth and draw are both empty. The AUROC is nan
        if no pair or every pair is an edge of the truth.

    Examples
    --------
    >>> truth = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> reversed_ = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    >>> evaluate([truth, reversed_], truth)["e_shd"]
    1.0
    >>> evaluate([truth, reversed_], truth, convention="reference")["e_shd"]
    2.0
    >>> evaluate([truth, reversed_], truth, level="cpdag")
    {'brier': 0.0, 'e_shd': 0.0, 'e_f1': 1.0, 'auroc': 1.0}
    """
    _require_choice("level", level, ("dag", "cpdag"))
    _require_choice("convention", convention, ("standard", "reference"))
    draws = adjacency(draws, "draws", ndim=3)
    truth = _aligned(truth, names, draws.shape[-1])
    weight = _normalised(weights, len(draws))
    standard_cpdag = (level, convention) == ("cpdag", "standard")
    if standard_cpdag and probabilities is not None:
        raise ValueError(
            "probabilities are those of arrows, but standard CPDAG scores use the frequencies "
            "of CPDAG marks among the draws; leave them out"
        )
    if level == "cpdag" and not (allow_cyclic_truth and convention == "reference"):
        require_dag(truth, "truth")
    if standard_cpdag:
        draws, truth = cpdags(draws), cpdag(truth)
    p = _edge_probabilities(draws, weight, probabilities)
    if (level, convention) == ("cpdag", "reference"):
        return _skeleton_scores(draws, truth, weight, p)
    return _mark_scores(draws, truth, weight, p, reversal=1 if convention == "standard" else 2)


def _mark_scores(
    marks: UInt8[np.ndarray, "S m m"],
    truth: UInt8[np.ndarray, "m m"],
    weight: Float[np.ndarray, " S"],
    p: Float[np.ndarray, "m m"],
    reversal: Literal[1, 2],
) -> dict[str, float]:
    pairs = ~np.eye(len(truth), dtype=bool)
    return {
        "brier": brier(p[pairs], truth[pairs]),
        "e_shd": float(weight @ shd(marks, truth, reversal=reversal)),
        "e_f1": float(weight @ f1(marks, truth)),
        "auroc": auroc(p[pairs], truth[pairs]),
    }


def _skeleton_scores(
    draws: UInt8[np.ndarray, "S m m"],
    truth: UInt8[np.ndarray, "m m"],
    weight: Float[np.ndarray, " S"],
    p: Float[np.ndarray, "m m"],
) -> dict[str, float]:
    pairs = np.triu_indices(len(truth), 1)
    skeleton = truth | truth.T
    larger = np.maximum(p, p.T)
    return {
        "brier": brier(larger[pairs], skeleton[pairs]),
        "e_shd": float(weight @ shd(cpdags(draws), cpdag(truth, allow_cyclic=True))),
        "e_f1": float(weight @ f1(draws | draws.swapaxes(1, 2), skeleton)),
        "auroc": auroc(larger[pairs], skeleton[pairs]),
    }


def mec_coverage(draws: ArrayLike, truth: ArrayLike) -> float:
    """Fraction of the DAGs equivalent to the truth that occur among the draws at least once.

    Examples
    --------
    >>> mec_coverage([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], [[0, 1], [0, 0]])
    0.5
    """
    graphs, _ = distinct(draws)
    return int(_equivalent(graphs, truth).sum()) / size(truth)


def mec_mass(draws: ArrayLike, truth: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Fraction of the draws, by weight, that are Markov equivalent to the truth.

    Examples
    --------
    >>> mec_mass([[[0, 1], [0, 0]], [[0, 0], [1, 0]]], [[0, 1], [0, 0]])
    1.0
    """
    inside = _equivalent(draws, truth)
    return float(_normalised(weights, len(inside)) @ inside)


def _equivalent(draws: ArrayLike, truth: ArrayLike) -> Bool[np.ndarray, " S"]:
    return (cpdags(draws) == cpdag(require_dag(truth, "truth"))).all(axis=(1, 2))


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _aligned(truth: ArrayLike, names: Sequence[str] | None, m: int) -> UInt8[np.ndarray, "m m"]:
    """Return the truth in the order of the draws, which have m variables."""
    if names is not None and len(names) != m:
        raise ValueError(f"names has {len(names)} entries, but draws have {m} variables")
    if isinstance(truth, pd.DataFrame):
        truth = _reordered(truth, names)
    A = adjacency(truth, "truth")
    if len(A) != m or m < 2:
        raise ValueError(
            f"truth must have the {m} variables of draws, at least 2, but has {len(A)}"
        )
    return A


def _reordered(truth: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    labels = list(truth.index)
    if labels != list(truth.columns):
        raise ValueError("truth must have equal row and column labels in equal order")
    if names is None:
        return truth
    if len(set(labels)) < len(labels) or set(labels) != set(names):
        odd = sorted(map(str, set(labels) ^ set(names)))
        raise ValueError(f"truth and names must hold the same labels once each; differing: {odd}")
    return truth.loc[list(names), list(names)]


def _normalised(weights: ArrayLike | None, draws: int) -> Float[np.ndarray, " S"]:
    if draws == 0:
        raise ValueError("draws must hold at least one graph")
    weight = np.ones(draws) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (draws,):
        raise ValueError(f"weights must have shape [{draws}], got {list(weight.shape)}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
        raise ValueError("weights must be finite, not negative and not all zero")
    return weight / weight.sum()


def _edge_probabilities(
    marks: UInt8[np.ndarray, "S m m"],
    weight: Float[np.ndarray, " S"],
    probabilities: ArrayLike | None,
) -> Float[np.ndarray, "m m"]:
    if probabilities is None:
        # Equal frequencies must tie in the AUROC: count, or round away the noise of the sums.
        if (weight == weight[0]).all():
            return marks.mean(axis=0)
        return np.round(np.tensordot(weight, marks, axes=1), 12)
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != marks.shape[1:]:
        raise ValueError(
            f"probabilities must have shape {list(marks.shape[1:])}, got {list(p.shape)}"
        )
    return p
