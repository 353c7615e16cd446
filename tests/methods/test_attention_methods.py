"""Attention as weights of instance-kme: equalities with instance-kme, and honesty."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline

import bagwise as bw
from bagwise import kernels as k
from bagwise.embeddings import KernelMean
from bagwise.instances import OutOfFold
from bagwise.regressors import AttentionRegressor, AttentionWeighted, EmbeddingRidge, RidgePath
from bagwise.regressors.attention.attention_kme import powered
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
NEW, _ = sample(9, random_state=1)
ATTENTION = AttentionRegressor((4,), epochs=4, restarts=1, learning_rate=0.02)
STAGE = OutOfFold(Ridge(), folds=5)
HEAD = EmbeddingRidge(KernelMean(), RidgePath(), grid={"kernel": [k.Gaussian(0.5), k.Gaussian(2.0)]})


@pytest.mark.parametrize("use", ["embedding", "loss", "both"])
def test_power_zero_is_instance_kme(use):
    model = AttentionWeighted(ATTENTION, STAGE, HEAD, use=use, powers=(0.0,)).fit(BAGS, Y)
    plain = Pipeline([("instances", clone(STAGE)), ("head", clone(HEAD))]).fit(BAGS, Y)
    np.testing.assert_array_equal(model.predict(NEW), plain.predict(NEW))
    parts = plain[-1].contributions(plain[:1].transform(NEW))
    np.testing.assert_allclose(model.contributions(NEW), parts, rtol=1e-12)
    np.testing.assert_allclose(model.instance_weights(NEW), 1.0 / NEW.expand(NEW.sizes))
    assert model.errors_ == [plain[-1].error_]


def test_the_catalogue_differs_from_instance_kme_in_the_weights():
    quick = {"instances__regressor__epochs": (2, 4), "instances__regressor__hidden": (8,)}
    model = bw.method("instance-kme-attention").set_params(**quick, powers=(0.0,), attention=ATTENTION)
    # The one other difference: its second stage adds nothing to the mean, which would have to be weighted, too.
    plain = bw.method("instance-kme:single").set_params(**quick, head__offset="none", instances__judge__offset="none")
    np.testing.assert_array_equal(model.fit(BAGS, Y).predict(NEW), plain.fit(BAGS, Y).predict(NEW))
    uses = {p: bw.method("instance-kme-attention", preset=p).use for p in ("default", "loss", "embedding")}
    assert uses == {"default": "both", "loss": "loss", "embedding": "embedding"}


@pytest.mark.parametrize("use", ["embedding", "loss", "both"])
def test_each_use_by_hand(use):
    model = AttentionWeighted(ATTENTION, STAGE, HEAD, use=use, powers=(0.7,)).fit(BAGS, Y)
    weight = powered(model.weights_, BAGS, 0.7)
    new_weight = powered(model.attention_.instance_weights(NEW), NEW, 0.7)
    stage, head = clone(STAGE), clone(HEAD)
    column = stage.fit_transform(BAGS if use == "embedding" else BAGS.with_weights(weight), Y).without_weights()
    new = stage.transform(NEW)
    if use != "loss":
        column, new = column.with_weights(weight), new.with_weights(new_weight)
    np.testing.assert_allclose(model.predict(NEW), head.fit(column, Y).predict(new), rtol=1e-12)
    np.testing.assert_allclose(
        np.add.reduceat(model.contributions(NEW), NEW.offsets[:-1]), model.predict(NEW), rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(np.add.reduceat(model.instance_weights(NEW), NEW.offsets[:-1]), 1.0)


def test_the_power_is_the_one_with_the_smallest_left_out_error():
    model = AttentionWeighted(ATTENTION, STAGE, HEAD, powers=(0.0, 0.5, 1.0)).fit(BAGS, Y)
    alone = [AttentionWeighted(ATTENTION, STAGE, HEAD, powers=(p,)).fit(BAGS, Y).errors_[0] for p in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(model.errors_, alone)
    assert model.power_ == (0.0, 0.5, 1.0)[int(np.argmin(alone))]


def test_a_bags_weights_do_not_know_its_target():
    strange = Y.copy()
    strange[5] += 40.0
    straight, bent = (AttentionWeighted(ATTENTION, STAGE, HEAD).fit(BAGS, y) for y in (Y, strange))
    fold = straight.instances_.fold_
    own = BAGS.rows(np.flatnonzero(fold == fold[5]))
    np.testing.assert_allclose(bent.weights_[own], straight.weights_[own], rtol=1e-5)
    assert np.abs(np.delete(bent.weights_ - straight.weights_, own)).max() > 1e-4


def test_refusals():
    with pytest.raises(ValueError, match="use must be 'loss', 'embedding' or 'both', not 'head'"):
        AttentionWeighted(use="head").fit(BAGS, Y)
    for powers in ((), (-1.0,)):
        with pytest.raises(ValueError, match="powers must hold at least one number, none below zero"):
            AttentionWeighted(powers=powers).fit(BAGS, Y)
