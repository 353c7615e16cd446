"""The similarity of two instances: kernels by formula."""

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
    "Matern32",
    "Matern52",
    "Polynomial",
    "PrintedInverse",
    "RationalQuadratic",
    "Student",
    "squared_distances",
]
