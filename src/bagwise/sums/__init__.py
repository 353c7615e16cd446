"""Fits and predictions as sums over rows that are never all in memory: the same numbers however the rows are cut."""

from bagwise.sums.fitting import fit_scan, summable_methods
from bagwise.sums.predicting import predict_scan

__all__ = ["fit_scan", "predict_scan", "summable_methods"]
