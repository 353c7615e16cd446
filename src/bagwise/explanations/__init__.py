"""What stands behind a prediction: which instance and which feature matter, for whom, and whether to trust it."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.explanations.explanation import Explanation, explain
    from bagwise.explanations.feature_importance import Importance, importance
    from bagwise.explanations.novelty_verdicts import Novelty, novelty
    from bagwise.explanations.subset_predictions import SubsetPredictions, predict_subset

__all__ = [
    "Explanation",
    "Importance",
    "Novelty",
    "SubsetPredictions",
    "explain",
    "importance",
    "novelty",
    "predict_subset",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "explanation": ("Explanation", "explain"),
        "feature_importance": ("Importance", "importance"),
        "novelty_verdicts": ("Novelty", "novelty"),
        "subset_predictions": ("SubsetPredictions", "predict_subset"),
    },
)
