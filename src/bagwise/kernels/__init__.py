"""The similarity of two instances: kernels by formula, rules for their bandwidth, random features."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
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

__getattr__, __dir__ = exported(
    __name__,
    {
        "bandwidths": ("MarginalPseudolikelihood", "MedianDistance"),
        "formulas": (
            "Cauchy",
            "Exponential",
            "FourierFeatures",
            "Gaussian",
            "InverseMultiquadric",
            "Kernel",
            "Linear",
            "Matern32",
            "Matern52",
            "NystroemFeatures",
            "Polynomial",
            "PrintedInverse",
            "RationalQuadratic",
            "Student",
            "squared_distances",
            "with_bandwidth",
        ),
    },
)
