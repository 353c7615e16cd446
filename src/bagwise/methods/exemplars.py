"""cluster and salience: a bag stands for one weighted instance of itself."""

from __future__ import annotations

from bagwise.methods.catalogue import Card, register, variant
from bagwise.methods.learners import standardised
from bagwise.regressors import BagPipeline
from bagwise.regressors.clusters import ClusterRegressor
from bagwise.regressors.salience import SalienceRegressor


def cluster(relevance: str = "nearest", choice: str = "validation", *, random_state=0, n_jobs=None) -> BagPipeline:
    """cluster-MIR with five clusters, the best chosen on held-out bags; the exemplar is the nearest instance."""
    head = ClusterRegressor(relevance=relevance, choice=choice, random_state=random_state)
    return BagPipeline([("scale", standardised()), ("head", head)])


def salience(new_bags: str = "learned", *, random_state=0, n_jobs=None) -> BagPipeline:
    """Salience; the weights in new bags are learned from the instances."""
    return BagPipeline([("scale", standardised()), ("head", SalienceRegressor(new_bags=new_bags))])


register(
    Card(
        name="cluster",
        idea="Cluster all instances; a bag has one exemplar per cluster; regress on those of the most telling cluster.",
        assumes="one kind of instance carries the target, the others do not",
        cites="Wagstaff, Lane, Roper (2008)",
        cost="k-means on N instances, one ridge per cluster",
        presets={
            "default": cluster,
            "members": variant(
                "The exemplar is the mean of the members of the cluster in the bag.", cluster, "members"
            ),
            "mixture": variant("Clusters are Gaussians, and every instance belongs in part.", cluster, "mixture"),
            "training-error": variant(
                "The cluster is chosen by its error on the training bags, as in the source.",
                cluster,
                "nearest",
                "training",
            ),
        },
        search_space={"head__clusters": [2, 3, 5, 8, 12]},
        gives=("weights",),
    )
)
register(
    Card(
        name="salience",
        idea="Learn in turn the weights of each bag's instances, on the simplex, and a ridge on the weighted mean.",
        assumes="the target is linear in some weighted combination of the instances",
        cites="Wagstaff, Lane (2007); Pappas, Popescu-Belis (2014)",
        cost="O(N d + B d²) a round",
        presets={
            "default": salience,
            "uniform": variant("Instances of new bags weigh the same, as in the source.", salience, "uniform"),
        },
        search_space={"head__smoothness": [0.01, 0.1, 1.0, 10.0], "head__penalty": [1e-4, 1e-3, 1e-2]},
        gives=("weights",),
    )
)
