"""Instance weights and covariates over the whole catalogue: honoured or refused, never overlooked."""

import re
from pathlib import Path

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import KernelMean, Pool
from bagwise.instances import OutOfFold
from bagwise.instances.out_of_fold import instance_weights
from bagwise.kernels import Gaussian
from bagwise.regressors import EmbeddingRidge, PoolPredictions, RidgePath
from bagwise.testing.contract_checks import sample

COSTLY = {
    *("additive", "attention", "instance-kme-attention", "instance-kme-shrinkage", "shrinkage", "bdr", "bmir", "auto")
}
HONOUR = {"additive", "instance-mean", "instance-median", "instance-kme", "aggregated", "statistics"}
HONOUR |= {"input-kme", "phase", "quantile", "sliced-wasserstein", "auto"}
HONOUR |= {"blr", "shrinkage", "bdr", "instance-kme-shrinkage", "aggregate-gp"}
BAGS, Y = sample(50, feature_names=["a", "b", "c"])
rng = np.random.default_rng(0)
C = rng.normal(size=(50, 2)) * [1.0, 100.0]
NAMES = ["sza", "vza"]
WEIGHTED = BAGS.with_weights(rng.uniform(0.01, 3.0, size=BAGS.n_instances))


def catalogue():
    for name in bw.method_names():
        yield pytest.param(name, marks=[pytest.mark.slow] * (name in COSTLY))


@pytest.mark.parametrize("name", list(catalogue()))
def test_instance_weights_are_honoured_or_refused(name):
    if name not in HONOUR:
        with pytest.raises(ValueError, match=r"instance weights; drop them with bags.without_weights\(\)"):
            bw.method(name).fit(WEIGHTED, Y)
        return
    plain = bw.method(name).fit(BAGS, Y)
    weighted = bw.method(name).fit(WEIGHTED, Y)
    assert not np.allclose(weighted.predict(BAGS), plain.predict(BAGS))  # in fit
    assert not np.allclose(plain.predict(WEIGHTED), plain.predict(BAGS))  # in predict
    same = bw.method(name).fit(BAGS.with_weights(np.full(BAGS.n_instances, 2.0)), Y)
    np.testing.assert_allclose(same.predict(BAGS), plain.predict(BAGS), atol=1e-3 * Y.std())


@pytest.mark.parametrize("name", list(catalogue()))
def test_covariates_are_never_overlooked(name):
    bags, y = BAGS.with_covariates(C, NAMES), Y + 2.0 * C[:, 0]
    model = bw.method(name).fit(bags, y)
    assert np.corrcoef(model.predict(bags), y)[0, 1] ** 2 > 0.5
    moved = model.predict(bags.with_covariates(C * [-1.0, 1.0], NAMES)) - model.predict(bags)
    assert np.corrcoef(moved, -C[:, 0])[0, 1] > 0.5
    with pytest.raises(ValueError, match=r"fitted on 2 \(sza, vza\)|missing: sza, vza"):
        model.predict(BAGS)
    alone = np.concatenate([model.predict(bags[[i]]) for i in range(5)])
    np.testing.assert_allclose(alone, model.predict(bags)[:5], rtol=1e-6, atol=1e-6 * np.std(y))


def test_weights_in_the_loss():
    own, sizes = WEIGHTED.weights, np.add.reduceat(WEIGHTED.weights, BAGS.offsets[:-1])
    bag_weight = rng.uniform(size=50)
    for weighting, expected in (("bag", own / BAGS.expand(sizes)), ("instance", own)):
        expected = expected * BAGS.expand(bag_weight)
        np.testing.assert_allclose(instance_weights(WEIGHTED, weighting, bag_weight), expected / expected.mean())
    equal = instance_weights(BAGS.with_weights(np.full(BAGS.n_instances, 3.0)), "bag")
    np.testing.assert_allclose(equal, instance_weights(BAGS, "bag"))


def test_pooled_predictions_are_weighed():
    column = bw.from_arrays([[1.0, 2.0, 9.0], [4.0, 6.0]], weights=[[1.0, 1.0, 2.0], [0.0, 5.0]])
    assert PoolPredictions("mean").fit(column, [0.0, 1.0]).predict(column).tolist() == [5.25, 6.0]
    assert PoolPredictions("median").fit(column, [0.0, 1.0]).predict(column).tolist() == [5.5, 6.0]


@pytest.mark.parametrize("bags", [BAGS, WEIGHTED], ids=["plain", "weighted"])
def test_contributions_still_add_up(bags):
    bags = bags.with_covariates(C, NAMES)
    model = EmbeddingRidge(Pool(), RidgePath()).fit(bags, Y)
    total = np.add.reduceat(model.contributions(bags), bags.offsets[:-1])
    np.testing.assert_allclose(total, model.predict(bags), atol=1e-9)


def test_covariates_beside_features_and_beside_similarities_are_one_ridge():
    bags = BAGS.replace(BAGS.instances[:, :1]).with_covariates(C, NAMES)
    features, gram = (
        EmbeddingRidge(KernelMean(Gaussian(1.0), columns=columns), RidgePath((1e-3, 1e-1))).fit(bags, Y + C[:, 0])
        for columns in ("features", "gram")
    )
    np.testing.assert_allclose(gram.predict(bags), features.predict(bags), rtol=1e-6, atol=1e-8)


def test_scaled_covariates_are_a_plain_ridge_on_them():
    bags = BAGS.replace(np.ones((BAGS.n_instances, 1))).with_covariates(C, NAMES)  # instances that say nothing
    model = EmbeddingRidge(Pool(), RidgePath()).fit(bags, Y + C[:, 0])
    plain = RidgePath().fit((C - C.mean(axis=0)) / C.std(axis=0), Y + C[:, 0])
    np.testing.assert_allclose(model.predict(bags), plain.predict((C - C.mean(axis=0)) / C.std(axis=0)), rtol=1e-9)


def test_the_instance_stage_sees_covariates_and_carries_them_on():
    bags = BAGS.with_covariates(C, NAMES)
    out = OutOfFold(folds=5).fit_transform(bags, Y)
    np.testing.assert_array_equal(out.instances, OutOfFold(folds=5).fit_transform(bags.spread(), Y).instances)
    assert out.covariates.tolist() == C.tolist()
    assert OutOfFold(folds=5, keep_covariates=False).fit_transform(bags, Y).covariates is None


def test_the_example_of_the_page_runs(capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "weights.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    names: dict = {}
    exec(example, names)
    assert capsys.readouterr().out.strip() == re.search(r"print\(bags\)  # (.*)", example).group(1)
    assert np.corrcoef(names["predictions"], names["y"])[0, 1] > 0.9
