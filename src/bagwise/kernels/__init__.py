"""The similarity of two instances: kernels by formula, rules for their bandwidth, random features."""

from bagwise.kernels.bandwidths import MarginalPseudolikelihood, MedianDistance
from bagwise.kernels.formulas import (
    Cauchy,
    Exponential,
    FourierFeatures,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    NystroemFeatures,
    Polynomial,
    PrintedInverse,
    RationalQuadratic,
    Student,
    squared_distances,
    with_bandwidth,
)

__all__ = [
    "Cauchy",
    "Exponential",
    "FourierFeatures",
    "Gaussian",
    "InverseMultiquadric",
    "Kernel",
    "Linear",
    "MarginalPseudolikelihood",
    "Matern32",
    "Matern52",
    "MedianDistance",
    "NystroemFeatures",
    "Polynomial",
    "PrintedInverse",
    "RationalQuadratic",
    "Student",
    "squared_distances",
    "with_bandwidth",
]
