"""Intervals around predictions that cover a given share of new bags, and the coverage of any intervals."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.intervals.conformal import Intervals
    from bagwise.intervals.order_statistics import (
        PredictiveDistribution,
        coverage,
        coverage_by,
        coverage_by_size,
        gaussian_coverage,
        units_needed,
    )
    from bagwise.intervals.scales import BagQuantiles, BagScale

__all__ = [
    "BagQuantiles",
    "BagScale",
    "Intervals",
    "PredictiveDistribution",
    "coverage",
    "coverage_by",
    "coverage_by_size",
    "gaussian_coverage",
    "units_needed",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "conformal": ("Intervals",),
        "order_statistics": (
            "PredictiveDistribution",
            "coverage",
            "coverage_by",
            "coverage_by_size",
            "gaussian_coverage",
            "units_needed",
        ),
        "scales": (
            "BagQuantiles",
            "BagScale",
        ),
    },
)
