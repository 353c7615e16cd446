"""Pandas data indexed by bag ids is put in the order of the bags, by one rule, wherever one value per bag is taken."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

import bagwise as bw
from bagwise.bags.validation import ParameterError, aligned, match_ids

RNG = np.random.default_rng(0)
IDS = [f"s{k:02d}" for k in range(40)]
ARRAYS = [RNG.normal(size=(4, 2)) + k / 10 for k in range(40)]
BAGS = bw.from_arrays(ARRAYS, ids=IDS)
Y = np.arange(40.0)
SHUFFLED = pd.Series(Y, index=IDS).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def model():
    return bw.Intervals("aggregated").fit(BAGS, Y)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, y: model.score(BAGS, y),
        lambda model, y: bw.method("aggregated").fit(BAGS, Y).score(BAGS, y),
        lambda model, y: bw.method("instance-mean").fit(BAGS, Y).score(BAGS, y),
        lambda model, y: bw.method("statistics:forest").fit(BAGS, Y).score(BAGS, Y, sample_weight=1 + y),
        lambda model, y: bw.method("aggregated").fit(BAGS, y).predict(BAGS),
        lambda model, y: bw.method("aggregated").fit(BAGS, Y, sample_weight=1 + y).predict(BAGS),
        lambda model, y: model.predict_distribution(BAGS).crps(y),
        lambda model, y: model.predict_distribution(BAGS).cdf(y),
        lambda model, y: model.held_out_interval(BAGS, y),
        lambda model, y: bw.importance(model, BAGS, y, repeats=2).__dict__,
        lambda model, y: bw.evaluate(BAGS, y, ["aggregated"], repeats=1, folds=2).summary()["rmse"],
        lambda model, y: bw.evaluate(BAGS, Y, ["aggregated"], fold=y // 20).summary()["rmse"],
        lambda model, y: bw.learning_curve("aggregated", BAGS, y, repeats=1, folds=2, sizes=[8, 10, 14, 20]).errors,
        lambda model, y: BAGS.with_covariates(y.to_frame("level")).covariates,
        lambda model, y: BAGS.with_groups(y // 4).groups,
        lambda model, y: bw.from_arrays(ARRAYS, ids=IDS, covariates=y.to_frame("level")).covariates,
        lambda model, y: bw.MultiTarget(bw.method("aggregated")).fit(BAGS, y.to_frame("a").assign(b=-y)).predict(BAGS),
    ],
)
def test_a_series_by_id_gives_what_the_array_gives(model, use):
    in_order = pd.Series(Y, index=IDS)
    assert str(use(model, SHUFFLED)) == str(use(model, in_order))


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ([one.upper() for one in IDS], "contains no bag id.*to_numpy"),
        ([f"{one} " for one in IDS], "contains no bag id.*to_numpy"),
        (np.random.default_rng(0).permutation(40), "contains no bag id.*to_numpy"),
        (pd.MultiIndex.from_arrays([IDS, IDS]), "contains no bag id.*to_numpy"),
        (["x", *IDS[1:]], "holds the ids of 39 of 40 bags, but not 's00'"),
        ([*IDS, "s07"], "The index of y holds 's07' twice"),
        ([*IDS, "x"], "y has 41 values for 40 bags"),
    ],
    ids=["case", "blanks", "shuffled integers", "two levels", "one missing", "one twice", "one more"],
)
def test_an_index_that_does_not_hold_each_id_once_is_an_error(index, match):
    with pytest.raises(ParameterError, match=match) as caught:
        bw.method("aggregated").fit(BAGS, pd.Series(np.resize(Y, len(index)), index=index))
    assert caught.value.parameter == "y"
    with pytest.raises(ParameterError, match="sample_weight"):
        bw.method("aggregated").fit(BAGS, Y, sample_weight=pd.Series(np.resize(Y + 1, len(index)), index=index))


def test_leading_zeros_are_another_id():
    bags = bw.from_arrays(ARRAYS[:3], ids=["007", "008", "009"])
    with pytest.raises(ParameterError, match="'007'"):
        aligned(pd.Series([1.0, 2.0, 3.0], index=[7, 8, 9]), bags)


def test_a_default_index_leaves_the_order_as_it_is():
    """Nor does one of numbers that are not the ids, nor a part of the bags need all of the series."""
    assert aligned(pd.Series(Y), BAGS).tolist() == Y.tolist()
    assert aligned(pd.Series([3.0, 1.0]), bw.from_arrays(ARRAYS[:2], ids=[1, 2])).tolist() == [3.0, 1.0]
    assert aligned(SHUFFLED[["s02", "s00"]], BAGS[[0, 2]]).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("ids", "index"),
    [
        ([0, 1, 2], [2.0, 0.0, 1.0]),
        (
            np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="M8[D]"),
            pd.date_range("2020", periods=3)[[2, 0, 1]],
        ),
        ([date(2020, 1, day) for day in (1, 2, 3)], pd.date_range("2020", periods=3)[[2, 0, 1]]),
        (["é", "a", "b"], ["b", "e\u0301", "a"]),
        (["0", "1", "2"], [2, 0, 1]),
    ],
    ids=["0.0 and 0", "units of dates", "Python dates", "NFC and NFD", "text and numbers"],
)
def test_one_rule_for_ids_in_fit_and_in_a_second_table(ids, index):
    bags = bw.from_arrays(ARRAYS[:3], ids=ids)
    y = pd.Series([30.0, 10.0, 20.0], index=index)
    assert aligned(y, bags).tolist() == [10.0, 20.0, 30.0]
    rows = pd.DataFrame({"bag": bags.expand(bags.ids), "x": bags.instances[:, 0]})
    joined = bw.load(rows, bag="bag", features="x", targets=pd.DataFrame({"bag": index, "y": y.to_numpy()}))[1]
    assert joined.tolist() == [10.0, 20.0, 30.0]


def test_ids_that_one_form_would_make_equal_keep_their_own():
    assert match_ids(["é", "e\u0301"], ["é"]).tolist() == [0, -1]


def test_a_score_of_several_targets_passes_over_missing_ones():
    y = np.column_stack([Y, -Y])
    y[0, 1] = np.nan
    model = bw.MultiTarget(bw.method("aggregated")).fit(BAGS, y)
    parts = [model.estimators_[0].score(BAGS, Y), model.estimators_[1].score(BAGS[1:], -Y[1:])]
    assert model.score(BAGS, y) == pytest.approx(np.mean(parts))
    with pytest.raises(ParameterError, match="targets"):
        model.score(BAGS, np.column_stack([Y, Y, Y]))
