from bagwise.evaluation.comparison import corrected_t_test as corrected_t_test, holm as holm
from bagwise.evaluation.evaluation import evaluate as evaluate
from bagwise.evaluation.learning_curves import LearningCurve as LearningCurve, learning_curve as learning_curve
from bagwise.evaluation.results import Results as Results
from bagwise.evaluation.splits import Split as Split, make_splits as make_splits
from bagwise.metrics import METRICS as METRICS

__all__ = [
    "METRICS",
    "LearningCurve",
    "Results",
    "Split",
    "corrected_t_test",
    "evaluate",
    "holm",
    "learning_curve",
    "make_splits",
]
