"""Baselines: instance-mean, instance-median, aggregated, additive, statistics and miles."""

from __future__ import annotations

from functools import partial

from sklearn.ensemble import ExtraTreesRegressor

from bagwise.embeddings import Pool
from bagwise.embeddings.feature_mean import MinusDistance, Similarity
from bagwise.embeddings.summaries import Statistics
from bagwise.instances import EachInstance
from bagwise.kernels import Gaussian
from bagwise.methods.catalogue import FEW, MEAN, SHAPE, VALUES, Card, register, variant
from bagwise.methods.instance_kme import AS_PUBLISHED, default_network, paper_network
from bagwise.regressors import (
    AdditiveRegressor,
    BagPipeline,
    BoostedTrees,
    EmbeddingRidge,
    LassoPath,
    PoolPredictions,
    RidgePath,
)
from bagwise.regressors.pipeline import SLACK, scaled

# Sums over instances and extremes, so the preset also fits tables larger than memory.
MOMENTS = ("mean", "deviation", "skewness", "kurtosis", "min", "max", "size")


def instance_pool(statistic, *, network=default_network, slack=SLACK, random_state=0, n_jobs=None, **options):
    """Fit a network on all instances, each with its bag's target, and pool its predictions: instance-MIR."""
    learner = network(random_state=random_state, n_jobs=n_jobs)
    stage = EachInstance(learner, **options, random_state=random_state)
    return BagPipeline([("instances", stage), ("head", PoolPredictions(statistic, slack=slack))])


def ridge(embedding, *options, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit ridge regression on an embedding of standardised inputs."""
    return scaled(EmbeddingRidge(embedding(*options), RidgePath()))


def statistics(head) -> BagPipeline:
    """Build a pipeline of summary statistics, missing ones as NaN, and a head that reads NaN."""
    return BagPipeline([("embedding", Statistics(missing="keep")), ("head", head)])


def boosting(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit histogram gradient boosting: small trees, a fifth of the columns tried at each split."""
    return statistics(BoostedTrees(random_state=random_state))


def forest(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit extremely randomised trees, a tenth of the columns tried at each split (a third is slower and no better)."""
    return statistics(ExtraTreesRegressor(200, max_features=0.1, random_state=random_state, n_jobs=n_jobs))


def miles(*, head=RidgePath, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit ridge regression on similarities to 500 prototypes, their width chosen by leave-one-bag-out."""
    kernels = [Gaussian(0.25), Gaussian(0.5), Gaussian(1.0), MinusDistance()]
    embedding = Similarity(random_state=random_state)
    return scaled(EmbeddingRidge(embedding, head(), grid={"kernel": kernels}))


register(
    *(
        Card(
            name=f"instance-{statistic}",
            idea=f"Give each instance its bag's target, fit a network, and take the {statistic} of the predictions.",
            question=MEAN,
            assumes="every instance is a noisy view of the target",
            cites="Ray and Craven (2005); Uriot (2019), section 3.2",
            cost="one network on N instances",
            presets={
                "default": partial(instance_pool, statistic),
                "paper": variant(
                    "Fit the network of Uriot (2019) with equal weight for each instance.",
                    instance_pool,
                    statistic,
                    network=paper_network,
                    slack=None,
                    **AS_PUBLISHED,
                ),
            },
            gives=("weights", "contributions") if statistic == "mean" else ("weights",),
        )
        for statistic in ("mean", "median")
    ),
    Card(
        name="aggregated",
        idea="Fit ridge regression on the mean instance of each bag; leave-one-bag-out chooses the penalty.",
        question=MEAN,
        assumes="the target depends on the mean of the bag, linearly",
        cites="Wang, Radosavljevic, Han, Obradovic, Vucetic (2008)",
        cost="O(N d + B d²)",
        presets={
            "default": variant("Fit ridge regression on the mean instance of each bag: aggregated-MIR.", ridge, Pool)
        },
        gives=("contributions",),
    ),
    Card(
        name="additive",
        idea="Fit a network whose mean (or sum) over instances predicts the bag, with a mix of bag and instance loss.",
        question=VALUES,
        assumes="the target is an aggregate of one value per instance",
        cites="Javanmard, Chen, Mirrokni, Pouget-Abadie (2024)",
        cost="20 networks on N instances, O(N d h) per pass with h = 64, at most 200 passes",
        presets={
            "default": variant(
                "Fit a value per instance, whose mean is the target; held-out bags choose the loss.", AdditiveRegressor
            ),
            "sum": variant(
                "Predict the sum of the values, times the weights of instances.", AdditiveRegressor, aggregate="sum"
            ),
        },
        search_space={"hidden": [(32,), (64,), (64, 64)], "weight_decay": [1e-4, 1e-2]},
        gives=("contributions",),
        gpu=True,
    ),
    Card(
        name="statistics",
        idea="Summarise every feature of a bag by mean, deviation, quartiles, extremes and the size of the bag, and "
        "fit boosted trees.",
        question=SHAPE,
        assumes="the target depends on the distribution of each feature, not on dependence between features",
        cites="Gärtner, Flach, Kowalczyk, Smola (2002); Friedman (2001)",
        cost="O(N d log L), then 200 trees on 7 d columns",
        presets={
            "default": boosting,
            "forest": forest,
            "linear": variant("Fit ridge regression on the statistics of standardised inputs.", ridge, Statistics),
            "moments": variant(
                "Fit ridge regression on moments, extremes and size of each feature.", ridge, Statistics, MOMENTS
            ),
        },
        search_space={"head__max_leaf_nodes": [8, 15, 31], "head__max_iter": [100, 200, 400]},
    ),
    Card(
        name="miles",
        idea="Describe a bag by how close its nearest instance comes to each of many prototypes, and fit a "
        "linear model.",
        question=FEW,
        assumes="the target depends on the presence of instances of some kind",
        cites="Chen, Bi, Wang (2006); El-Manzalawy (2009), MILESReg",
        cost="O(N P), P = 500 prototypes",
        presets={
            "default": miles,
            "sparse": variant("Fit the lasso, so that few prototypes have a weight.", miles, head=LassoPath),
        },
        search_space={"head__embedding__prototypes": [200, 500, 1000], "head__embedding__pool": ["max", "mean"]},
    ),
)
