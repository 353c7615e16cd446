"""From rows or bags to targets: ridge and lasso paths, trees, and methods whose algorithm is a loop."""

from bagwise.regressors.attention.attention_regressor import AttentionRegressor
from bagwise.regressors.attention.weighted_embedding import AttentionWeighted
from bagwise.regressors.bayesian.evidence_ridge import EvidenceRidge
from bagwise.regressors.bayesian.prime_instances import BayesianPrime
from bagwise.regressors.bayesian.sampled_shrinkage import SampledShrinkage
from bagwise.regressors.bayesian.shrinkage import Shrinkage
from bagwise.regressors.clusters import ClusterRegressor
from bagwise.regressors.embedding_ridge import EmbeddingRidge
from bagwise.regressors.gate import Gate
from bagwise.regressors.lasso_path import LassoPath
from bagwise.regressors.pipeline import BagPipeline, PoolPredictions
from bagwise.regressors.reweighting import Mixture, Primary, Pruning, Reweighting
from bagwise.regressors.ridge_path import RidgePath
from bagwise.regressors.salience import SalienceRegressor
from bagwise.regressors.trees import BoostedTrees

__all__ = [
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
    "PoolPredictions",
    "Primary",
    "Pruning",
    "Reweighting",
    "RidgePath",
    "SalienceRegressor",
    "SampledShrinkage",
    "Shrinkage",
]
