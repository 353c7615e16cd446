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


def plain_loop(make, bags, y, fold):
    """Fit without each fold and predict it, within the limits of the training targets."""
    out = np.empty(len(y))
    for k in range(fold.max() + 1):
        train = fold != k
        predictions = make().fit(bags[train], y[train]).predict(bags[~train])
        out[~train] = np.clip(predictions, *tail_limits(y[train]))
    return out


BAGS, Y = shifted_years()
MEMBERS = [*plan(BAGS, "best"), *plan(BAGS, "additive")[2:]]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_members_are_held_out_as_in_a_plain_loop(member):
    fold = bw.bags.bag_folds(BAGS, 3, random_state=0)
    trial = CrossValidation(BAGS, Y, [Folds(fold)]).try_member(member)
    expected = plain_loop(lambda: member.make(0), BAGS, Y, fold)
    np.testing.assert_allclose(trial.held_out, expected, rtol=1e-9, atol=1e-9)


LANDMARKS = bw.method("input-kme").set_params(head__embedding__landmarks=12)
KINDS = {
    "plain": [*plan(BAGS, "quick")[1:], *members_of([("landmarks", LANDMARKS), "instance-kme"])[1:]],
    "transform": [transformed(member, "asinh") for member in plan(BAGS, "quick")[1:]],
    "missing values": plan(BAGS, "quick")[1:],
    "constant column": plan(BAGS, "quick")[1:],
    "categories": plan(BAGS, "quick")[1:],
    "covariates": plan(BAGS, "quick")[1:],
    "weights": plan(BAGS, "quick")[1:],
}


def with_soil(bags, held_out, changed):
    """Add a category of four levels, of which "d" occurs in held-out bags alone; ``changed`` exchanges their levels."""
    soil = np.arange(bags.n_instances) % 3
    soil[held_out] = 3 - soil[held_out] if changed else np.where(soil[held_out] == 0, 3, soil[held_out])
    columns = {"x0": bags.instances[:, 0], "x1": bags.instances[:, 1], "soil": np.array(list("abcd"))[soil]}
    table = pd.DataFrame({"bag": bags.expand(np.arange(len(bags))), "year": bags.expand(bags.groups)} | columns)
    return bw.load(table, bag="bag", groups="year", categories="soil")[0]


@pytest.mark.parametrize(
    ("kind", "member"), [pytest.param(k, m, id=f"{k} {m.name}") for k, members in KINDS.items() for m in members]
)
def test_held_out_bags_do_not_reach_the_model(kind, member):
    """The model of fold 0 is the same whatever the features and targets of the bags in fold 0."""
    fold = bw.bags.bag_folds(BAGS, 3, random_state=0)
    held_out = BAGS.expand(fold == 0)
    instances, missing = BAGS.instances.copy(), "refuse"
    if kind == "constant column":
        instances = np.column_stack([instances, BAGS.expand(np.arange(len(BAGS)) % 5)])
    if kind == "missing values":
        instances[::7, 0], missing = np.nan, "impute"
    tables = []
    for changed in (False, True):
        X = np.where(held_out[:, None] & changed, 50 * instances**2 + BAGS.instances[:, :1], instances)
        bags = bw.Bags(X, BAGS.offsets, groups=BAGS.groups, missing=missing)
        if kind == "categories":
            bags = with_soil(bags, held_out, changed)
        if kind == "covariates":
            bags = bags.with_covariates(np.where((fold == 0) & changed, 1e3, np.arange(len(Y)) % 7.0))
        y, weight = np.where((fold == 0) & changed, 9.0 - Y, Y), np.where((fold == 0) & changed, 5.0, 1.0)
        cv = CrossValidation(compared(bags), y, [Folds(fold)], weight if kind == "weights" else None)
        tables.append((cv, cv._run([(member, cv.fold_masks(0, 0), False)])[0].model))
    new = tables[0][0].bags[fold == 1]
    np.testing.assert_array_equal(*(model.predict(new) for _, model in tables))


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
