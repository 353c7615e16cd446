"""Bags embedded once for all folds: the same as members whose embedding is fitted to all bags, and heads to some."""

import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from tests.helpers.toy_members import Column

import bagwise as bw
from bagwise.auto import shared_embeddings
from bagwise.auto.cross_validation import Clock, CrossValidation, fit_some, transformed
from bagwise.auto.members import Member, plan
from bagwise.bags.folds import unit_hash
from bagwise.embeddings.second_kernel import SecondKernel
from bagwise.embeddings.summaries import Statistics
from bagwise.regressors import BagPipeline, EmbeddingRidge

NAMES = ("aggregated", "statistics:linear", "statistics", "sliced-wasserstein")


def problem(n=40, *, groups=False, covariates=False):
    bags, y = bw.datasets.make_problem("shape", n, random_state=3)
    if groups:
        bags = bags._with(groups=np.arange(n) // 2)
    return (bags.with_covariates(np.column_stack([y**2, np.arange(n)])) if covariates else bags), y


def cross_validation(bags, y, weight=None):
    fold = bw.bags.bag_folds(bags, 3, random_state=0)
    return CrossValidation(bags, y, fold[None], weight, 0, None, Clock(None))


def members(bags, *names):
    return [member for member in plan(bags) if member.name in (names or NAMES)]


@pytest.mark.parametrize("kind", ["plain", "groups", "covariates", "weights"])
def test_a_fit_to_all_bags_is_that_of_the_member_itself(kind):
    bags, y = problem(groups=kind == "groups", covariates=kind == "covariates")
    weight = np.arange(40) % 3 + 0.0 if kind == "weights" else None
    cv, every, none = cross_validation(bags, y, weight), np.ones(40, dtype=bool), np.zeros(40, dtype=bool)
    for member in members(bags, *NAMES, *(["statistics:forest", "input-kme"] if kind == "groups" else [])):
        ((model, *_),) = cv.fit_shared(member, [every], [none])
        itself, *_ = fit_some(member, bags, y, every, none, weight, 0)
        np.testing.assert_allclose(model.predict(bags), itself.predict(bags), rtol=1e-8, atol=1e-8)


def test_too_many_bags_are_embedded_by_every_fold(monkeypatch):
    monkeypatch.setattr(shared_embeddings, "MOST_BAGS", 39)
    bags, y = problem()
    cv, every, none = cross_validation(bags, y), np.ones(40, dtype=bool), np.zeros(40, dtype=bool)
    assert [cv.fit_shared(member, [every], [none]) for member in members(bags)] == [[]] * len(NAMES)


@pytest.mark.parametrize("kind", ["plain", "covariates", "weights", "log"])
def test_predictions_of_held_out_bags_are_those_of_the_models(kind):
    bags, y = problem(covariates=kind == "covariates")
    weight, y = (np.arange(40) % 3 + 0.0 if kind == "weights" else None), np.exp(y)
    cv = cross_validation(bags, y, weight)
    held_out = [cv.fold == k for k in range(3)]
    for member in members(bags):
        member = transformed(member, "log") if kind == "log" else member
        found = cv.fit_shared(member, [~mask for mask in held_out], held_out)
        assert len(found) == 3
        for mask, (model, predictions, *_) in zip(held_out, found, strict=True):
            np.testing.assert_allclose(model.predict(bags[mask]), predictions, rtol=1e-8, atol=1e-8)


def test_a_fold_is_the_head_on_some_rows_of_one_embedding():
    """Naive: embed all bags by the chosen setting, fit the ridge to the rows of the bags seen."""
    bags, y = problem()
    cv = cross_validation(bags, y)
    seen = cv.fold != 0
    (member,) = members(bags, "sliced-wasserstein")
    ((model, predictions, *_),) = cv.fit_shared(member, [seen], [~seen])
    unfitted = member.make(0)
    scaled = clone(unfitted[0]).fit_transform(bags)
    errors = []
    for setting in unfitted[1].settings():
        K = unfitted[1].embedding_for(setting).fit_transform(scaled)
        head = unfitted[1].fresh_head().set_params(kernel="precomputed").fit(K[seen][:, seen], y[seen])
        errors.append((head.error_, head.predict(K[~seen][:, seen])))
    np.testing.assert_allclose(min(errors, key=lambda pair: pair[0])[1], predictions, rtol=1e-8)
    assert np.count_nonzero(model[1].head_.coef_) <= seen.sum()


def test_no_target_of_a_held_out_bag_is_looked_at():
    bags, y = problem()
    cv, other = cross_validation(bags, y), cross_validation(bags, np.where(np.arange(40) < 13, 1e3, y))
    held_out = np.arange(40) < 13
    for member in members(bags):
        ((_, one, *_),), ((_, two, *_),) = (c.fit_shared(member, [~held_out], [held_out]) for c in (cv, other))
        np.testing.assert_array_equal(one, two)


def test_of_many_bags_settings_are_compared_on_some(monkeypatch):
    monkeypatch.setattr(shared_embeddings, "MANY_BAGS", 20)
    monkeypatch.setattr(shared_embeddings, "COMPARED", 15)
    bags, y = problem()
    cv = cross_validation(bags, y)
    seen = cv.fold != 0
    (member,) = members(bags, "input-kme")
    ((model, predictions, *_),) = cv.fit_shared(member, [seen], [~seen])
    some = sorted(np.flatnonzero(seen), key=lambda at: unit_hash(bags.ids[at], 0))[:15]
    scaled, head = model[0].transform(bags), member.make(0)[1]
    penalties, chosen, errors = np.array(head.head.penalties), [], []
    for setting in head.settings():
        own = {name.partition("__")[2]: value for name, value in setting.items() if "__" in name}
        rows = head.embedding_for({}).embedding.set_params(**own).fit_transform(scaled)
        second = SecondKernel(_Known(rows[some]), setting["kernel"])
        ridge = head.fresh_head().set_params(kernel="precomputed", penalties=penalties[::2])
        ridge.fit(second.fit_transform(bags[some]), y[some])
        chosen.append(ridge.penalty_)
        errors.append(ridge.error_)
    # Of 16 the best quarter, if not much worse than the first; of these the best on all bags that are seen is kept.
    best = sorted(at for at in np.argsort(errors)[:4] if errors[at] <= 1.05 * min(errors))
    assert [setting for setting, *_ in model[1].search_] == [head.settings()[at] for at in best]
    low, high = (fn(chosen[at] for at in best) for fn in (min, max))
    near = (penalties >= low / 40) & (penalties <= high * 40)  # three steps of half a power of ten
    assert model[1].head_.penalties == tuple(penalties[near]) and near.sum() < len(penalties)
    assert model[1].error_ == min(error for *_, error in model[1].search_)
    np.testing.assert_allclose(model.predict(bags[~seen]), predictions, rtol=1e-8)
    turned = cross_validation(bags[::-1], y[::-1])  # another order of the bags, the same settings
    ((other, *_),) = turned.fit_shared(member, [seen[::-1]], [~seen[::-1]])
    assert [setting for setting, *_ in other[1].search_] == [setting for setting, *_ in model[1].search_]


class _Known(Statistics):
    """An embedding whose rows are known."""

    def __init__(self, rows):
        self.rows = rows

    def fit_transform(self, bags, y=None):
        return self.rows

    columns = "features"


def test_models_of_a_member_hold_one_embedding(tmp_path):
    """The largest arrays of a model were in the file once for every fold."""
    bags, y = problem(60)
    model = bw.auto.AutoRegressor(["sliced-wasserstein"], transforms=False).fit(bags, y)
    whole, folds = model.models_["sliced-wasserstein"][0], model.fold_models_["sliced-wasserstein"]
    assert len(folds) == 5 and all(one[1].embedding_.rows_ is whole[1].embedding_.rows_ for one in folds)
    bw.save_model(model, tmp_path / "m.bagwise")
    size, largest = (tmp_path / "m.bagwise").stat().st_size, whole[1].embedding_.rows_.nbytes
    assert largest < size < 1.5 * largest
    assert largest < model.leaderboard()["file_bytes"].iloc[0] < size
    np.testing.assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict_folds(bags), model.predict_folds(bags))


