"""Options that the regressors refuse, and what they say."""

import pytest
from sklearn.neighbors import KNeighborsRegressor

from bagwise.embeddings import KernelMean, LandmarkMean
from bagwise.kernels import InverseMultiquadric
from bagwise.regressors import (
    AdditiveRegressor,
    AggregateGP,
    BayesianPrime,
    ClusterRegressor,
    EmbeddingRidge,
    EvidenceRidge,
    Mixture,
    PoolPredictions,
    Pruning,
    Reweighting,
    SalienceRegressor,
    SampledShrinkage,
    Shrinkage,
)
from bagwise.testing.contract_checks import sample

BLENDS = "blends must hold at least one number, each from 0 to 1"
NEEDS_WEIGHTS = "KNeighborsRegressor takes no sample_weight"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (AdditiveRegressor(aggregate="max"), "aggregate must be 'mean' or 'sum', not 'max'"),
        (AdditiveRegressor(blends=()), rf"{BLENDS}, not \(\)"),
        (AdditiveRegressor(blends=(0.5, 2)), rf"{BLENDS}, not \(0.5, 2\)"),
        (AdditiveRegressor(blends=0.5), f"{BLENDS}, not 0.5"),
        (AdditiveRegressor((0,)), r"hidden must be a tuple of whole numbers above zero, or \(\), not \(0,\)"),
        (AdditiveRegressor(folds=1), "folds must be a whole number above one, not 1"),
        (AggregateGP(likelihood="poison"), "likelihood must be 'gaussian', 'poisson' or 'binomial', not 'poison'"),
        (AggregateGP(aggregate="total"), "aggregate must be 'mean' or 'sum', not 'total'"),
        (BayesianPrime(top=0), "draws and top must be at least 1"),
        (ClusterRegressor(relevance="all"), "relevance must be 'nearest', 'members' or 'mixture'"),
        (ClusterRegressor(choice="test"), "choice must be 'validation' or 'training'"),
        (EmbeddingRidge(offset="max"), "offset must be 'none', 'mean' or 'median', not 'max'"),
        (EmbeddingRidge(offset="mean"), r"offset='mean' is for instance predictions \(one column\), not 3 features"),
        (EvidenceRidge(KernelMean(columns="gram")), "needs an embedding with features for columns"),
        (PoolPredictions("mode"), "statistic must be 'mean' or 'median'"),
        (PoolPredictions(), r"takes instance predictions \(one column\), not 3 features"),
        (Reweighting(rule="mode"), "rule must be 'median', 'mean' or 'prime', not 'mode'"),
        (Reweighting(rounds=0), "rounds must be at least 1, not 0"),
        (Reweighting(weighting=Mixture("soft")), "mixing must be 'uniform' or 'gated', not 'soft'"),
        (Reweighting(weighting=Pruning(rate=1.5)), "rate must lie between 0 and 1, not 1.5"),
        (Reweighting(KNeighborsRegressor()), NEEDS_WEIGHTS),
        (Reweighting(KNeighborsRegressor(), weighting=Pruning()), NEEDS_WEIGHTS),
        (SalienceRegressor(new_bags="none"), "new_bags must be 'learned' or 'uniform'"),
        (SalienceRegressor(smoothness=-1.0), "smoothness must not be negative"),
        (SalienceRegressor(rounds=0), "rounds must be a whole number above zero, not 0"),
        (SampledShrinkage(draws=3), "draws must be a whole number of at least 4, not 3"),
        (SampledShrinkage(chains=0), "chains must be a whole number above zero, not 0"),
        (Shrinkage(prior="flat"), "prior must be 'kernel', 'nonstationary' or 'between', not 'flat'"),
        (Shrinkage(penalties=(1.0, 0.0)), "penalties must be above zero"),
        (
            Shrinkage(LandmarkMean(InverseMultiquadric()), prior="nonstationary"),
            "for the Gaussian kernel, not InverseMultiquadric",
        ),
    ],
)
def test_an_option_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*sample(12))
