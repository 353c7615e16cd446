"""Methods on plain columns per bag: summary statistics with trees, and similarity to prototypes."""

from __future__ import annotations

from sklearn.ensemble import ExtraTreesRegressor

from bagwise.embeddings.feature_mean import MinusDistance, Similarity
from bagwise.embeddings.summaries import Statistics
from bagwise.kernels import Gaussian
from bagwise.methods.catalogue import Card, register, variant
from bagwise.regressors import BagPipeline, BoostedTrees, EmbeddingRidge, LassoPath, RidgePath
from bagwise.regressors.pipeline import scaled

MOMENTS = ("mean", "deviation", "skewness", "kurtosis", "min", "max", "size")


def statistics(head) -> BagPipeline:
    """Trees read missing values (NaN) as they are: that a bag has no value of a feature is one more split."""
    return BagPipeline([("embedding", Statistics(missing="keep")), ("head", head)])


def boosting(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Histogram gradient boosting: small trees, a fifth of the columns tried at each split."""
    return statistics(BoostedTrees(random_state=random_state))


def forest(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Extremely randomised trees, a tenth of the columns tried at each split: a third is slower and no better."""
    return statistics(ExtraTreesRegressor(200, max_features=0.1, random_state=random_state, n_jobs=n_jobs))


def linear(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Ridge regression on the statistics of standardised inputs."""
    return scaled(EmbeddingRidge(Statistics(), RidgePath()))


def moments(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Ridge regression on mean, deviation, skewness, kurtosis, extremes and size: what can be had from sums over
    instances, so it fits out of core and on a cluster too (``bagwise.fit_scan``)."""
    return scaled(EmbeddingRidge(Statistics(MOMENTS), RidgePath()))


def miles(*, head=RidgePath, random_state=0, n_jobs=None) -> BagPipeline:
    """Ridge regression on similarities to 500 prototypes, their width chosen by leave-one-bag-out."""
    kernels = [Gaussian(0.25), Gaussian(0.5), Gaussian(1.0), MinusDistance()]
    embedding = Similarity(random_state=random_state)
    return scaled(EmbeddingRidge(embedding, head(), grid={"kernel": kernels}))


register(
    Card(
        name="statistics",
        idea="Summarise every feature of a bag by mean, deviation, quartiles, extremes and the size of the bag, and "
        "fit boosted trees.",
        assumes="the target depends on the distribution of single features, not on how they go together",
        cites="Gärtner, Flach, Kowalczyk, Smola (2002); Friedman (2001)",
        cost="O(N d log L), then 200 trees on 7 d columns",
        presets={"default": boosting, "forest": forest, "linear": linear, "moments": moments},
        search_space={"head__max_leaf_nodes": [8, 15, 31], "head__max_iter": [100, 200, 400]},
    )
)

register(
    Card(
        name="miles",
        idea="Describe a bag by how close its nearest instance comes to each of many prototypes, and fit a "
        "linear model.",
        assumes="the presence of instances of some kind moves the target",
        cites="Chen, Bi, Wang (2006); El-Manzalawy (2009), MILESReg",
        cost="O(N P), P = 500 prototypes",
        presets={
            "default": miles,
            "sparse": variant("The lasso in place of ridge: few prototypes keep a weight.", miles, head=LassoPath),
        },
        search_space={"head__embedding__prototypes": [200, 500, 1000], "head__embedding__pool": ["max", "mean"]},
    )
)
