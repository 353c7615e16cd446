from bagwise.regressors.additive import AdditiveRegressor as AdditiveRegressor
from bagwise.regressors.attention.attention_kme import AttentionWeighted as AttentionWeighted
from bagwise.regressors.attention.attention_regressor import AttentionRegressor as AttentionRegressor
from bagwise.regressors.bayesian.aggregate_gp import AggregateGP as AggregateGP
from bagwise.regressors.bayesian.evidence_ridge import EvidenceRidge as EvidenceRidge
from bagwise.regressors.bayesian.prime_instances import BayesianPrime as BayesianPrime
from bagwise.regressors.bayesian.sampled_shrinkage import SampledShrinkage as SampledShrinkage
from bagwise.regressors.bayesian.shrinkage import Shrinkage as Shrinkage
from bagwise.regressors.embedding_ridge import EmbeddingRidge as EmbeddingRidge, PredictionBlend as PredictionBlend
from bagwise.regressors.exemplars import ClusterRegressor as ClusterRegressor, SalienceRegressor as SalienceRegressor
from bagwise.regressors.iterative_weights import (
    Gate as Gate,
    Mixture as Mixture,
    Primary as Primary,
    Pruning as Pruning,
    Reweighting as Reweighting,
)
from bagwise.regressors.mean_regressor import MeanRegressor as MeanRegressor
from bagwise.regressors.pipeline import (
    BagPipeline as BagPipeline,
    PoolPredictions as PoolPredictions,
)
from bagwise.regressors.ridge_path import RidgePath as RidgePath
from bagwise.regressors.row_regressors import BoostedTrees as BoostedTrees, LassoPath as LassoPath

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
    "MeanRegressor",
    "Mixture",
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
