"""Held-out predictions of `auto` are those of models that saw nothing of the held-out bags, their features included."""

import numpy as np
import pandas as pd
import pytest

import bagwise as bw
from bagwise.auto import AutoRegressor, large_data
from bagwise.auto.cross_validation import CrossValidation
from bagwise.auto.large_data import ScreenedRidge
from bagwise.auto.members import Menu, members_of, plan
from bagwise.auto.target_transforms import transformed
from bagwise.bags.checks import compared
from bagwise.bags.folds import Folds
from bagwise.regressors import EmbeddingRidge
from bagwise.regressors.pipeline import tail_limits


def shifted_years(n=48, years=6):
    """Bags in groups whose features are shifted by much, and whose targets follow the shift a little."""
    rng = np.random.default_rng(1)
    year = np.arange(n) % years
    shift, signal = rng.normal(scale=4, size=(years, 3)), rng.normal(size=n)
    bags = [rng.normal(size=(6, 3)) + shift[t] + [s, 0, 0] for t, s in zip(year, signal, strict=True)]
    return bw.from_arrays(bags, groups=year.tolist()), signal + 0.3 * shift[year, 0]


def plain_loop(make, bags, y, fold, weight=None):
    """Fit without each fold and predict it, within the limits of the training targets."""
    out = np.empty(len(y))
    for k in range(fold.max() + 1):
        train = fold != k
        weights = {} if weight is None else {"sample_weight": weight[train]}
        predictions = make().fit(bags[train], y[train], **weights).predict(bags[~train])
        out[~train] = np.clip(predictions, *tail_limits(y[train]))
    return out


BAGS, Y = shifted_years()
FOLD = bw.bags.bag_folds(BAGS, 3, random_state=0)
LANDMARKS = bw.method("input-kme").set_params(head__embedding__landmarks=12)
QUICK = plan(BAGS, "quick")[1:]
MEMBERS = {
    "plain": [*plan(BAGS, "best"), *plan(BAGS, "additive")[2:], *members_of([("landmarks", LANDMARKS)])[1:]],
    "transform": [transformed(member, "asinh") for member in QUICK],
    **dict.fromkeys(["missing values", "constant column", "categories", "covariates"], QUICK),
    **dict.fromkeys(["weights", "instance weights"], QUICK),
}


def bags_with(kind):
    """Return the bags with a kind of input; categories have a level that only the bags of fold 0 have."""
    instances = BAGS.instances.copy()
    if kind == "missing values":
        instances[::7, 0] = np.nan
        return bw.Bags(instances, BAGS.offsets, groups=BAGS.groups, missing="impute")
    if kind == "constant column":
        instances = np.column_stack([instances, BAGS.expand(np.arange(len(BAGS)) % 5)])
        return bw.Bags(instances, BAGS.offsets, groups=BAGS.groups)
    if kind == "categories":
        soil = np.where(BAGS.expand(FOLD == 0), 3, np.arange(BAGS.n_instances) % 3)
        columns = {"bag": BAGS.expand(np.arange(len(BAGS))), "year": BAGS.expand(BAGS.groups)}
        columns |= {"x": instances[:, 0], "soil": np.array(list("abcd"))[soil]}
        return bw.load(pd.DataFrame(columns), bag="bag", groups="year", categories="soil")[0]
    if kind == "instance weights":
        return bw.Bags(instances, BAGS.offsets, groups=BAGS.groups, weights=1.0 + np.arange(len(instances)) % 3)
    return BAGS.with_covariates(np.arange(len(Y)) % 7.0) if kind == "covariates" else BAGS


@pytest.mark.parametrize(
    ("kind", "member"), [pytest.param(k, m, id=f"{k} {m.name}") for k, members in MEMBERS.items() for m in members]
)
def test_members_are_held_out_as_in_a_plain_loop(kind, member):
    bags, weight = bags_with(kind), np.linspace(0.2, 3.0, len(Y)) if kind == "weights" else None
    trial = CrossValidation(compared(bags), Y, [Folds(FOLD)], weight).try_member(member)
    expected = plain_loop(lambda: member.make(0), compared(bags), Y, FOLD, weight)
    np.testing.assert_allclose(trial.held_out, expected, rtol=1e-9, atol=1e-9)


def test_models_of_folds_have_the_limits_of_their_training_bags():
    """A target far above the others is beyond the limits of the model without its fold."""
    bags, y = bw.datasets.make_problem("mean", 40)
    y[7] += 100.0
    model = AutoRegressor(["aggregated"], folds=4, transforms=False).fit(bags, y)
    for k, fold in enumerate(model.split_folds()):
        assert fold.range_ == tail_limits(y[model.fold_ != k])
        assert (fold.range_[1] < 50.0) == (k == model.fold_[7])


