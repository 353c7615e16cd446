from bagwise.intervals.conformal import Intervals as Intervals
from bagwise.intervals.order_statistics import (
    PredictiveDistribution as PredictiveDistribution,
    coverage as coverage,
    coverage_by as coverage_by,
    coverage_by_size as coverage_by_size,
    gaussian_coverage as gaussian_coverage,
    units_needed as units_needed,
)
from bagwise.intervals.scales import BagQuantiles as BagQuantiles, BagScale as BagScale

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
