"""From rows or bags to targets: ridge and lasso paths, trees, and methods whose algorithm is a loop."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.regressors.additive import AdditiveRegressor
    from bagwise.regressors.attention.attention_kme import AttentionWeighted
    from bagwise.regressors.attention.attention_regressor import AttentionRegressor
    from bagwise.regressors.bayesian.aggregate_gp import AggregateGP
    from bagwise.regressors.bayesian.evidence_ridge import EvidenceRidge
    from bagwise.regressors.bayesian.prime_instances import BayesianPrime
    from bagwise.regressors.bayesian.sampled_shrinkage import SampledShrinkage
    from bagwise.regressors.bayesian.shrinkage import Shrinkage
    from bagwise.regressors.embedding_ridge import EmbeddingRidge, PredictionBlend
    from bagwise.regressors.exemplars import ClusterRegressor, SalienceRegressor
    from bagwise.regressors.iterative_weights import Gate, Mixture, Primary, Pruning, Reweighting
    from bagwise.regressors.pipeline import BagPipeline, MultiTarget, PoolPredictions
    from bagwise.regressors.ridge_path import RidgePath
    from bagwise.regressors.row_regressors import BoostedTrees, LassoPath

__all__ = [
    "AdditiveRegressor",
    "AggregateGP",
    "AttentionRegressor",
    "AttentionWeighted",
    "BagPipeline",
    "BayesianPrime",
    "BoostedTrees",
    "ClusterRegressor",
    "EmbeddingRidge",
    "EvidenceRidge",
    "Gate",
    "LassoPath",
    "Mixture",
    "MultiTarget",
    "PoolPredictions",
    "PredictionBlend",
    "Primary",
    "Pruning",
    "Reweighting",
    "RidgePath",
    "SalienceRegressor",
    "SampledShrinkage",
    "Shrinkage",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "additive": ("AdditiveRegressor",),
        "attention.attention_regressor": ("AttentionRegressor",),
        "attention.attention_kme": ("AttentionWeighted",),
        "bayesian.aggregate_gp": ("AggregateGP",),
        "bayesian.evidence_ridge": ("EvidenceRidge",),
        "bayesian.prime_instances": ("BayesianPrime",),
        "bayesian.sampled_shrinkage": ("SampledShrinkage",),
        "bayesian.shrinkage": ("Shrinkage",),
        "pipeline": ("BagPipeline", "MultiTarget", "PoolPredictions"),
        "iterative_weights": ("Gate", "Mixture", "Primary", "Pruning", "Reweighting"),
        "embedding_ridge": ("EmbeddingRidge", "PredictionBlend"),
        "ridge_path": ("RidgePath",),
        "exemplars": ("ClusterRegressor", "SalienceRegressor"),
        "row_regressors": ("BoostedTrees", "LassoPath"),
    },
)
