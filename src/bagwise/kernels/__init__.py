"""The similarity of two instances: kernels by formula, and rules for their bandwidth."""

from bagwise.kernels.bandwidth import MarginalPseudolikelihood, MedianDistance, with_bandwidth
from bagwise.kernels.formulas import (
    Cauchy,
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    PrintedInverse,
    RationalQuadratic,
    Student,
    squared_distances,
)

__all__ = [
    "Cauchy",
    "Exponential",
    "Gaussian",
    "InverseMultiquadric",
    "Kernel",
    "Linear",
    "MarginalPseudolikelihood",
    "Matern32",
    "Matern52",
    "MedianDistance",
    "Polynomial",
    "PrintedInverse",
    "RationalQuadratic",
    "Student",
    "squared_distances",
    "with_bandwidth",
]
