"""Bag predictions when the algorithm is a loop."""

from bagwise.regressors.attention import AttentionRegressor
from bagwise.regressors.attention_weighted import AttentionWeighted
from bagwise.regressors.bayesian import EvidenceRidge
from bagwise.regressors.bayesian_prime import BayesianPrime
from bagwise.regressors.clusters import ClusterRegressor
from bagwise.regressors.embedding_ridge import EmbeddingRidge
from bagwise.regressors.gate import Gate
from bagwise.regressors.mixture import Mixture
from bagwise.regressors.pipeline import BagPipeline
from bagwise.regressors.pool_predictions import PoolPredictions
from bagwise.regressors.reweighting import Reweighting
from bagwise.regressors.salience import SalienceRegressor
from bagwise.regressors.sampled_shrinkage import SampledShrinkage
from bagwise.regressors.shrinkage import Shrinkage
from bagwise.regressors.weightings import Primary, Pruning

__all__ = [
    "AttentionRegressor",
    "AttentionWeighted",
    "BagPipeline",
    "BayesianPrime",
    "ClusterRegressor",
    "EmbeddingRidge",
    "EvidenceRidge",
    "Gate",
    "Mixture",
    "PoolPredictions",
    "Primary",
    "Pruning",
    "Reweighting",
    "SalienceRegressor",
    "SampledShrinkage",
    "Shrinkage",
]
