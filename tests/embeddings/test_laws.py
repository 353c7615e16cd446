"""Laws of all embeddings that `bagwise.embeddings` offers; a new one is tested here without further code."""

from inspect import isclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bagwise as bw
from bagwise import embeddings
from bagwise.embeddings import KernelMean, NystroemMean, Pool, SecondKernel, Similarity
from bagwise.embeddings.summaries import Embedding
from bagwise.kernels import Matern32
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
