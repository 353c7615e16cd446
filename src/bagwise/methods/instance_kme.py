"""instance-kme-MIR, the method of Uriot (2019), in six presets, and the networks that methods share.

Methods share networks so that a comparison of two methods is not a comparison of two networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.embeddings import KernelMean, SlicedQuantiles
from bagwise.instances import ColumnScaler, NetworkRegressor, OutOfFold, OutOfFoldUnion, RandomFeatureRidge
from bagwise.kernels import FourierFeatures, Gaussian, InverseMultiquadric
from bagwise.methods.catalogue import RECOMMENDED, Card, register
from bagwise.regressors import BagPipeline, EmbeddingRidge, PredictionBlend, RidgePath

# Chosen on the simulations, never on one data set: a network seldom needs more, and the candidates come free.
EPOCHS = (5, 10, 20, 40, 80)
# The grid of the paper, in units of the label.
PAPER_BANDWIDTHS = tuple(float(theta) for theta in range(10, 150, 10))
PAPER_PENALTIES = tuple(10.0**-e for e in range(1, 17))
# Ours, in standard deviations of the predictions.
BANDWIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
KERNELS = tuple(kernel(b) for kernel in (Gaussian, InverseMultiquadric) for b in BANDWIDTHS)
# With less, a function that fits the training bags swings wildly where few predictions lie, and no left-out bag shows
# it.
PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -5.5, -0.5))
# Columns beyond which ridge regression on all of them takes longer than the networks.
WIDE = 1000
RIDGE_KERNELS = tuple(map(Gaussian, BANDWIDTHS)) + tuple(map(InverseMultiquadric, BANDWIDTHS[2:]))
# Of random-feature ridge; with less, the order in which rows are added up would show in the ninth digit.
RIDGE_PENALTIES = tuple(float(f"1e{e}") for e in range(-6, 1))


def default_network(*, random_state=0, n_jobs=None):
    """Return a network with one hidden layer of 128 units, its number of epochs chosen on held-out bags."""
    return NetworkRegressor(
        (128,), epochs=EPOCHS, batch_size="auto", weight_decay=0.05, random_state=random_state, n_jobs=n_jobs
    )


def paper_network(*, random_state=0, n_jobs=None):
    """Return a network of 128 units, weight decay 0.05, 100 epochs, targets in their own units.

    A comment in the notebook of Uriot (2019) has this setting, which is plausible for aerosol; the paper prints none.
    """
    return NetworkRegressor(
        (128,), epochs=100, weight_decay=0.05, scale_target=False, random_state=random_state, n_jobs=n_jobs
    )


def notebook_network(*, random_state=0, n_jobs=None):
    """Return a network of 512 units, weight decay 1, 75 epochs, targets in their own units: the notebook (CORN)."""
    return NetworkRegressor(
        (512,), epochs=75, weight_decay=1.0, scale_target=False, random_state=random_state, n_jobs=n_jobs
    )


def second_stage(kernels, *, offset: str = "mean", reach: float | None = None) -> EmbeddingRidge:
    """Return ridge on the kernel mean of the predictions, added to their mean."""
    head, embedding = RidgePath(PENALTIES, rule="one-se"), KernelMean(beyond="clip", reach=reach)
    return EmbeddingRidge(embedding, head, grid={"kernel": list(kernels)}, offset=offset)


def readings() -> dict[str, EmbeddingRidge]:
    """Return three unfitted regressors on the instance predictions of a bag."""
    return {
        "mean": second_stage(KERNELS),
        "median": second_stage(KERNELS, offset="median"),
        "quantiles": EmbeddingRidge(SlicedQuantiles(quantiles=16), RidgePath(PENALTIES)),
    }


def default(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Blend three instance learners, each with three second stages (recommended).

    A network, a ridge on random features and a linear ridge predict the instances out of fold, on the same ten folds of
    bags, every bag of equal weight; the average of the fold models predicts new bags. Each column of predictions is
    read as a kernel mean that corrects its mean, as one that corrects its median, and by its quantiles. Whatever is
    chosen (epochs, penalties, kernels, bandwidths relative to the spread of the predictions, the weights of the blend)
    is chosen by left-out bags, left-out groups when the bags carry groups.
    """
    return _blended(readings(), random_state, n_jobs)


