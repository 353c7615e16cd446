"""evaluate: the whole way from bags to tables."""

import csv
import json

import numpy as np
import pyarrow.parquet as parquet
import pytest
from sklearn.model_selection import cross_val_score
from tests.helpers.toy_estimators import Failing, RandomDirection, Spread, TrainMean

import bagwise as bw
from bagwise.bags import BagKFold
from bagwise.evaluation import Results, evaluate
from bagwise.methods import catalogue
from bagwise.model_files.store import Store
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)


def test_scores_equal_cross_val_score_on_fixed_folds():
    fold = np.empty(40, dtype=int)
    for k, (_, test) in enumerate(BagKFold(4).split(BAGS)):
        fold[test] = k
    results = evaluate(BAGS, Y, "aggregated", fold=fold)
    scoring = "neg_root_mean_squared_error"
    expected = -cross_val_score(bw.method("aggregated"), BAGS, Y, cv=BagKFold(4), scoring=scoring)
    np.testing.assert_allclose(results.values("aggregated"), expected, rtol=1e-12)


def test_every_method_has_every_split_and_the_same_call_gives_the_same_numbers():
    call = {"methods": [("random", RandomDirection()), "aggregated"], "repeats": 2, "folds": 3}
    results, again = (evaluate(BAGS, Y, **call) for _ in range(2))
    rows = [[row | {"seconds": 0, "memory_mb": 0} for row in found.rows("table")] for found in (results, again)]
    where = [(row["method"], row["repeat"], row["fold"]) for row in rows[0]]
    assert where == [(m, r, k) for m in ("random", "aggregated") for r in range(2) for k in range(3)]
    assert rows[0] == rows[1] and results.missing == 0 and results.failures == []


def test_distributions_are_scored_where_there_are_any():
    results = evaluate(BAGS, Y, [("mean", TrainMean()), ("spread", Spread())], repeats=1)
    mean, spread = results.values("mean", "nll"), results.values("spread", "nll")
    assert np.isnan(mean).all() and np.isfinite(spread).all()
    assert 0.5 < results.values("spread", "coverage").mean() <= 1


def test_a_failing_cell_is_recorded_and_stops_nobody():
    results = evaluate(BAGS, Y, [("fails", Failing(needs=7)), "aggregated"], repeats=1)
    ((method, repeat, fold, error),) = results.failures
    assert (method, repeat) == ("fails", 0) and error.startswith("ArithmeticError: the sums do not add up\n(in fit,")
    assert list(results.summary()["cells"]) == [4, 5] and list(results.summary()["failed"]) == [1, 0]
    assert list(results.compare()["splits"]) == [4]
    assert np.isnan(results.values("fails")).tolist() == [k == fold for k in range(5)]
    odd = evaluate(BAGS, Y, [("odd", TrainMean(shift=float("inf")))], repeats=1)
    assert "has a prediction that is not a finite number" in odd.failures[0][3] and odd.rows("summary")[0]["cells"] == 0


def test_paper_selection_takes_the_best_setting_and_says_so_everywhere(tmp_path):
    methods = [("mean", TrainMean(), {"shift": [3.0, 0.0, -3.0]}), ("fixed", TrainMean())]
    results = evaluate(BAGS, Y, methods, repeats=2, selection="paper", out=tmp_path)
    assert results.scores("mean").shape == (10, 3)
    np.testing.assert_array_equal(results.values("mean"), results.scores("mean")[:, 1])
    np.testing.assert_array_equal(results.values("mean"), results.values("fixed"))
    assert list(results.table()["settings"]) == [3] * 10 + [1] * 10
    for name in ("results", "summary", "comparisons"):
        rows = list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines()))
        labels = {(row["method"], row["selection"]) for row in rows}
        labels |= {(row["reference"], row["reference_selection"]) for row in rows if name == "comparisons"}
        assert labels == {("mean", "paper (optimistic)"), ("fixed", "none")}
    assert "optimistic" in str(results)
    assert json.loads((tmp_path / "plan.json").read_text())["selection"] == "paper"


def test_a_search_space_of_the_catalogue_is_searched(monkeypatch):
    card = catalogue.Card(
        "toy", "", "", "", "", {"default": lambda **_: TrainMean()}, search_space={"shift": [9.0, 0.0]}
    )
    monkeypatch.setitem(catalogue.CATALOGUE, "toy", card)
    results = evaluate(BAGS, Y, "toy", repeats=1)
    assert list(results.table()["setting"]) == ["shift=0.0"] * 5
    assert list(evaluate(BAGS, Y, "toy", repeats=1, tune=False).table()["setting"]) == [""] * 5


def test_pooled_scores_and_predictions():
    results = evaluate(BAGS, Y, ["aggregated"], repeats=2)
    rows = results.predictions("aggregated")
    assert sorted(rows["bag"]) == sorted(2 * BAGS.ids.tolist())
    assert list(rows["size"]) == [BAGS.sizes[bag] for bag in rows["bag"]]
    first = np.array(rows["repeat"]) == 0
    errors = (np.array(rows["target"]) - np.array(rows["prediction"]))[first]
    assert results.pooled("aggregated")[0] == pytest.approx(np.sqrt(np.mean(errors**2)))
    searched = evaluate(BAGS, Y, [("m", TrainMean(), {"shift": [0.0, 1.0]})], repeats=1, selection="paper")
    with pytest.raises(ValueError, match="There are no stored predictions of 'm'"):
        searched.pooled("m")


def test_a_folder_can_be_read_again(tmp_path):
    results = evaluate(BAGS, Y, ["aggregated", ("mean", TrainMean())], repeats=1, out=tmp_path)
    assert Results.load(tmp_path).rows("table") == results.rows("table")
    assert parquet.read_table(tmp_path / "results.parquet")["rmse"].to_pylist() == list(results.table()["rmse"])


def test_progress_counts_cells_and_knows_the_best():
    steps = []
    evaluate(BAGS, Y, [("bad", TrainMean(shift=9.0)), "aggregated"], repeats=1, progress=steps.append)
    assert [step.done for step in steps] == list(range(11))
    assert steps[0].best is None and steps[-1].best == "aggregated" and steps[-1].seconds_left == 0


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        ([], {}, "there is no method to evaluate"),
        (["agregated"], {}, "there is no method 'agregated'; did you mean 'aggregated'"),
        (["aggregated:best"], {}, "aggregated has no preset 'best'"),
        (["aggregated", "aggregated"], {}, "two methods are called 'aggregated'"),
        ([("mean", TrainMean)], {}, "a method is a name"),
        ([TrainMean()], {}, r"a method is a name.*; write \('a label', TrainMean\(...\)\)"),
        (["aggregated"], {"selection": "best"}, "selection must be 'nested' or 'paper', not 'best'"),
        (["aggregated"], {"metric": "mse"}, "there is no metric 'mse'"),
    ],
)
def test_refusals(methods, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        evaluate(BAGS, Y, methods, **options)


def test_unknown_names_are_refused_by_results(tmp_path):
    results = evaluate(BAGS, Y, "aggregated", repeats=1)
    with pytest.raises(ValueError, match="There are no results of 'x'. The methods are aggregated"):
        results.compare(reference="x")
    with pytest.raises(ValueError, match="has no plan.json"):
        Results.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file; finished work needs a folder"):
        Store(tmp_path / "file")
