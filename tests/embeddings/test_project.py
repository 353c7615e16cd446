"""`project` equals rows times coefficients, whether or not the rows are computed."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import KernelMean, Pool
from bagwise.embeddings.feature_mean import NystroemMean
from bagwise.kernels import Exponential, Gaussian, InverseMultiquadric

rng = np.random.default_rng(0)
TRAINING = bw.from_arrays([rng.normal(size=n) for n in (3, 1, 40, 7)])
FAR = bw.from_arrays([np.array([-30.0, 0.2, 1.0]), np.array([50.0]), rng.normal(size=5)])
WEIGHED = FAR.with_weights(np.arange(1.0, 10.0))


@pytest.mark.parametrize("new", [TRAINING, FAR, WEIGHED], ids=["training", "far", "weighed"])
@pytest.mark.parametrize(
    "embedding",
    [
        KernelMean(Gaussian(0.7)),
        KernelMean(InverseMultiquadric(0.5), beyond="clip"),
        KernelMean(Gaussian(0.7), columns="gram"),
        KernelMean(Exponential(1.0)),
        NystroemMean(Gaussian(1.0)),
        Pool(("mean", "max")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_it_is_the_product_of_the_rows(embedding, new):
    rows = embedding.fit(TRAINING).transform(new)
    coef = rng.normal(size=rows.shape[1])
    np.testing.assert_allclose(embedding.project(new, coef), rows @ coef, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_a_bag_does_not_depend_on_its_company():
    embedding = KernelMean(Gaussian(0.7)).fit(TRAINING)
    coef = rng.normal(size=embedding.transform(FAR).shape[1])
    whole = embedding.project(FAR, coef)
    assert [float(embedding.project(FAR[[k]], coef)[0]) for k in range(3)] == whole.tolist()
