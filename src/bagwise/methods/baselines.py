"""instance-mean, instance-median and aggregated, what the others are measured against; additive, between the two."""

from __future__ import annotations

from functools import partial

from bagwise.embeddings import Pool
from bagwise.instances import EachInstance
from bagwise.methods.catalogue import Card, register
from bagwise.methods.instance_kme import default_network, paper_network
from bagwise.regressors import AdditiveRegressor, BagPipeline, EmbeddingRidge, PoolPredictions, RidgePath
from bagwise.regressors.pipeline import scaled


def instance_pool(statistic: str, *, random_state=0, n_jobs=None) -> BagPipeline:
    """instance-MIR: a network on all instances, each carrying its bag's target; then the mean (median) of a bag."""
    learner = default_network(random_state=random_state, n_jobs=n_jobs)
    stage = EachInstance(learner, random_state=random_state)
    return BagPipeline([("instances", stage), ("head", PoolPredictions(statistic))])


def paper_instance_pool(statistic: str, *, random_state=0, n_jobs=None) -> BagPipeline:
    """The same with the network of Uriot (2019), every instance weighing the same."""
    learner = paper_network(random_state=random_state, n_jobs=n_jobs)
    stage = EachInstance(learner, weighting="instance", beyond="regressor", random_state=random_state)
    return BagPipeline([("instances", stage), ("head", PoolPredictions(statistic))])


def aggregated(*, random_state=0, n_jobs=None) -> BagPipeline:
    """aggregated-MIR: ridge regression on the mean instance of every bag."""
    return scaled(EmbeddingRidge(Pool(("mean",)), RidgePath()))


def additive(*, random_state=0, n_jobs=None, aggregate="mean") -> AdditiveRegressor:
    """The target is the mean of the instances' values; the blend of the losses is chosen on held-out bags."""
    return AdditiveRegressor(aggregate=aggregate, random_state=random_state, n_jobs=n_jobs)


def additive_sum(*, random_state=0, n_jobs=None) -> AdditiveRegressor:
    """The target is their sum, each value times the weight of its instance if it has one."""
    return additive(random_state=random_state, n_jobs=n_jobs, aggregate="sum")


for _statistic in ("mean", "median"):
    register(
        Card(
            name=f"instance-{_statistic}",
            idea=f"Give every instance its bag's target, fit a network, take the {_statistic} of a bag's predictions.",
            assumes="every instance is a noisy view of the target",
            cites="Ray and Craven (2005); Uriot (2019), section 3.2",
            cost="one network on N instances",
            presets={
                "default": partial(instance_pool, _statistic),
                "paper": partial(paper_instance_pool, _statistic),
            },
            gives=("weights", "contributions") if _statistic == "mean" else ("weights",),
        )
    )

register(
    Card(
        name="aggregated",
        idea="Replace every bag by its mean instance and fit ridge regression, its penalty by leave-one-bag-out.",
        assumes="the target depends on the mean of the bag, linearly",
        cites="Wang, Radosavljevic, Han, Obradovic, Vucetic (2008)",
        cost="O(N d + B d²)",
        presets={"default": aggregated},
        gives=("contributions",),
    )
)

register(
    Card(
        name="additive",
        idea="Predict a bag by the mean (or sum) of a network's values, trained on a blend of bag and instance losses.",
        assumes="the target is an aggregate of one value per instance",
        cites="Javanmard, Chen, Mirrokni, Pouget-Abadie (2024)",
        cost="20 networks on N instances, a pass being O(N d h), h = 64; at most 200 passes",
        presets={"default": additive, "sum": additive_sum},
        search_space={"hidden": [(32,), (64,), (64, 64)], "weight_decay": [1e-4, 1e-2]},
        gives=("contributions",),
        needs="torch",
        gpu=True,
    )
)
