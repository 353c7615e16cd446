"""Missing values: filled in from the bag and the training bags alone, equal to a loop over bags."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bagwise as bw
from bagwise.evaluation.plan import as_entries
from bagwise.instances import Imputation


def holed(n=40, share=0.2, seed=0, dtype=np.float64):
    """Bags of 1 to 9 instances in which values are missing at random, now and then a column of a whole bag."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 10), 3)).astype(dtype) for _ in range(n)]
    y = np.array([array[:, 0].mean() for array in arrays])
    for array in arrays:
        array[rng.random(array.shape) < share] = np.nan
        if rng.random() < 0.2:
            array[:, rng.integers(3)] = np.nan
    return bw.from_arrays(arrays, missing="keep", feature_names=["a", "b", "c"]), y


def naive(train, new):
    """The rule, read off the docstring."""
    with np.errstate(all="ignore"):
        rows = [train.instances[a:b] for a, b in zip(train.offsets, train.offsets[1:], strict=False)]
        columns = range(train.n_features)
        of_bags = [
            [np.median(row[~np.isnan(row[:, j]), j]) for row in rows if not np.isnan(row[:, j]).all()] for j in columns
        ]
        medians = [np.median(values) for values in of_bags]
        out = []
        for a, b in zip(new.offsets, new.offsets[1:], strict=False):
            bag = new.instances[a:b].copy()
            for j in columns:
                known = bag[~np.isnan(bag[:, j]), j]
                bag[np.isnan(bag[:, j]), j] = np.median(known) if len(known) else medians[j]
            shares = np.isnan(new.instances[a:b]).mean(axis=1).astype(bag.dtype)
            out.append(np.column_stack([bag, shares]))
    return np.concatenate(out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_the_rule(dtype):
    (train, _), (new, _) = holed(dtype=dtype), holed(15, seed=1, dtype=dtype)
    imputation = Imputation().fit(train)
    rounding = 2 * np.finfo(dtype).eps  # of the middle between two values
    assert_allclose(imputation.transform(new).instances, naive(train, new), rtol=rounding, atol=rounding)
    assert imputation.transform(new).instances.dtype == dtype
    assert imputation.transform(new).feature_names[-1] == "share missing"
    assert not imputation.transform(new).has_missing


def test_a_bag_does_not_depend_on_its_company():
    (train, _), (new, _) = holed(), holed(15, seed=1)
    imputation = Imputation().fit(train)
    whole = imputation.transform(new)
    for i in range(len(new)):
        assert_array_equal(imputation.transform(new[[i]]).instances, whole[[i]].instances)


def test_where_nothing_is_missing_nothing_changes():
    bags, _ = bw.datasets.make_gaussian(10, instances=4)
    imputation = Imputation().fit(bags)
    assert not imputation.has_share_
    assert_array_equal(imputation.transform(bags).instances, bags.instances)


def test_a_column_without_a_value_is_refused():
    bags = bw.from_arrays([[[1.0, np.nan]], [[2.0, np.nan]]], feature_names=["a", "b"], missing="keep")
    with pytest.raises(ValueError, match="column 'b' has no value in the training bags.* ignore="):
        Imputation().fit(bags)


@pytest.mark.parametrize("name", ["aggregated", "instance-mean", "statistics", "input-kme", "prime"])
def test_methods_learn_and_predict_with_missing_values(name):
    (train, y), (new, _) = holed(80), holed(30, seed=1)
    model = bw.method(name, missing="impute").fit(train, y)
    assert np.isfinite(model.predict(new)).all()
    filled = Imputation().fit(train)
    plain = bw.method(name).fit(filled.transform(train), y)
    assert_array_equal(model.predict(new), plain.predict(filled.transform(new)))


def test_intervals_folds_and_files(tmp_path):
    (train, y), (new, _) = holed(60), holed(9, seed=1)
    model = bw.Intervals(bw.method("aggregated", missing="impute"), level=0.8).fit(train, y)
    assert np.isfinite(model.predict_interval(new)).all()
    bw.save_model(model, tmp_path / "m.bagwise")
    assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(new), model.predict(new))
    parts = bw.explain(model, new)
    assert_allclose(parts.contributions.sum(), model.predict(new).sum(), rtol=1e-9)


def test_a_wrong_choice_is_refused():
    with pytest.raises(ValueError, match="missing must be 'refuse' or 'impute', not 'guess'"):
        bw.method("aggregated", missing="guess")


def test_auto_takes_tables_as_they_are_and_says_what_it_did(tmp_path):
    (train, y), (new, _) = holed(60), holed(9, seed=1)
    model = bw.auto.AutoRegressor(["aggregated", "prime"], folds=3).fit(train, y)
    assert "Missing values were filled in" in model.summary() and np.isfinite(model.predict(new)).all()
    bw.save_model(model, tmp_path / "m.bagwise")
    assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(new), model.predict(new))


def test_auto_fitted_without_missing_values_refuses_them():
    bags, y = bw.datasets.make_problem("mean", 40, random_state=0)
    model = bw.auto.AutoRegressor(["aggregated", "prime"], folds=3).fit(bags, y)
    holes = bags.instances.copy()
    holes[0, 0] = np.nan
    new = bw.Bags(holes, bags.offsets, bags.ids, feature_names=bags.feature_names, missing="impute")
    with pytest.raises(ValueError, match="missing feature values"):
        model.predict(new)


def test_evaluate_fills_in_for_methods_given_by_name():
    bags, y = holed(60)
    results = bw.evaluate(bags, y, ["aggregated", "prime"], repeats=1, folds=3, tune=False)
    assert np.isfinite(results.summary()["rmse"]).all() and list(results.summary()["cells"]) == [3, 3]


@pytest.mark.parametrize("name", ["aggregated", "prime", "cluster", "instance-kme:paper"])
def test_what_is_searched_is_found_behind_the_imputation(name):
    [plain], [imputed] = (as_entries([name], missing=missing) for missing in ("refuse", "impute"))
    assert len(plain.settings) == len(imputed.settings)
    assert all(setting.keys() <= imputed.make(0).get_params().keys() for setting in imputed.settings)


def test_the_command_line_imputes_and_remembers(tmp_path):
    import pandas as pd
    from typer.testing import CliRunner

    from bagwise.cli import app

    for name, (bags, y) in {"train": holed(60), "new": holed(9, seed=1)}.items():
        frame = pd.DataFrame(bags.instances, columns=bags.feature_names)
        frame.assign(bag=bags.expand(bags.ids), y=bags.expand(y)).to_csv(tmp_path / f"{name}.csv", index=False)
    table = [str(tmp_path / "train.csv"), "--bag", "bag", "--target", "y", "--method", "aggregated"]
    refused = CliRunner().invoke(app, ["fit", *table, "--out", str(tmp_path / "m.bagwise")])
    assert refused.exit_code == 1 and "--missing impute" in " ".join(refused.stderr.split())
    fitted = CliRunner().invoke(app, ["fit", *table, "--missing", "impute", "--out", str(tmp_path / "m.bagwise")])
    assert fitted.exit_code == 0, fitted.output
    out = str(tmp_path / "p.csv")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "m.bagwise"), str(tmp_path / "new.csv"), "--out", out])
    assert done.exit_code == 0 and np.isfinite(pd.read_csv(out).prediction).all()


def test_the_way_out_that_the_error_names_works():
    bags, y = holed()
    with pytest.raises(ValueError, match=r"bw.method\(name, missing='impute'\)"):
        bw.method("aggregated").fit(bags, y)
