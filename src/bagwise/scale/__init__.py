"""Tables larger than memory: partitioned by bag once, then every pass is a map over partitions."""

from bagwise.scale.scan_fit import fit_scan
from bagwise.scale.scan_predictions import predict_scan
from bagwise.scale.table_scan import Scan, scan

__all__ = ["Scan", "fit_scan", "predict_scan", "scan"]
