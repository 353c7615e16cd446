"""Methods that weight instances.

Some choose the instances that carry the target of their bag (prime, pruning, em, bmir), some reduce a bag to one
weighted instance (cluster, salience), and in some a network learns the weights (attention, instance-kme-attention).
"""

from __future__ import annotations

from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from bagwise.instances import NetworkRegressor, OutOfFold
from bagwise.instances.out_of_fold import seeded
from bagwise.methods.catalogue import FEW, Card, register, variant
from bagwise.methods.instance_kme import KERNELS, default_network, second_stage
from bagwise.regressors import (
    AttentionRegressor,
    AttentionWeighted,
    BagPipeline,
    BayesianPrime,
    ClusterRegressor,
    Gate,
    Mixture,
    Primary,
    Pruning,
    Reweighting,
    SalienceRegressor,
)
from bagwise.regressors.pipeline import scaled


def cluster(*, random_state=0, n_jobs=None, **options) -> BagPipeline:
    """Fit cluster-MIR with five clusters, the best chosen on held-out bags; the exemplar is the nearest instance."""
    return scaled(ClusterRegressor(**options, random_state=random_state))


def salience(new_bags: str = "learned", *, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit salience; the weights in new bags are learned from the instances."""
    return scaled(SalienceRegressor(new_bags=new_bags))


def reweighted(weighting, *, network=False, rounds: int = 100, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit a weighting iteratively, with a linear function of the instance or a network.

    The network has 20 units, as small as in the sources, because it should smooth over the instances of a bag.
    """
    options = {"random_state": random_state, "n_jobs": n_jobs}
    regressor = NetworkRegressor((20,), epochs=60, learning_rate=0.01, **options) if network else LinearRegression()
    weighting = seeded(clone(weighting), random_state)
    return scaled(Reweighting(regressor, weighting=weighting, rounds=rounds, random_state=random_state))


NETWORK = {"network": True, "rounds": 15}  # each round trains a network, and the first few bring most of the gain
GATED = Mixture("gated", gate=Gate(8).set_params(random_state=None))  # the seed is that of the method


def bmir(*, random_state=0, n_jobs=None, **options) -> BagPipeline:
    """Fit Bayesian prime-MIR; the three most likely instances of a new bag are averaged."""
    return scaled(BayesianPrime(**{"top": 3, **options}, random_state=random_state))


def weighted_kme(*, random_state=0, n_jobs=None, use="both") -> AttentionWeighted:
    """Weight the loss and the embedding of instance-kme by cross-fitted attention; left-out bags choose how much."""
    # No offset, because it would add the unweighted mean.
    head, judge = second_stage(KERNELS, offset="none"), second_stage(KERNELS[:5:2], offset="none")
    learner = default_network(random_state=random_state)
    stage = OutOfFold(learner, judge=judge, random_state=random_state, n_jobs=n_jobs)
    attention = AttentionRegressor(restarts=2, random_state=random_state, n_jobs=n_jobs)
    return AttentionWeighted(attention, stage, head, use=use)


register(
    Card(
        name="cluster",
        idea="Cluster all instances, take one exemplar per bag and cluster, and regress on those of the best cluster.",
        question=FEW,
        assumes="one kind of instance determines the target",
        cites="Wagstaff, Lane, Roper (2008)",
        cost="k-means on N instances, one ridge per cluster",
        presets={
            "default": cluster,
            "members": variant(
                "The exemplar is the mean of the members of the cluster in the bag.", cluster, relevance="members"
            ),
            "mixture": variant(
                "Weight instances by their probability in Gaussian clusters.", cluster, relevance="mixture"
            ),
            "training-error": variant(
                "The cluster is chosen by its training error, as in the source.", cluster, choice="training"
            ),
        },
        search_space={"head__clusters": [2, 3, 5, 8, 12]},
        gives=("weights",),
    ),
    Card(
        name="salience",
        idea="Alternate between learning instance weights per bag and ridge regression on the weighted means.",
        question=FEW,
        assumes="the target is linear in some weighted combination of the instances",
        cites="Wagstaff, Lane (2007); Pappas, Popescu-Belis (2014)",
        cost="O(N d + B d²) per round",
        presets={
            "default": salience,
            "uniform": variant("Give the instances of new bags equal weights, as in the source.", salience, "uniform"),
        },
        search_space={"head__smoothness": [0.01, 0.1, 1.0, 10.0], "head__penalty": [1e-4, 1e-3, 1e-2]},
        gives=("weights",),
    ),
    Card(
        name="prime",
        idea="Choose the best predicted instance of each bag, refit on these instances, and repeat.",
        question=FEW,
        assumes="one instance of every bag determines the target, linearly",
        cites="Ray and Page (2001)",
        cost="about 100 linear fits on B instances",
        presets={
            "default": variant(
                "Fit a linear function with ten random starts, as in the source.", reweighted, Primary()
            ),
            "network": variant("Fit a network, with two random starts.", reweighted, Primary(restarts=2), **NETWORK),
        },
        search_space={"head__weighting__restarts": [0, 10, 50], "head__rule": ["median", "mean"]},
        gives=("weights",),
    ),
    Card(
        name="pruning",
        idea="Fit all instances, drop those predicted farthest from the median of their bag, and repeat.",
        question=FEW,
        assumes="most instances of a bag predict the target; the others are outliers",
        cites="Wang, Radosavljevic, Han, Obradovic, Vucetic (2008)",
        cost="about 10 small networks on N instances",
        presets={
            "default": variant(
                "Fit a network; drop the outermost twentieth of each bag while the error falls.",
                reweighted,
                Pruning(),
                network=True,
            ),
            "linear": variant("Fit a linear function of the instance.", reweighted, Pruning()),
        },
        search_space={"head__weighting__rate": [0.02, 0.05, 0.1], "head__rule": ["median", "mean"]},
        gives=("weights",),
    ),
    Card(
        name="em",
        idea="Fit a mixture in which one instance per bag determines the target; its probabilities weight instances.",
        question=FEW,
        assumes="one latent instance determines the target, and features say which instance is likely",
        cites="Wang, Lan, Vucetic (2012)",
        cost="about 15 small networks on N instances",
        # On the data of Wang et al., where a gate has nothing to learn, gated mixing is as good as uniform mixing; if
        # the features show which instances are relevant, it is far better.
        presets={
            "default": variant(
                "Fit a network and a learned gate, which weights the median of a new bag.", reweighted, GATED, **NETWORK
            ),
            "uniform-network": variant(
                "Fit a network; every instance of a bag is equally likely.", reweighted, Mixture(), **NETWORK
            ),
            "gated-linear": variant("Fit a linear function and a learned gate.", reweighted, GATED),
            "uniform-linear": variant(
                "Fit a linear function; every instance of a bag is equally likely.", reweighted, Mixture()
            ),
        },
        search_space={"head__weighting__gate__penalty": [0.003, 0.01, 0.03], "head__rule": ["median", "mean"]},
        gives=("weights",),
    ),
    Card(
        name="bmir",
        idea="Sample the primary instances and a linear function by Gibbs sampling; a forest finds them in new bags.",
        question=FEW,
        assumes="one instance of every bag determines the target, linearly, and its features identify it",
        cites="Park, Wang, Lim, Xiao, Lu, Wang (2020)",
        cost="1,500 sweeps of O(N d), and a forest on N instances",
        presets={
            "default": bmir,
            "paper": variant(
                "Predict by the most likely instance alone, after 20,000 sweeps, as in the source.",
                bmir,
                draws=10_000,
                burn_in=10_000,
                top=1,
                slack=None,
            ),
        },
        search_space={"head__top": [1, 3, 10]},
        gives=("std", "weights"),
    ),
    Card(
        name="attention",
        idea="Fit a network that weights the instances of a bag several times and predicts from the weighted sums.",
        question=FEW,
        assumes="some instances matter more than others, and their features tell which",
        cites="Uriot (2019a); Vinyals, Bengio, Kudlur (2016); Ilse, Tomczak, Welling (2018)",
        cost="5 networks on N instances, O(N d h) per pass with h = 64, at most 200 passes",
        presets={
            "default": variant(
                "Fit set attention with two looks at the bag; average five networks.", AttentionRegressor
            ),
            "gated": variant("Fit gated attention, with one look at the bag.", AttentionRegressor, pooling="gated"),
            "moments": variant(
                "Pass mean, variance and skewness of every feature to the head as well.", AttentionRegressor, moments=3
            ),
        },
        search_space={"looks": [1, 2, 3, 4], "moments": [0, 1, 2, 3], "read": [(32,), (64,), (64, 64)]},
        gives=("weights",),
        gpu=True,
    ),
    Card(
        name="instance-kme-attention",
        idea="Fit instance-kme with instance weights from attention networks that were not trained on the bag.",
        question=FEW,
        assumes="instances predict the target, and some are more reliable than others",
        cites="Uriot (2019), future work",
        cost="3 times instance-kme, and 2 attention networks per fold",
        presets={
            "default": weighted_kme,
            "loss": variant("Attention weights the loss of the instance networks alone.", weighted_kme, use="loss"),
            "embedding": variant("Attention weights the embedding alone.", weighted_kme, use="embedding"),
        },
        gives=("weights", "contributions"),
        gpu=True,
    ),
)
