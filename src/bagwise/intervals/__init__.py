"""Intervals around predictions that cover a given share of new bags, and the coverage of any intervals."""

from bagwise.intervals.conformal import Intervals
from bagwise.intervals.order_statistics import coverage, coverage_by_size, gaussian_coverage, units_needed
from bagwise.intervals.scales import BagScale

__all__ = ["BagScale", "Intervals", "coverage", "coverage_by_size", "gaussian_coverage", "units_needed"]