def test_what_embeds_by_the_targets_is_fitted_apart():
    bags, y = problem()
    cv, mask = cross_validation(bags, y), np.arange(40) < 10
    for name in ("instance-kme", "em"):
        (member,) = members(bags, name)
        assert cv.fit_shared(member, [~mask], [mask]) == []
    assert cv.fit_shared(Member.of(("own", Column(0))), [~mask], [mask]) == []


def on_statistics(*options, **named):
    return BagPipeline([("rows", Statistics(*options, **named)), ("head", Ridge())])


@pytest.mark.parametrize("first", [0, 1])
def test_statistics_as_a_step_are_not_those_of_a_ridge(first):
    """Both are kept for other members: one with all columns and covariates, one with columns that vary alone."""
    bags, y = problem(covariates=True)
    bags = bags.replace(np.column_stack([np.zeros(bags.n_instances), bags.instances]), feature_names=None)
    cv, seen = cross_validation(bags, y), np.arange(40) < 30
    models = [("step", on_statistics()), ("ridge", EmbeddingRidge(Statistics()))]
    for name, model in (models[first], models[1 - first]):
        ((fitted, predictions, *_),) = cv.fit_shared(Member.of((name, model)), [seen], [~seen])
        np.testing.assert_allclose(fitted.predict(bags[~seen]), predictions, rtol=1e-8)


