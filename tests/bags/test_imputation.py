"""Missing values: declared once, imputed by each estimator from its own training bags, equal to a loop over bags."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.helpers.typed import done, refused

import bagwise as bw
from bagwise.bags.validation import ParameterError
from bagwise.instances import Imputation


def holed(n=40, share=0.2, seed=0, dtype=np.float64, missing="impute"):
    """Bags of 1 to 9 instances in which values are missing at random, now and then a column of a whole bag."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 10), 3)).astype(dtype) for _ in range(n)]
    y = np.array([array[:, 0].mean() for array in arrays])
    for array in arrays:
        array[rng.random(array.shape) < share] = np.nan
        if rng.random() < 0.2:
            array[:, rng.integers(3)] = np.nan
    return bw.from_arrays(arrays, missing=missing, feature_names=["a", "b", "c"]), y


def naive(train, new):
    """The rule, read off the docstring."""
    parts = []
    with warnings.catch_warnings(action="ignore"):  # of a column without values
        fallback = np.nanmedian([np.nanmedian(bag, axis=0) for bag in train], axis=0)
        for bag in new:
            medians = np.nanmedian(bag, axis=0)
            filled = np.where(np.isnan(bag), np.where(np.isnan(medians), fallback, medians), bag)
            parts.append(np.column_stack([filled, np.isnan(bag).mean(axis=1)]))
    return np.concatenate(parts)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_the_rule(dtype):
    (train, _), (new, _) = holed(dtype=dtype), holed(15, seed=1, dtype=dtype)
    imputation = Imputation().fit(train)
    whole = imputation.transform(new)
    rounding = 2 * np.finfo(dtype).eps  # of the middle between two values
    assert_allclose(whole.instances, naive(train, new), rtol=rounding, atol=rounding)
    assert whole.dtype == dtype and whole.feature_names[-1] == "share missing" and not whole.has_missing
    for i in range(len(new)):  # a bag does not depend on the others
        assert_array_equal(imputation.transform(new[[i]]).instances, whole[[i]].instances)


def test_where_nothing_is_missing_nothing_changes():
    bags, _ = bw.datasets.make_gaussian(10, instances=4)
    imputation = Imputation().fit(bags)
    assert not imputation.has_share_
    assert_array_equal(imputation.transform(bags).instances, bags.instances)
    assert not hasattr(bw.method("aggregated").fit(bags, np.arange(10.0)).steps[0][1], "imputation_")


def test_a_column_without_a_value_is_refused():
    bags = bw.from_arrays([[[1.0, np.nan]], [[2.0, np.nan]]], feature_names=["a", "b"], missing="keep")
    with pytest.raises(ValueError, match="column 'b' has only missing values in the training bags.* ignore=\\['b'\\]"):
        Imputation().fit(bags)


