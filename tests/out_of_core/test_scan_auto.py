"""`auto` and comparisons on a scan, against the same done bag by bag in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import Pipeline
from tests.helpers.cut_tables import SHARED, scanned, small

import bagwise as bw
from bagwise.auto.blend import blend, blend_sums
from bagwise.auto.members import MEAN
from bagwise.bags import bag_folds
from bagwise.execution import Processes
from bagwise.out_of_core import fit_scan, predict_scan, scan_fit, shards
from bagwise.regressors import AggregateGP, EvidenceRidge
from bagwise.regressors.bayesian.evidence_ridge import Evidence, TargetScale


@pytest.fixture(scope="module")
def known(table):
    return bw.load(table, bag="bag", target="y", ignore=["site"])


@pytest.fixture(scope="module")
def members():
    """Few of them; the scores of the others are compared one by one."""
    return {name: small(name) for name in ("aggregated", "statistics:moments", "instance-kme:ridge")}


@pytest.fixture(scope="module")
def found(table, members):
    """auto of small members, and the table in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_fit, "method", lambda name, random_state: members[name])
        patch.setattr(scan_fit, "MEMBERS", tuple(members))
        source = scanned(table, chunk_rows=900)
        yield fit_scan(source, "auto"), source


def rows_of(model, bags, y):
    """(rows, offset) of every setting of a method fitted to all bags; of its stages the predictions out of fold."""
    head, offset = model, 0.0
    if isinstance(model, Pipeline):
        for _, stage in model.steps[:-1]:
            bags = stage.fit_transform(bags, y)
        head = model.steps[-1][1]
        offset = head._offset(bags) if hasattr(head, "offset") else 0.0
    settings = [head.embedding_for(setting).fit_transform(bags, y) for setting in head.settings()]
    return head, settings, offset


def candidates(head, Z, y, offset, seen):
    """Predictions of all bags by every penalty of a head fitted without some; by the mean of a posterior."""
    if isinstance(head, EvidenceRidge | AggregateGP):
        scale = TargetScale.of(y)
        fitted = Evidence(Z[seen], scale.standardised(y)[seen])
        return (scale.mean + scale.scale * fitted(Z)[0])[:, None]
    path = head.fresh_head().fit(Z[seen], (y - offset)[seen])
    return path.predict_path(Z) + np.reshape(offset, (-1, 1))


def held_out(model, bags, y, fold, limits=None):
    """Every fold by the candidate that does best on the others."""
    head, settings, offset = rows_of(model, bags, y)
    n, out = fold.max() + 1, np.empty(len(y))
    every = []
    for k in range(n):
        found = np.hstack([candidates(head, Z, y, offset, fold != k) for Z in settings])[fold == k]
        if limits is not None:
            low, high = y[fold != k].min(), y[fold != k].max()
            found = np.clip(found, low - 0.1 * (high - low), high + 0.1 * (high - low))
        every.append(found)
    errors = [((found - y[fold == k][:, None]) ** 2).sum(axis=0) for k, found in enumerate(every)]
    for k in range(n):
        chosen = np.argmin(sum(error for j, error in enumerate(errors) if j != k))
        out[fold == k] = every[k][:, chosen]
    return out


@pytest.mark.parametrize("name", SHARED)
def test_the_folds_of_a_scan_are_scored_as_in_memory(name, table, known):
    bags, y = known
    results = bw.evaluate(scanned(table, chunk_rows=900), methods=[(name, small(name))], folds=4)
    fold = bag_folds(bags, 4)
    predicted = held_out(small(name), bags, y, fold)
    errors = [np.sqrt(np.mean((y - predicted)[fold == k] ** 2)) for k in range(4)]
    assert_allclose(results.values(name), errors, rtol=1e-8)
    absolute = [np.abs(y - predicted)[fold == k].mean() for k in range(4)]
    assert_allclose(results.values(name, "mae"), absolute, rtol=1e-8)
    variance = [y[fold == k].var() for k in range(4)]
    assert_allclose(results.values(name, "r2"), 1 - np.square(errors) / variance, rtol=1e-7)


def test_results_of_a_scan_are_compared_and_summed_up(table):
    source = scanned(table, chunk_rows=900)
    results = bw.evaluate(source, methods=["aggregated", ("plain", small("aggregated"))], folds=3, repeats=2)
    assert results.summary()["cells"].to_list() == [6, 6]
    assert results.compare()["splits"].to_list() == [6]
    again = bw.evaluate(source, methods=["aggregated"], folds=3)
    assert (again.values("aggregated") == results.values("aggregated")[:3]).all()
    with pytest.raises(ValueError, match="no predictions of 'aggregated' are kept"):
        results.pooled("aggregated")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["em"]}, "cannot be fitted from sums over rows; methods that can are instance-kme:ridge, aggr"),
        ({"methods": ["auto"]}, "auto compares its members by itself: see leaderboard.*aggregated"),
        ({"methods": ["aggregated"], "out": "here"}, "out= is for bags in memory; leave it out, or load the table"),
        ({"methods": ["aggregated"], "metric": "kendall"}, "of a scan rmse, mae, r2 are known, not 'kendall'"),
    ],
)
def test_what_is_not_known_of_a_scan_is_refused(options, words, table):
    with pytest.raises(ValueError, match=words):
        bw.evaluate(scanned(table), **options)


