"""Fits and predictions as sums over rows that are never all in memory: the same numbers however the rows are cut."""

from bagwise.out_of_core.chunks import Block, Chunk
from bagwise.out_of_core.fit_scan import fit_scan, summable_methods
from bagwise.out_of_core.predict_scan import predict_scan
from bagwise.out_of_core.scan import Scan, scan

__all__ = ["Block", "Chunk", "Scan", "fit_scan", "predict_scan", "scan", "summable_methods"]