@pytest.mark.parametrize("name", ["aggregated", "phase", "statistics", "prime", "instance-kme:ridge"])
def test_declared_bags_are_imputed_by_the_method(name):
    (train, y), (new, _) = holed(80), holed(30, seed=1)
    model = bw.method(name).fit(train, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    imputation = Imputation().fit(train)
    plain = bw.method(name).fit(imputation.transform(train), y)
    assert_array_equal(model.predict(new), plain.predict(imputation.transform(new)))
    arrays = [new.instances[a:b] for a, b in zip(new.offsets, new.offsets[1:], strict=False)]
    assert_array_equal(model.predict(arrays), model.predict(new))  # declared on fit, not again on predict


def test_the_declaration_survives_what_makes_bags_of_bags(tmp_path):
    bags = bw.Bags(np.arange(8.0).reshape(4, 2), [0, 2, 4], missing="impute")
    holes = bags.replace(np.where(bags.instances == 3.0, np.nan, bags.instances))
    derived = (bags[[1]], bags[:1], bags.singles(), bags.with_weights(np.ones(4)), bags.with_covariates([1.0, 2.0]))
    for one in (*derived, holes, pickle.loads(pickle.dumps(bags)), bw.from_arrays(list(bags), missing="impute")):
        assert one.missing == "impute"
    assert holes.has_missing and bw.from_arrays(list(bags)).missing == "refuse"


def test_a_method_fitted_without_gaps_imputes_those_of_later_tables():
    bags, y = bw.datasets.make_problem("mean", 40, random_state=0)
    declared = bw.Bags(bags.instances, bags.offsets, missing="impute")
    holes = bw.Bags(np.where(np.arange(bags.n_features) == 0, np.nan, bags.instances), bags.offsets, missing="keep")
    for model in (bw.method("aggregated"), bw.auto.AutoRegressor(["aggregated", "prime"], folds=3)):
        assert np.isfinite(model.fit(declared, y).predict(holes)).all()
        assert_array_equal(model.predict(declared), model.fit(bags, y).predict(bags))
        with pytest.raises(ParameterError, match="bag 0 .* in column 0.*missing='impute'") as refused:
            model.predict(holes)  # fitted again, on bags that declare nothing
        assert refused.value.parameter == "missing"


def test_each_fold_learns_its_own_imputation():
    bags = bw.Bags([[0.0], [100.0], [200.0], [np.nan]], [0, 1, 2, 3, 4], missing="impute")
    medians = [Imputation().fit(bags[np.arange(4) != k]).medians_[0] for k in range(3)]
    model = bw.Intervals("aggregated", folds=4, level=0.7).fit(bags, [0.0, 1.0, 2.0, 3.0])
    fitted = [one.steps[0][1].imputation_.medians_[0] for one in model.left_out_.models]
    assert sorted(fitted) == sorted([*medians, 100.0])


def test_what_wraps_a_method_passes_the_declaration_on(tmp_path):
    (train, y), (new, _) = holed(60), holed(9, seed=1)
    train = train.with_weights(np.linspace(1, 2, train.n_instances)).with_covariates(np.arange(60.0), ["day"])
    new = new.with_weights(np.ones(new.n_instances)).with_covariates(np.arange(9.0), ["day"])
    model = bw.Intervals(bw.method("aggregated"), level=0.8).fit(train, y)
    assert np.isfinite(model.predict_interval(new)).all()
    bw.save_model(model, tmp_path / "m.bagwise")
    assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(new), model.predict(new))
    parts = bw.explain(model, new)
    assert_allclose(parts.contributions.sum(), model.predict(new).sum(), rtol=1e-9)
    both = bw.MultiTarget(bw.method("statistics:linear")).fit(train, np.column_stack([y, -y]))
    assert np.isfinite(both.predict(new)).all()
    results = bw.evaluate(train, y, ["aggregated", "statistics"], repeats=1, folds=3, tune=False)
    assert np.isfinite(results.summary()["rmse"]).all() and list(results.summary()["cells"]) == [3, 3]


def test_auto_imputes_and_says_so(tmp_path):
    (train, y), (new, _) = holed(60, missing="keep"), holed(9, seed=1)
    model = bw.auto.AutoRegressor(["aggregated", "prime"], folds=3).fit(train, y)
    assert "Missing values were imputed" in model.summary() and np.isfinite(model.predict(new)).all()
    bw.save_model(model, tmp_path / "m.bagwise")
    assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(new), model.predict(new))


@pytest.mark.parametrize("name", ["aggregated", "instance-mean", "phase", "quantile"])
def test_a_method_that_cannot_read_gaps_is_named(name):
    bags, y = holed(missing="keep")
    with pytest.raises(ParameterError, match=rf"bag 0 .*in column 'a'.* {name} cannot read; .*missing='impute'"):
        bw.method(name).fit(bags, y)
    assert np.isfinite(bw.method("statistics").fit(bags, y).predict(bags)).all()  # trees read them


@pytest.mark.parametrize("gaps", [True, False])
def test_the_command_line_imputes_and_remembers(tmp_path, gaps):
    for name, (bags, y) in {"train": holed(60, share=0.2 * gaps), "new": holed(9, seed=1)}.items():
        values = bags.instances if gaps or name == "new" else np.nan_to_num(bags.instances)
        frame = pd.DataFrame(values, columns=bags.feature_names)
        frame.assign(bag=bags.expand(bags.ids), y=bags.expand(y)).to_csv(tmp_path / f"{name}.csv", index=False)
    fit = ["fit", tmp_path / "train.csv", "--bag", "bag", "--target", "y", "--method", "aggregated"]
    fit += ["--out", tmp_path / "m.bagwise"]
    if gaps:
        refused(*fit, words="--missing impute")
    done(*fit, "--missing", "impute")
    done("predict", tmp_path / "m.bagwise", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv").prediction).all()
