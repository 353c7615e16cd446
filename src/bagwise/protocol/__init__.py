"""Evaluation one can trust: a plan of independent cells, run by anyone, kept in a folder, summed up in tables."""

from bagwise.protocol.comparing import corrected_t_test, holm
from bagwise.protocol.evaluation import evaluate
from bagwise.protocol.metrics import METRICS
from bagwise.protocol.results import Results
from bagwise.protocol.splits import Split, make_splits

__all__ = ["METRICS", "Results", "Split", "corrected_t_test", "evaluate", "holm", "make_splits"]