def test_of_many_bags_settings_are_compared_on_some(monkeypatch):
    monkeypatch.setattr(large_data, "MANY_BAGS", 20)
    monkeypatch.setattr(large_data, "SUBSET_BAGS", 16)
    monkeypatch.setattr("bagwise.auto.members.MANY_BAGS", 20)
    bags, y = bw.datasets.make_problem("shape", 40, random_state=3)
    head = Menu(40, bags.n_instances, bags.n_features, 40).input_kme(0).fit(bags, y)[-1]
    assert isinstance(head, ScreenedRidge) and 1 <= len(head.search_) <= len(head.settings()) / 4
    penalties = head.head_.penalties
    assert set(penalties) < set(head.head.penalties) and head.error_ == min(error for *_, error in head.search_)
    grid = [{name: [value] for name, value in setting.items()} for setting, *_ in head.search_]
    plain = EmbeddingRidge(head.embedding, head.head_.__class__(penalties), grid=grid)
    scaled = bw.method("input-kme")[0].fit_transform(bags)
    np.testing.assert_allclose(head.predict(scaled), plain.fit(scaled, y).predict(scaled), rtol=1e-9)
    turned = Menu(40, bags.n_instances, bags.n_features, 40).input_kme(0).fit(bags[::-1], y[::-1])[-1]
    assert [setting for setting, *_ in turned.search_] == [setting for setting, *_ in head.search_]


def ordered_bags(n=72):
    """Bags with a time, features that drift, and targets that follow the mean of the first feature."""
    rng = np.random.default_rng(2)
    bags = bw.from_arrays([rng.normal(size=(5, 2)) + 3 * i / n for i in range(n)])
    y = np.array([bag[:, 0].mean() for bag in bags]) + rng.normal(scale=0.1, size=n)
    return bags.with_validation(bw.Validation(time=np.arange(n))), y


def test_forward_folds_train_on_earlier_bags_alone(tmp_path):
    bags, y = ordered_bags()
    model = AutoRegressor(["aggregated"], folds="forward", transforms=False).fit(bags, y)
    assert model.fold_.tolist() == np.repeat([-1, 0, 1, 2, 3, 4], 12).tolist()
    assert np.isnan(model.held_out_).tolist() == (model.fold_ < 0).tolist()
    expected = np.full(len(y), np.nan)
    for k in range(5):
        earlier = model.fold_ < k
        predictions = bw.method("aggregated").fit(bags[earlier], y[earlier]).predict(bags[model.fold_ == k])
        expected[model.fold_ == k] = np.clip(predictions, *tail_limits(y[earlier]))
    known = model.fold_ >= 0
    (row,) = (row for row in model.trials_ if row["member"] == "aggregated")
    assert row["error"] == pytest.approx(np.sqrt(np.mean((expected - y)[known] ** 2)), rel=1e-9)
    assert model.scores_["error"] == pytest.approx(np.sqrt(np.mean((model.held_out_ - y)[known] ** 2)))
    bw.save_model(model, tmp_path / "m.bagwise")
    opened = bw.load_model(tmp_path / "m.bagwise")
    assert [train.tolist() for train, _ in opened.folds_.pairs()] == [list(range(12 * k)) for k in range(1, 6)]
    assert "60 held-out bags" in opened.paragraph() and np.isfinite(model.leaderboard()["error"].iloc[0])


def test_a_given_split_holds_out_its_test_bags():
    bags, y = ordered_bags()
    split = bw.Validation("given", given=["train"] * 50 + ["test"] * 22)
    model = AutoRegressor(["aggregated"], folds=split, transforms=False, repeats=2).fit(bags, y)
    np.testing.assert_array_equal(np.isfinite(model.held_out_), np.arange(72) >= 50)
    assert model.predict_folds(bags[:3]).shape == (1, 3)
    pairs = [(range(30), range(30, 50)), (range(50), range(50, 72))]
    listed = AutoRegressor(["aggregated"], folds=[tuple(map(list, pair)) for pair in pairs]).fit(bags, y)
    assert listed.fold_.tolist() == [-1] * 30 + [0] * 20 + [1] * 22


def test_finished_fits_of_forward_folds_are_read_again(tmp_path):
    bags, y = ordered_bags()
    options = {"folds": "forward", "transforms": False, "work": tmp_path / "work"}
    first, second = (AutoRegressor(["aggregated"], **options).fit(bags, y) for _ in range(2))
    np.testing.assert_array_equal(first.held_out_, second.held_out_)
    np.testing.assert_array_equal(first.predict(bags), second.predict(bags))
