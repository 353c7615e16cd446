"""Uncertainty at bag level: intervals that hold what they promise, and how well the promised ones do."""

from bagwise.intervals.covering import coverage, coverage_by_size, gaussian_coverage
from bagwise.intervals.order_statistics import units_needed
from bagwise.intervals.regressor import Intervals
from bagwise.intervals.scales import BagScale

__all__ = ["BagScale", "Intervals", "coverage", "coverage_by_size", "gaussian_coverage", "units_needed"]
