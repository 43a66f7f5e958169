"""Data sets with known or agreed graphs: synthetic ones, and Sachs et al. (2005)."""

from svidag.datasets.example import Example
from svidag.datasets.sachs import sachs, sachs_folds
from svidag.datasets.seeds import content_seed
from svidag.datasets.structural import (
    CurvedMechanism,
    LinearMechanism,
    ReluNetwork,
    StructuralModel,
)
from svidag.datasets.synthetic import synthetic, two_node

__all__ = [
    "CurvedMechanism",
    "Example",
    "LinearMechanism",
    "ReluNetwork",
    "StructuralModel",
    "content_seed",
    "sachs",
    "sachs_folds",
    "synthetic",
    "two_node",
]
