"""`predict_subset`: equal to the mean of a function over the part; refused where there is no such function."""

import warnings

import numpy as np
import pytest

import bagwise as bw
from bagwise.explanations.subset_predictions import ADDITIVE
from bagwise.io.conditions import as_where
from bagwise.regressors.pipeline import without_limits


def districts(n=60, *, seed=0, columns=2):
    """People with an age and an income; the target of a district is the mean of 0.02 age - 0.3 income."""
    rng = np.random.default_rng(seed)
    arrays = []
    for centre in rng.uniform(30, 60, size=n):
        age = rng.normal(centre, 12, size=rng.integers(10, 30))
        arrays.append(np.column_stack([age, rng.normal(size=len(age)) + centre / 40])[:, :columns])
    bags = bw.from_arrays(arrays, feature_names=["age", "income"][:columns])
    return bags, np.array([np.mean(0.02 * bag[:, 0] - 0.3 * bag[:, -1]) for bag in arrays])


BAGS, Y = districts()


def test_linear_truth_is_found_in_the_part():
    model = bw.method("aggregated").fit(BAGS, Y)
    with pytest.warns(UserWarning, match="1 of 60 bags have no instance .* they are left out"):
        found = bw.predict_subset(model, BAGS, "age > 40 and income <= 1.5")
    chosen = [bag[(bag[:, 0] > 40) & (bag[:, 1] <= 1.5)] for bag in BAGS]
    kept = [i for i, bag in enumerate(chosen) if len(bag)]
    truth = [np.mean(0.02 * chosen[i][:, 0] - 0.3 * chosen[i][:, 1]) for i in kept]
    assert found.ids.tolist() == kept and found.left_out.tolist() == [i for i in range(60) if i not in kept]
    np.testing.assert_allclose(found.prediction, truth, atol=0.02)
    assert found.instances.tolist() == [len(chosen[i]) for i in kept]


def naive(model, bags, mask):
    """Return the predictions of single instances without limits, averaged over the part by weights."""
    model, values, shares = without_limits(model), [], bags.shares()
    for i in range(len(bags)):
        rows = [row for row in range(bags.offsets[i], bags.offsets[i + 1]) if mask[row]]
        alone = [model.predict(one_instance(bags, i, row))[0] for row in rows]
        values.append(np.average(alone, weights=shares[rows]))
    return values


def one_instance(bags, i, row):
    one = bw.Bags(bags.instances[[row]], [0, 1], feature_names=bags.feature_names)
    return one if bags.covariates is None else one.with_covariates(bags.covariates[[i]], bags.covariate_names)


def test_equal_to_single_instances_with_weights_and_covariates():
    bags, y = districts(24, seed=1)
    bags = bags.with_weights(np.random.default_rng(2).uniform(0.5, 2, size=bags.n_instances))
    bags = bags.with_covariates(np.random.default_rng(3).normal(size=(24, 1)), ["height"])
    model = bw.method("aggregated").fit(bags, y + bags.covariates[:, 0])
    mask = np.arange(bags.n_instances) % 3 == 0
    found = bw.predict_subset(model, bags, mask)
    np.testing.assert_allclose(found.prediction, naive(model, bags, mask), rtol=1e-8)
    rest = bw.predict_subset(model, bags, ~mask)
    whole = found.share * found.prediction + rest.share * rest.prediction
    np.testing.assert_allclose(whole, model.predict(bags), rtol=1e-8)
    high = bw.predict_subset(model, bags, "height > -100 and age > -100")
    np.testing.assert_allclose(high.prediction, model.predict(bags), rtol=1e-8)


def test_a_method_with_standard_deviations_gives_those_of_the_part():
    model = bw.method("blr").fit(BAGS, Y)
    mask = BAGS.instances[:, 0] > 30
    found = bw.predict_subset(model, BAGS[:5], mask[BAGS.rows(range(5))])
    part = bw.from_arrays([bag[bag[:, 0] > 30] for bag in BAGS[:5]], feature_names=["age", "income"])
    mean, std = model.predict(part, return_std=True)
    np.testing.assert_allclose(found.prediction, mean, rtol=1e-10)
    np.testing.assert_allclose(found.std, std, rtol=1e-10)
    np.testing.assert_allclose(found.std_of_mean**2 + model.noise_std_**2, std**2, rtol=1e-10)
    assert list(found.table()) == ["bag", "prediction", "std", "std_of_mean", "share", "instances"]


def made(name):
    method, _, preset = name.partition(":")
    return bw.method(method, preset=preset) if preset else bw.method(method)


