"""Data sets with known or agreed graphs: synthetic ones, and Sachs et al. (2005)."""

from svidag.datasets.example import Example
from svidag.datasets.sachs import sachs, sachs_folds
from svidag.datasets.structural import LinearMechanism, ReluNetwork, StructuralModel
from svidag.datasets.synthetic import content_seed, synthetic, two_node

__all__ = [
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
