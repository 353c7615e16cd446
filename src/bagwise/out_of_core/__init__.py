"""Tables larger than memory: fits and predictions by sums over chunks, the same however the rows are cut into them."""

from bagwise.out_of_core.chunks import Block, Chunk
from bagwise.out_of_core.scan_fit import fit_scan, streamed_methods, summable_methods
from bagwise.out_of_core.scan_predictions import predict_scan
from bagwise.out_of_core.table_scan import Scan, scan

__all__ = ["Block", "Chunk", "Scan", "fit_scan", "predict_scan", "scan", "streamed_methods", "summable_methods"]