OTHERS = [name for name in bw.method_names() if name not in (*ADDITIVE, "auto", "input-kme")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDITIVE)
def test_methods_that_the_error_names_can(name):
    model = made(name).fit(BAGS, Y)
    mask = np.arange(BAGS.n_instances) % 2 == 0
    np.testing.assert_allclose(
        bw.predict_subset(model, BAGS[:4], mask[: BAGS.offsets[4]]).prediction,
        naive(model, BAGS[:4], mask),
        rtol=1e-5,
        atol=1e-6,
    )


REFUSED = [pytest.param(name, marks=[pytest.mark.slow] * (name != "statistics")) for name in OTHERS]


@pytest.mark.parametrize("name", REFUSED)
def test_other_methods_are_refused(name):
    model = bw.method(name).fit(BAGS, Y)
    with pytest.raises(ValueError, match="is not a sum over instances.* methods that can: aggregated, instance-mean"):
        bw.predict_subset(model, BAGS, "age > 40")


def test_conditions_on_kept_columns_of_a_table():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(BAGS.instances, columns=["age", "income"]).assign(
        bag=BAGS.expand(BAGS.ids), y=BAGS.expand(Y), sex=np.arange(BAGS.n_instances) % 2 + 1, job="none"
    )
    frame.loc[::3, "job"] = "miller"
    frame["born"] = pd.Timestamp("1990-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="D")
    bags, y = bw.load(frame, bag="bag", target="y", keep=["sex", "job", "born"], features=["age", "income"])
    model = bw.method("aggregated").fit(bags, y)
    for where, mask in {
        "sex == 2": frame.sex == 2,
        "sex != 2 and age > 30": (frame.sex != 2) & (frame.age > 30),
        "job in ('miller', 'smith')": frame.job == "miller",
        "born < '1990-06-01' and job == 'none'": (frame.born < "1990-06-01") & (frame.job == "none"),
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, by_mask = (bw.predict_subset(model, bags, one) for one in (where, mask.to_numpy()))
        assert found.prediction.tolist() == by_mask.prediction.tolist()
    either = bw.predict_subset(model, bags, [[("sex", "==", 2)], [("age", ">", 30)]])
    assert either.instances.sum() == ((frame.sex == 2) | (frame.age > 30)).sum()


def test_a_missing_value_satisfies_no_condition():
    columns = {"x": np.array([1.0, np.nan, 3.0]), "t": np.array(["a", None, "b"], dtype=object), "n": np.arange(3)}
    for where, rows in {
        "x != 1": [2],
        "x not in (1, 2)": [2],
        "x < 9": [0, 2],
        "t != 'a'": [2],
        "t >= 'a'": [0, 2],
        "n = 1": [1],
    }.items():
        assert np.flatnonzero(as_where(where).holds(columns)).tolist() == rows


def test_what_is_refused():
    model = bw.method("aggregated").fit(BAGS, Y)
    with pytest.raises(ValueError, match="there is no column 'sex'; there are age, income"):
        bw.predict_subset(model, BAGS, "sex == 2")
    with pytest.raises(ValueError, match="column 'age' is double and cannot be == 'old'"):
        bw.predict_subset(model, BAGS, "age == 'old'")
    with pytest.raises(ValueError, match="no instance of 60 bags satisfies where='age > 900'"):
        bw.predict_subset(model, BAGS, "age > 900")
    with pytest.raises(ValueError, match="cannot be read from .__import__"):
        bw.predict_subset(model, BAGS, "__import__('os')")
    with pytest.raises(ValueError, match="one truth value for each of .* instances, not an array of float64"):
        bw.predict_subset(model, BAGS, np.zeros(3))
    text = as_where("t > 1")
    with pytest.raises(ValueError, match="column 't' is string and cannot be > 1"):
        text.holds({"t": np.array(["a"])})
    with pytest.raises(ValueError, match="column 't' is date32.* and cannot be > 'soon'"):
        as_where("t > 'soon'").holds({"t": np.array(["2020-01-01"], dtype="datetime64[D]")})
    with pytest.warns(UserWarning, match=r"of 60 bags have no instance that satisfies the condition \(first: "):
        bw.predict_subset(model, BAGS, "age > 75")


def test_districts_have_a_known_truth():
    """Subgroups of simulated districts are predicted much better than by the total of the district."""
    bags, y = bw.datasets.make_districts(100)
    found = bw.predict_subset(bw.method("aggregated").fit(bags, y), bags, "sex == 2 and age > 45")
    women = (bags.instances[:, 1] == 2) & (bags.instances[:, 0] > 45)
    truth = np.array([bags.kept["chance"][bags.rows([i])][women[bags.rows([i])]].mean() for i in found.ids])
    assert np.sqrt(np.mean((found.prediction - truth) ** 2)) < 0.3 * np.sqrt(np.mean((y[found.ids] - truth) ** 2))
    assert np.abs(y - [bags.kept["chance"][bags.rows([i])].mean() for i in range(100)]).max() < 0.2
