"""`importance`: equal to plain loops; finds what was planted, in the mean or in the spread of a feature."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import LinearRegression

import bagwise as bw
from bagwise.bags.folds import bag_folds, units_of
from bagwise.embeddings import Pool
from bagwise.explanations.feature_importance import Exchange, draw_donors, draw_rows

NAMES = ["red", "nir", "noise"]


def planted(n=90, seed=0, *, sizes=(8, 25), groups=False):
    """Means of red, and spreads of nir, make the target; noise has both and makes nothing."""
    rng = np.random.default_rng(seed)
    means, spreads = rng.normal(size=(n, 3)), np.exp(0.6 * rng.normal(size=(n, 3)))
    arrays = [m + s * rng.normal(size=(rng.integers(*sizes), 3)) for m, s in zip(means, spreads, strict=True)]
    labels = [f"g{i // 3}" for i in range(n)] if groups else None
    return bw.from_arrays(arrays, feature_names=NAMES, groups=labels), means[:, 0] + spreads[:, 1]


BAGS, Y = planted()
MODEL = bw.Intervals(bw.method("statistics"), folds=5).fit(BAGS, Y)


def test_mean_and_spread_are_told_apart_on_held_out_folds():
    bags, y = planted(300, seed=3)
    rows = bw.BagPipeline([("rows", Pool(("mean", "deviation"))), ("head", LinearRegression())])
    model = bw.Intervals(rows, folds=5).fit(bags, y)
    found = bw.importance(model, bags, y, repeats=2)
    assert found.held_out and found.names[2] == "noise"
    at = {name: found.names.index(name) for name in NAMES}
    assert found.matters("mean")[at["red"]] and not found.matters("spread")[at["red"]]
    assert found.matters("spread")[at["nir"]] and not found.matters("mean")[at["nir"]]
    assert found.rise["whole"][at["noise"]] < 0.05 * found.rise["whole"].max()
    assert "its spread matters, its mean does not" in found.summary()
    assert found.baseline == pytest.approx(
        np.mean([np.sqrt(np.mean(model.residuals_[model.fold_ == k] ** 2)) for k in range(5)])
    )


def naive(model, bags, y, members, part, donors_and_rows):
    """One exchange after another, bag by bag and row by row."""
    fold, rises = bag_folds(bags, 5), []
    columns = [j for j in members if j < bags.n_features]
    beside = [j - bags.n_features for j in members if j >= bags.n_features]

    def errors(prediction):
        return np.array([np.sqrt(np.mean((y - prediction)[fold == k] ** 2)) for k in range(5)])

    base = errors(model.predict(bags))
    for donors, rows in donors_and_rows:
        instances, covariates = bags.instances.copy(), bags.covariates.copy()
        for i, donor in enumerate(donors):
            own = slice(bags.offsets[i], bags.offsets[i + 1])
            weights, donor_weights = (np.split(bags.weights, bags.offsets[1:-1])[k] for k in (i, donor))
            for j in columns:
                known, given = ~np.isnan(bags[i][:, j]), ~np.isnan(bags[int(donor)][:, j])
                mean = np.average(bags[i][known, j], weights=weights[known])
                other = np.average(bags[int(donor)][given, j], weights=donor_weights[given])
                for row in range(own.start, own.stop):
                    assert bags.offsets[donor] <= rows[row] < bags.offsets[donor + 1]
                    if part == "whole":
                        instances[row, j] = bags.instances[rows[row], j]
                    elif part == "mean":
                        instances[row, j] += other - mean
                    else:
                        dealt, there = bags.instances[rows[own], j], ~np.isnan(bags.instances[rows[own], j])
                        instances[row, j] = (
                            bags.instances[rows[row], j] - np.average(dealt[there], weights=weights[there]) + mean
                        )
            if part != "spread":
                for j in beside:
                    covariates[i, j] = bags.covariates[donor, j]
        moved = bags.replace(instances, feature_names=bags.feature_names)
        rises.append(errors(model.predict(moved.with_covariates(covariates, bags.covariate_names))) - base)
    return np.mean(rises, axis=0)


def test_equal_to_a_naive_loop_with_covariates_weights_missing_values_and_groups():
    rng = np.random.default_rng(1)
    bags, y = planted(48, seed=2, groups=True)
    instances = bags.instances.copy()
    instances[rng.uniform(size=len(instances)) < 0.1, 1] = np.nan
    bags = bw.Bags(instances, bags.offsets, groups=bags.groups, feature_names=NAMES, missing="impute")
    bags = bags.with_weights(rng.uniform(0.5, 2.0, size=len(instances)))
    bags = bags.with_covariates(rng.normal(size=(48, 2)), ["sza", "height"])
    y = y + bags.covariates[:, 0]
    model = bw.method("aggregated").fit(bags, y)
    groups = {"bands": ["red", "nir"], "geometry": ["noise", "sza"]}
    found = bw.importance(model, bags, y, groups=groups, repeats=2, random_state=3)
    assert not found.held_out and set(found.names) == {"bands", "geometry", "height"}
    exchange = Exchange(bags, 2, 3)
    drawn = list(zip(exchange.donors, exchange.rows, strict=True))
    for name, members in {"bands": [0, 1], "geometry": [2, 3], "height": [4]}.items():
        at = found.names.index(name)
        for part in ("whole", "mean", "spread") if name != "height" else ("whole",):
            np.testing.assert_allclose(
                found.rises[part][at], naive(model, bags, y, members, part, drawn), rtol=1e-7, atol=1e-9
            )
    at = found.names.index("height")
    assert found.as_dict()["spread"][at] is None and found.as_dict()["mean"][at] is None
    with parallel_config("threading"):
        again = bw.importance(model, bags, y, groups=groups, repeats=2, random_state=3, n_jobs=2)
    assert all((again.rises["whole"] == found.rises["whole"]).ravel())


def test_donors_are_of_other_groups_and_give_every_row_its_share():
    bags, _ = planted(60, seed=4, groups=True)
    unit = units_of(bags)
    donors = draw_donors(unit, np.random.default_rng(0))
    assert sorted(donors) == list(range(60)) and (unit[donors] != unit).all()
    equal = bw.from_arrays([np.arange(7.0) + 10 * i for i in range(12)])
    donors = draw_donors(np.arange(12), np.random.default_rng(1))
    rows = draw_rows(equal, donors, np.random.default_rng(1))
    for i, donor in enumerate(donors):  # of a bag of the same size, every row once
        assert sorted(equal.instances[rows][7 * i : 7 * i + 7, 0]) == sorted(equal[int(donor)][:, 0])
    weighted = bw.from_arrays([np.arange(2.0), np.arange(8.0)]).with_weights([3.0, 1.0] + [1.0] * 8)
    rows = draw_rows(weighted, np.array([1, 0]), np.random.default_rng(2))
    assert sorted(weighted.instances[rows][2:, 0]) == [0.0] * 6 + [1.0] * 2


def test_auto_keeps_folds_and_other_bags_are_predicted_by_the_model():
    model = bw.method("auto", members=["aggregated", "statistics"], folds=3).fit(BAGS, Y)
    held = bw.importance(model, BAGS, Y, parts="whole", repeats=1, metric="mae")
    predicted = model.predict_folds(BAGS)[model.fold_, np.arange(len(BAGS))]
    expected = np.mean([np.abs(Y - predicted)[model.fold_ == k].mean() for k in range(3)])
    assert held.held_out and held.baseline == pytest.approx(expected, rel=1e-9)
    new, y_new = planted(40, seed=5)
    found = bw.importance(model, new, y_new, parts="whole", repeats=1)
    assert not found.held_out and list(found.rises) == ["whole"]
    assert "which must be new to the model" in found.summary()


def test_weights_of_bags_decide_which_errors_count():
    weight = np.where(np.arange(len(Y)) < 60, 1.0, 0.0)
    found = bw.importance(MODEL, BAGS, Y, parts="whole", repeats=1, sample_weight=weight)
    counted = [MODEL.residuals_[:60][MODEL.fold_[:60] == k] for k in range(5)]
    assert found.baseline == pytest.approx(np.mean([np.sqrt(np.mean(one**2)) for one in counted]))


def test_what_is_refused():
    with pytest.raises(
        ValueError, match="the group 'bands' names the unknown column 'swir'; the columns are red, nir, noise"
    ):
        bw.importance(MODEL, BAGS, Y, groups={"bands": ["red", "swir"]})
    with pytest.raises(ValueError, match="the group 'bands' names no column"):
        bw.importance(MODEL, BAGS, Y, groups={"bands": []})
    with pytest.raises(ValueError, match="the group 'nir' has the name of a column that is not in it"):
        bw.importance(MODEL, BAGS, Y, groups={"nir": ["red"]})
    with pytest.raises(TypeError, match="groups must be a dict such as"):
        bw.importance(MODEL, BAGS, Y, groups=["red"])
    with pytest.raises(ValueError, match="parts must be some of 'whole', 'mean', 'spread'"):
        bw.importance(MODEL, BAGS, Y, parts=["variance"])
    with pytest.raises(ValueError, match="the metric 'crps' needs standard deviations"):
        bw.importance(MODEL, BAGS, Y, metric="crps")
    with pytest.raises(ValueError, match="repeats must be a whole number above zero"):
        bw.importance(MODEL, BAGS, Y, repeats=0)
    with pytest.raises(ValueError, match=r"3 bags \(groups\) cannot be exchanged in folds"):
        bw.importance(MODEL, BAGS[:3], Y[:3])
    with pytest.raises(TypeError, match="importance needs a fitted model, not str"):
        bw.importance("aggregated", BAGS, Y)
    with pytest.raises(ValueError, match="the part 'spread' was not measured"):
        bw.importance(MODEL, BAGS, Y, parts="whole", repeats=1).matters("spread")
