"""Evaluation one can trust: a plan of independent cells, run by anyone, kept in a folder, summed up in tables."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.evaluation.evaluation import evaluate
    from bagwise.evaluation.learning_curves import LearningCurve, learning_curve
    from bagwise.evaluation.metrics import METRICS, corrected_t_test, holm
    from bagwise.evaluation.results import Results
    from bagwise.evaluation.splits import Split, make_splits

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

__getattr__, __dir__ = exported(
    __name__,
    {
        "evaluation": ("evaluate",),
        "learning_curves": ("LearningCurve", "learning_curve"),
        "metrics": (
            "METRICS",
            "corrected_t_test",
            "holm",
        ),
        "results": ("Results",),
        "splits": ("Split", "make_splits"),
    },
)