def test_methods_are_asked_for(table, known):
    with pytest.raises(TypeError, match="evaluate needs the methods to compare"):
        bw.evaluate(scanned(table))
    with pytest.raises(TypeError, match="evaluate needs bags, their targets and methods"):
        bw.evaluate(known[0])


def test_auto_of_a_scan_is_the_blend_of_its_held_out_folds(found, known, members):
    bags, y = known
    model, _ = found
    fold = bag_folds(bags, 5)
    mean = np.array([y[fold != k].mean() for k in fold])
    Z = np.column_stack([mean, *(held_out(one, bags, y, fold, limits=True) for one in members.values())])
    expected = blend(Z, y, fold)
    names = [MEAN, *members]
    assert_allclose([model.weights_[name] for name in names], expected.weights, atol=1e-7)
    assert model.kind_ == expected.kind
    assert_allclose(model.scores_["error"], np.sqrt(np.mean((y - expected.held_out) ** 2)), rtol=1e-7)
    assert_allclose(model.scores_["single_error"], np.sqrt(np.mean((y - expected.single) ** 2)), rtol=1e-7)
    rows = {row["member"]: row for row in model.trials_}
    for name, column in zip(names, Z.T, strict=True):
        loss = (y - column) ** 2
        assert_allclose(rows[name]["error"], np.sqrt(loss.mean()), rtol=1e-7)
        assert_allclose(rows[name]["error_se"], loss.std() / np.sqrt(len(y)) / 2 / np.sqrt(loss.mean()), rtol=1e-6)


def test_its_models_are_those_of_fit_scan(found, known):
    model, source = found
    for name, (one,) in model.models_.items():
        if name != MEAN:
            expected = fit_scan(source, small(name)).predict(known[0])
            assert_allclose(one.predict(known[0]), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_it_says_what_it_did(found, known):
    model, _ = found
    assert "instance-kme:ridge" in model.summary() and "by 5-fold cross-validation over bags" in model.paragraph()
    assert len(model.leaderboard()["member"]) == 1 + 4
    with pytest.raises(ValueError, match="auto fitted from a scan keeps no models of folds"):
        model.predict_folds(known[0][:2])


@pytest.fixture(scope="module")
def blended(found, known, members):
    """The same with weight on every member, so that each is predicted."""
    from copy import copy

    model, source = found
    whole = copy(model)
    whole.models_ = {name: [fit_scan(source, one)] for name, one in members.items()}
    whole.models_ |= {MEAN: [scan_fit.MeanTarget().fit(*known)]}
    whole.weights_ = dict.fromkeys(whole.models_, 1 / 4)
    return whole


def test_blends_are_predicted_by_scans_saved_and_opened(blended, found, known, tmp_path, monkeypatch):
    bags, source = known[0], found[1]
    expected = blended.predict(bags)
    monkeypatch.setattr(shards, "SHARD_BAGS", 40)
    got = predict_scan(blended, source)
    order = [got.ids.tolist().index(one) for one in bags.ids]
    assert_allclose(got.values[order], expected, rtol=1e-9)
    bw.save_model(blended, tmp_path / "m.bagwise", method="auto")
    assert (bw.load_model(tmp_path / "m.bagwise").predict(bags) == expected).all()


def test_auto_in_memory_with_covariates_is_not_predicted_by_scans(blended, found, monkeypatch):
    monkeypatch.setattr(blended, "routing_", type(blended.routing_)(np.array([0])))
    with pytest.raises(ValueError, match="takes columns as covariates, which is not done piece by piece"):
        predict_scan(blended, found[1])


@pytest.mark.slow
def test_whoever_runs_the_passes_auto_is_the_same_to_the_last_bit(found, known):
    model, source = found
    again = fit_scan(source, "auto", executor=Processes(2))
    assert again.weights_ == model.weights_ and again.scores_ == model.scores_
    assert (again.predict(known[0]) == model.predict(known[0])).all()


def test_members_that_fail_are_told(table, members):
    from bagwise.kernels import Gaussian

    with pytest.MonkeyPatch.context() as patch:
        narrow = small("instance-kme:ridge").set_params(head__grid={"kernel": [Gaussian(1e-4)]})
        few = {"aggregated": members["aggregated"], "instance-kme:ridge": narrow}
        patch.setattr(scan_fit, "MEMBERS", tuple(few))
        patch.setattr(scan_fit, "method", lambda name, random_state: few[name])
        model = fit_scan(scanned(table), "auto")
    row = {row["member"]: row for row in model.trials_}["instance-kme:ridge"]
    assert row["status"] == "failed" and "too narrow" in row["why"] and model.weights_["instance-kme:ridge"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_blend_from_sums_is_that_of_bags(seed):
    rng = np.random.default_rng(seed)
    y, fold = rng.normal(size=90), np.arange(90) % (2 + seed)
    Z = y[:, None] * rng.uniform(0.2, 1, size=4) + rng.normal(size=(90, 4))
    expected = blend(Z, y, fold)
    errors = y[:, None] - Z
    got = blend_sums([errors[fold == k].T @ errors[fold == k] for k in range(2 + seed)])
    assert got.kind == expected.kind
    assert_allclose(got.weights, expected.weights, atol=1e-9)
    assert_allclose((Z * got.without[fold]).sum(axis=1), expected.held_out, rtol=1e-9)
