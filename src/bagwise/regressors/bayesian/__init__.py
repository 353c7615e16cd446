"""Bayesian regressors: a standard deviation for every prediction."""