def test_a_function_of_the_targets_is_fitted_apart():
    """One without a transformer made the member fail."""
    bags, y = problem()
    model = TransformedTargetRegressor(on_statistics(), func=np.log, inverse_func=np.exp)
    cv, mask = cross_validation(bags, np.exp(y)), np.arange(40) < 10
    assert cv.fit_shared(Member.of(("own", model)), [~mask], [mask]) == []
    trial = cv.try_member(Member.of(("own", model)))
    itself = clone(model).fit(bags[cv.fold != 0], np.exp(y)[cv.fold != 0]).predict(bags[cv.fold == 0])
    low, high = cv.limits(cv.fold != 0)
    np.testing.assert_allclose(trial.held_out[cv.fold == 0], np.clip(itself, low, high), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "why"),
    [({"statistics": ("mode",)}, "statistics must be a tuple"), ({"missing": "drop"}, "missing must")],
)
def test_options_of_statistics_are_checked(options, why):
    bags, y = problem()
    trial = cross_validation(bags, y).try_member(Member.of(("own", on_statistics(**options))))
    assert trial.status == "failed" and trial.why.startswith(why)


def test_what_is_embedded_once_is_not_awaited_for_every_fold(monkeypatch):
    """The seconds of the first fold, with the embedding of all bags, were taken for those of each."""
    bags, y = problem()
    real, slept = time.perf_counter, [0.0]
    staged = shared_embeddings.SharedEmbeddings._staged

    def slow(self, *args):
        slept[0] += 10.0
        return staged(self, *args)

    monkeypatch.setattr(time, "perf_counter", lambda: real() + slept[0])
    monkeypatch.setattr(shared_embeddings.SharedEmbeddings, "_staged", slow)
    fold = bw.bags.bag_folds(bags, 5, random_state=0)
    (member,) = members(bags, "sliced-wasserstein")  # its scale and its slices: 20 seconds; five times that is too long
    trial = CrossValidation(bags, y, fold[None], None, 0, None, Clock(90.0)).try_member(member)
    assert trial.status == "tried", trial.why
