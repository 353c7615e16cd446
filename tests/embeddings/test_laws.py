"""Laws of all embeddings that `bagwise.embeddings` offers; a new one is tested here without further code."""

from inspect import isclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bagwise as bw
from bagwise import embeddings
from bagwise.embeddings import (
    KernelMean,
    LandmarkMean,
    NystroemMean,
    PhaseMean,
    Pool,
    SecondKernel,
    Similarity,
    SlicedQuantiles,
)
from bagwise.embeddings.summaries import Embedding
from bagwise.kernels import Gaussian, Matern32, PrintedInverse
from bagwise.testing import zoo

OFFERED = [getattr(embeddings, name) for name in embeddings.__all__]
DEFAULTS = [kind() for kind in OFFERED if isclass(kind) and issubclass(kind, Embedding)]
OPTIONS = [
    KernelMean(Matern32(), columns="gram"),
    NystroemMean(pick="k-means", landmarks=3),
    SecondKernel(landmarks=3),
    SecondKernel(distance="l1"),
    Similarity(pool="mean"),
]
SIZES = [Pool(("size",)), embeddings.Statistics(("size",))]
ZOO = {n_features: zoo(n_features=n_features) for n_features in (1, 2, 3)}


def parametrize(estimators):
    return pytest.mark.parametrize("embedding", [clone(each) for each in estimators], ids=lambda each: repr(each)[:40])


@parametrize(DEFAULTS + OPTIONS + SIZES)
@pytest.mark.parametrize("n_features", [1, 2])
def test_a_row_depends_on_the_instances_of_its_bag_only(embedding, n_features):
    bags = ZOO[n_features]["ragged"]
    rows = embedding.fit(bags).transform(bags)
    order = np.random.default_rng(0).permutation(len(bags))
    np.testing.assert_allclose(embedding.transform(bags[order]), rows[order], rtol=1e-7, atol=1e-7)
    alone = np.vstack([embedding.transform(bags[[i]]) for i in range(len(bags))])
    np.testing.assert_allclose(alone, rows, rtol=1e-7, atol=1e-7)
    reversed_bags = bw.from_arrays([bag[::-1] for bag in bags])
    np.testing.assert_allclose(embedding.transform(reversed_bags), rows, rtol=1e-7, atol=1e-7)


@parametrize([each for each in DEFAULTS if not isinstance(each, embeddings.Statistics)] + OPTIONS)
def test_repeated_instances_do_not_change_a_row(embedding):
    bags = ZOO[2]["ragged"]
    twice = bw.from_arrays([np.concatenate([bag, bag]) for bag in bags])
    rows = embedding.fit(bags).transform(bags)
    np.testing.assert_allclose(embedding.transform(twice), rows, rtol=1e-7, atol=1e-7)


@parametrize(DEFAULTS + OPTIONS)
@pytest.mark.parametrize("name", ["two bags", "constant", "repeated values", "far outlier"])
def test_rows_of_awkward_bags_are_finite(embedding, name):
    assert np.isfinite(embedding.fit_transform(ZOO[2][name])).all()


@parametrize(DEFAULTS)
def test_bags_with_other_features_and_unfitted_embeddings_are_refused(embedding):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(embedding).transform(ZOO[2]["ragged"])
    with pytest.raises(ValueError, match="fitted on 2"):
        embedding.fit(ZOO[2]["ragged"]).transform(ZOO[3]["ragged"])


@pytest.mark.parametrize(
    ("embedding", "match"),
    [
        (KernelMean(Gaussian(1e-4), map="chebyshev"), "too narrow for the range"),
        (KernelMean(Matern32(), map="chebyshev"), "one feature and a smooth kernel"),
        (KernelMean(units="metres"), "units must be 'spread' or 'label', not 'metres'"),
        (NystroemMean(units="metres"), "units must be 'spread' or 'label', not 'metres'"),
        (NystroemMean(PrintedInverse(1.0)), "not positive definite and has no feature map"),
        (NystroemMean(pick="best"), "pick must be 'random' or 'k-means', not 'best'"),
        (NystroemMean(landmarks=0), "number of prototypes must be a whole number above zero, not 0"),
        (SlicedQuantiles(quantiles=0), "quantiles must be a whole number above zero, not 0"),
        (SlicedQuantiles(2.5), "directions must be a whole number above zero, not 2.5"),
        (LandmarkMean(placement="grid"), "placement must be 'kmeans', 'random' or 'quantiles', not 'grid'"),
        (LandmarkMean(landmarks=0), "landmarks must be a whole number above zero, not 0"),
        (Similarity(pool="min"), "pool must be 'max' or 'mean', not 'min'"),
        (PhaseMean(7), "n_features must be even"),
        (SecondKernel(distance="l3"), "distance must be 'l2' or 'l1', not 'l3'"),
        (SecondKernel(units="inches"), "units must be 'spread' or 'label', not 'inches'"),
        (SecondKernel(KernelMean(columns="gram")), "KernelMean returns a Gram matrix, .* Set columns='features'"),
        (Pool(("average",)), "statistics must be a tuple of mean, median"),
    ],
)
def test_refusals(embedding, match):
    with pytest.raises(ValueError, match=match):
        embedding.fit(ZOO[1]["ragged"])


def test_quantiles_of_several_features_are_no_landmarks():
    with pytest.raises(ValueError, match="placement='quantiles' needs one feature, not 2"):
        LandmarkMean(placement="quantiles").fit(ZOO[2]["ragged"])
