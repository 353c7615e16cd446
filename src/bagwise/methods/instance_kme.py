"""instance-kme-MIR, the method of Uriot (2019), in six presets, and the networks that methods share.

Methods share networks so that a comparison of two methods is not a comparison of two networks.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import clone

from bagwise.embeddings import KernelMean, SlicedQuantiles
from bagwise.instances import ColumnScaler, NetworkRegressor, OutOfFold, OutOfFoldUnion, RandomFeatureRidge
from bagwise.kernels import FourierFeatures, Gaussian, InverseMultiquadric
from bagwise.methods.catalogue import RECOMMENDED, Card, register, variant
from bagwise.regressors import BagPipeline, EmbeddingRidge, PredictionBlend, RidgePath

# More epochs seldom helped on the simulations. Candidates cost nothing: a network passes through each of them.
EPOCHS = (5, 10, 20, 40, 80)
# The grid of the paper, in units of the label, and its treatment of instances.
PAPER_BANDWIDTHS = tuple(float(theta) for theta in range(10, 150, 10))
PAPER_PENALTIES = tuple(10.0**-e for e in range(1, 17))
AS_PUBLISHED = {"weighting": "instance", "beyond": "regressor"}
# Ours, in standard deviations of the predictions.
BANDWIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
KERNELS = tuple(kernel(b) for kernel in (Gaussian, InverseMultiquadric) for b in BANDWIDTHS)
# A smaller penalty lets the function oscillate where few predictions lie, which the left-out error does not show.
PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -5.5, -0.5))
# Columns beyond which ridge regression on all of them takes longer than the networks.
WIDE = 1000
RIDGE_KERNELS = (*map(Gaussian, BANDWIDTHS), *map(InverseMultiquadric, BANDWIDTHS[2:]))
# For random-feature ridge. With smaller penalties the order of the rows would change the ninth digit.
RIDGE_PENALTIES = tuple(float(f"1e{e}") for e in range(-6, 1))


def default_network(*, random_state=0, n_jobs=None):
    """Return a network with one hidden layer of 128 units, its number of epochs chosen on held-out bags."""
    return NetworkRegressor(
        (128,), epochs=EPOCHS, batch_size="auto", weight_decay=0.05, random_state=random_state, n_jobs=n_jobs
    )


def paper_network(hidden: int = 128, epochs: int = 100, weight_decay: float = 0.05, *, random_state=0, n_jobs=None):
    """Return a network on targets in their own units, as a comment in the notebook of Uriot (2019) has it.

    The setting is plausible for aerosol; the paper prints none.
    """
    options = {"weight_decay": weight_decay, "scale_target": False, "random_state": random_state, "n_jobs": n_jobs}
    return NetworkRegressor((hidden,), epochs=epochs, **options)


notebook_network = partial(paper_network, 512, 75, 1.0)  # the notebook (CORN)


def second_stage(kernels, *, offset: str = "mean", reach: float | None = None) -> EmbeddingRidge:
    """Return ridge on the kernel mean of the predictions, added to their mean."""
    head, embedding = RidgePath(PENALTIES, rule="one-se"), KernelMean(beyond="clip", reach=reach)
    return EmbeddingRidge(embedding, head, grid={"kernel": list(kernels)}, offset=offset)


def default(*, additive=False, random_state=0, n_jobs=None) -> BagPipeline:
    """Blend three instance learners, each with three second stages (recommended).

    A network, a ridge on random features and a linear ridge predict the instances out of fold, on the same ten folds of
    bags, each bag of equal weight; the average of the fold models predicts new bags. Each column of predictions is
    read as a kernel mean that corrects its mean, as one that corrects its median, and by its quantiles. Left-out bags
    (groups) choose epochs, penalties, kernels, bandwidths relative to the spread of the predictions, and the blend.
    """
    seed = {"random_state": random_state}
    learners = {
        "network": default_network(**seed),
        "ridge": RandomFeatureRidge(FourierFeatures(384, linear=WIDE, **seed), penalties=RIDGE_PENALTIES, **seed),
        "linear": RandomFeatureRidge(ColumnScaler(WIDE, **seed), penalties=RIDGE_PENALTIES, **seed),
    }
    stages = [
        (name, OutOfFold(learner, judge=second_stage(KERNELS[:5:2]), n_jobs=n_jobs, **seed))
        for name, learner in learners.items()
    ]
    readings = [
        ("mean", second_stage(KERNELS)),
        ("median", second_stage(KERNELS, offset="median")),
        ("quantiles", EmbeddingRidge(SlicedQuantiles(quantiles=16), RidgePath(PENALTIES))),
    ]
    blend = PredictionBlend(readings[:1] if additive else readings, **seed)
    return BagPipeline([("instances", OutOfFoldUnion(stages)), ("head", blend)])


def single(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit one network and the kernel mean of its predictions.

    The second stage learns what to add to the mean prediction of a bag, and so falls back on instance-mean where it has
    nothing to learn from. Its left-out error also chooses the number of epochs of the networks.
    """
    head, judge = second_stage(KERNELS), second_stage(KERNELS[:5:2])
    learner = default_network(random_state=random_state)
    stage = OutOfFold(learner, judge=judge, random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", head)])


def ridge(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit ridge regression on random features in place of networks.

    Everything is a sum over instances, so it also fits tables larger than memory (``bagwise.fit_scan``). Predictions
    are clipped at eight deviations, and the narrowest kernels are left out, so that a bag has at most 192 sums.
    """
    features = FourierFeatures(512, random_state=random_state)
    learner = RandomFeatureRidge(features, penalties=RIDGE_PENALTIES, random_state=random_state)
    stage = OutOfFold(learner, random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", second_stage(RIDGE_KERNELS, reach=8.0))])


def published(network, kernel, *, scaling, random_state=0, n_jobs=None, **options) -> BagPipeline:
    """Fit 50 folds with equal weights of instances, and a kernel in label units without an intercept."""
    learner, options = network(random_state=random_state), AS_PUBLISHED | options
    stage = OutOfFold(learner, folds=50, **options, random_state=random_state, n_jobs=n_jobs)
    head = RidgePath((1e-8,), scaling=scaling, fit_intercept=False)
    embedding = KernelMean(clone(kernel), units="label")
    return BagPipeline([("instances", stage), ("head", EmbeddingRidge(embedding, head, slack=None))])


register(
    Card(
        name="instance-kme",
        idea="Embed the distribution of each bag's out-of-fold instance predictions with a kernel, then fit ridge.",
        question=RECOMMENDED,
        assumes="instances predict the target; how to combine them depends on their distribution in the bag",
        cites="Uriot (2019)",
        cost="D networks on N instances; then O(N r) for a kernel series of length r, about 50",
        presets={
            "default": default,
            "single": single,
            # The paper does not say what predicts new bags: the average of the fold models does here. Bandwidth and
            # penalty are the middle of its grid, to be searched from outside, as the paper did on its scoring folds.
            "paper": variant(
                "Fit as in the paper: D = 50, one hidden layer, equal weights, Gaussian kernel in label units, K + λI.",
                published,
                paper_network,
                Gaussian(70.0),
                scaling="none",
            ),
            # Its Gram normaliser, the size of the first bag, is an error for unequal sizes and is not reproduced.
            "notebook": variant(
                "Fit as in the notebook: 512 units, 1/sqrt(r² + 100²), 1e-8·n, the last fold's network for new bags.",
                published,
                notebook_network,
                InverseMultiquadric(100.0),
                scaling="n",
                predictor="last-fold",
            ),
            "ridge": ridge,
            "additive": variant(
                "Blend without medians and quantiles: the prediction of a bag is an exact sum over its instances.",
                default,
                additive=True,
            ),
        },
        search_space={
            "head__embedding__kernel": [k(b) for k in (Gaussian, InverseMultiquadric) for b in PAPER_BANDWIDTHS],
            "head__head__penalties": [(penalty,) for penalty in PAPER_PENALTIES],
        },
        searched=("paper",),
    )
)
