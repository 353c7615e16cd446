from bagwise.explanations.explanation import Explanation as Explanation, explain as explain
from bagwise.explanations.feature_importance import Importance as Importance, importance as importance
from bagwise.explanations.novelty_verdicts import Novelty as Novelty, novelty as novelty
from bagwise.explanations.subset_predictions import (
    SubsetPredictions as SubsetPredictions,
    predict_subset as predict_subset,
)

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
