"""Bag predictions when the algorithm is a loop."""

from bagwise.regressors.embedding_ridge import EmbeddingRidge
from bagwise.regressors.pool_predictions import PoolPredictions

__all__ = ["EmbeddingRidge", "PoolPredictions"]