def additive(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Blend without medians and quantiles: the prediction of a bag is an exact sum over its instances."""
    return _blended({"mean": readings()["mean"]}, random_state, n_jobs)


def _blended(read: dict[str, EmbeddingRidge], random_state, n_jobs) -> BagPipeline:
    features = FourierFeatures(384, linear=WIDE, random_state=random_state)
    learners = {
        "network": default_network(random_state=random_state),
        "ridge": RandomFeatureRidge(features, penalties=RIDGE_PENALTIES, random_state=random_state),
        "linear": RandomFeatureRidge(
            ColumnScaler(WIDE, random_state=random_state), penalties=RIDGE_PENALTIES, random_state=random_state
        ),
    }
    options = {"random_state": random_state, "n_jobs": n_jobs}
    stages = [
        (name, OutOfFold(learner, judge=second_stage(KERNELS[:5:2]), **options)) for name, learner in learners.items()
    ]
    blend = PredictionBlend(list(read.items()), random_state=random_state)
    return BagPipeline([("instances", OutOfFoldUnion(stages)), ("head", blend)])


def single(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit one network and the kernel mean of its predictions.

    Ten folds, every bag of equal weight, the average of the fold models for new bags; kernel, bandwidth (relative to
    the spread of the predictions) and penalty by leave-one-bag-out, leave-one-group-out when the bags carry groups;
    the number of epochs of the networks by the left-out error of this second stage. That learns what to add to the mean
    prediction of a bag, and so falls back on instance-mean where it has nothing to learn from.
    """
    head, judge = second_stage(KERNELS), second_stage(KERNELS[:5:2])
    learner = default_network(random_state=random_state)
    stage = OutOfFold(learner, judge=judge, random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", head)])


def ridge(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit ridge regression on random features in place of networks.

    Everything is a sum over instances, so it also fits tables larger than memory (``bagwise.fit_scan``). Predictions
    are clipped at eight deviations from their mean, and the narrowest kernels are left out, so that there are at most
    192 sums per bag.
    """
    features = FourierFeatures(512, random_state=random_state)
    learner = RandomFeatureRidge(features, penalties=RIDGE_PENALTIES, random_state=random_state)
    stage = OutOfFold(learner, random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", second_stage(RIDGE_KERNELS, reach=8.0))])


def paper(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit as in the paper: D = 50, one hidden layer, equal weights, Gaussian kernel in label units, K + λI.

    The paper does not say what predicts new bags; the average of the fold models does here. Bandwidth and penalty are
    the middle of its grid, to be searched from outside (``search_space`` of the catalogue), as the paper did on its
    scoring folds.
    """
    learner = paper_network(random_state=random_state)
    as_is: dict[str, Any] = {"weighting": "instance", "beyond": "regressor"}
    stage = OutOfFold(learner, folds=50, **as_is, random_state=random_state, n_jobs=n_jobs)
    head = RidgePath((1e-8,), scaling="none", fit_intercept=False)
    embedding = KernelMean(Gaussian(70.0), units="label")
    return BagPipeline([("instances", stage), ("head", EmbeddingRidge(embedding, head, slack=None))])


def notebook(*, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit as in the notebook: 1/sqrt(r² + 100²), λ·n with λ = 1e-8, the last fold's network for new bags, 512 units.

    Its Gram normaliser (the size of the first bag) is an error for bags of unequal size and is not reproduced; for
    equal sizes it is the same.
    """
    learner = notebook_network(random_state=random_state)
    as_is: dict[str, Any] = {"weighting": "instance", "beyond": "regressor", "predictor": "last-fold"}
    stage = OutOfFold(learner, folds=50, **as_is, random_state=random_state, n_jobs=n_jobs)
    head = RidgePath((1e-8,), scaling="n", fit_intercept=False)
    embedding = KernelMean(InverseMultiquadric(100.0), units="label")
    return BagPipeline([("instances", stage), ("head", EmbeddingRidge(embedding, head, slack=None))])


register(
    Card(
        name="instance-kme",
        idea="Embed the distribution of each bag's out-of-fold instance predictions with a kernel, then fit ridge.",
        question=RECOMMENDED,
        assumes="instances predict the target; how to combine them depends on their distribution in the bag",
        cites="Uriot (2019)",
        cost="D networks on N instances; then O(N r), r about 50",
        presets={
            "default": default,
            "single": single,
            "paper": paper,
            "notebook": notebook,
            "ridge": ridge,
            "additive": additive,
        },
        search_space={
            "head__embedding__kernel": [k(b) for k in (Gaussian, InverseMultiquadric) for b in PAPER_BANDWIDTHS],
            "head__head__penalties": [(penalty,) for penalty in PAPER_PENALTIES],
        },
        searched=("paper",),
    )
)
