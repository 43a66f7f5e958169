"""Scores of a posterior over graphs: distances to a known truth, calibration, class coverage."""

from svidag.metrics.distances import f1, shd, sid
from svidag.metrics.evaluation import evaluate, mec_coverage, mec_mass
from svidag.metrics.forecasts import (
    Reliability,
    auroc,
    brier,
    calibration_band,
    expected_calibration_error,
    reliability,
)

__all__ = [
    "Reliability",
    "auroc",
    "brier",
    "calibration_band",
    "evaluate",
    "expected_calibration_error",
    "f1",
    "mec_coverage",
    "mec_mass",
    "reliability",
    "shd",
    "sid",
]
