"""Paired tests: the correction of Nadeau and Bengio, Holm, ranks."""

import re

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, ttest_1samp
from scipy.stats import t as student
from sklearn.model_selection import KFold
from tests.helpers.toy_estimators import SeededTicket, TrainMean

from bagwise.evaluation import corrected_t_test, evaluate, holm
from bagwise.evaluation.comparison import average_ranks, contenders
from bagwise.testing.contract_checks import sample

rng = np.random.default_rng(0)


def test_the_correction_by_hand():
    d = rng.normal(0.3, size=50)
    found = corrected_t_test(d, n_train=80, n_test=20)
    statistic = d.mean() / np.sqrt((1 / 50 + 20 / 80) * d.var(ddof=1))
    assert (found.mean, found.t) == pytest.approx((d.mean(), statistic))
    assert found.p == pytest.approx(2 * student.sf(abs(statistic), 49))


@pytest.mark.parametrize(("d", "p"), [([0.0, 0.0], 1.0), ([1.0, 1.0], 0.0)])
def test_the_same_difference_on_every_fold(d, p):
    assert corrected_t_test(d, n_train=4, n_test=1).p == p


def test_one_fold_says_nothing():
    assert np.isnan(corrected_t_test([0.5], n_train=4, n_test=1).p)


def fold_errors(x, y, splits):
    lines = [np.polyfit(x[train], y[train], 1) for train, _ in splits]
    tests = [test for _, test in splits]
    return np.array([np.mean((np.polyval(line, x[t]) - y[t]) ** 2) for line, t in zip(lines, tests, strict=True)])


def test_false_alarms_are_rare_on_repeated_folds():
    """Two useless methods on fresh noise: the plain test cries wolf, the corrected one seldom does."""
    plain, corrected = 0, 0
    for seed in range(100):
        noise = np.random.default_rng(seed)
        y = noise.normal(size=40)
        splits = [pair for r in range(10) for pair in KFold(4, shuffle=True, random_state=r).split(y)]
        d = fold_errors(noise.normal(size=40), y, splits) - fold_errors(noise.normal(size=40), y, splits)
        plain += ttest_1samp(d, 0).pvalue < 0.05
        corrected += corrected_t_test(d, n_train=30, n_test=10).p < 0.05
    assert corrected <= 11 < plain  # 5 are due; more than 11 have a chance of 0.4 %


def test_holm_leaves_one_alone_and_ignores_nan():
    assert holm([0.03]).tolist() == [0.03]
    np.testing.assert_allclose(holm([0.01, np.nan, 0.02]), [0.02, np.nan, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_average_ranks_are_those_of_friedman():
    losses = rng.normal(size=(12, 4))
    ranks = average_ranks(losses)
    statistic = 12 * 12 / (4 * 5) * np.sum((ranks - 2.5) ** 2)
    assert statistic == pytest.approx(friedmanchisquare(*losses.T).statistic)
    assert np.isnan(average_ranks(np.full((2, 2), np.nan))).all()


def test_results_compare_against_one_or_all():
    bags, y = sample(30)
    results = evaluate(bags, y, ["aggregated", ("mean", TrainMean()), ("off", TrainMean(shift=1.0))], repeats=2)
    assert results.distinct_splits().tolist() == list(range(10))
    values, summary = results.values("aggregated"), results.summary()
    assert summary["rmse_sd_folds"][0] == pytest.approx(values.std(ddof=1))
    assert summary["rmse_sd_repeats"][0] == pytest.approx(values.reshape(2, 5).mean(axis=1).std(ddof=1))
    every, one = results.compare(), results.compare(reference="mean", metric="mae")
    assert len(every["p"]) == 3 and (np.array(every["p_holm"]) >= every["p"]).all()
    assert list(one["method"]) == ["aggregated", "off"] and list(one["metric"]) == ["mae"] * 2
    assert one["difference"][0] == pytest.approx(
        (results.values("aggregated", "mae") - results.values("mean", "mae")).mean()
    )
    assert results.summary()["rank"][0] == 1.0


# Repeats of fixed splits vary only the seed ------------------------------------------------------------------------


FIXED = {"split": {"split": ["train"] * 20 + ["test"] * 10}, "folds": {"fold": [k % 3 for k in range(30)]}}


@pytest.mark.parametrize("how", FIXED)
def test_repeating_fixed_splits_adds_no_evidence(how):
    """Methods without a seed: ten repeats tell exactly what one does."""
    bags, y = sample(30)
    methods = ["aggregated", ("mean", TrainMean()), ("off", TrainMean(shift=0.01))]
    once, often = (evaluate(bags, y, methods, repeats=repeats, **FIXED[how]) for repeats in (1, 10))
    assert often.distinct_splits().tolist() == once.distinct_splits().tolist() * 10
    assert list(often.compare()["splits"]) == list(once.compare()["splits"]) == [{"split": 1, "folds": 3}[how]] * 3
    for name in ("difference", "standard_error", "p", "p_holm"):
        np.testing.assert_allclose(often.compare()[name], once.compare()[name], rtol=1e-6)
    for name in ("rmse", "rmse_sd_folds", "rank"):
        np.testing.assert_allclose(often.summary()[name], once.summary()[name], rtol=1e-12)
    np.testing.assert_allclose(often.summary()["rmse_sd_repeats"], 0, atol=1e-12)
    assert np.isnan(often.compare()["p"]).all() == (how == "split")


def test_deviations_over_fixed_folds_are_of_folds_and_of_seeds():
    bags, y = sample(30)
    results = evaluate(bags, y, [("ticket", SeededTicket()), ("mean", TrainMean())], repeats=4, **FIXED["folds"])
    values = results.values("ticket").reshape(4, 3)
    summary = results.summary()
    assert summary["rmse_sd_folds"][0] == pytest.approx(values.mean(axis=0).std(ddof=1))
    assert summary["rmse_sd_repeats"][0] == pytest.approx(values.mean(axis=1).std(ddof=1)) and summary["cells"][0] == 12
    gaps = (results.values("ticket") - results.values("mean")).reshape(4, 3).mean(axis=0)
    assert list(results.compare()["p"]) == pytest.approx([corrected_t_test(gaps, n_train=20, n_test=10).p])


def test_a_split_that_nobody_has_a_value_on_counts_against_nobody():
    losses = np.array([[0.1, 0.2], [np.nan, np.nan], [0.3, np.nan]])
    assert [mask.tolist() for mask in contenders(losses)] == [[True, False], [True, False, True]]
    assert average_ranks(losses[:2]).tolist() == [1.0, 2.0]
    assert [mask.any() for mask in contenders(np.full((2, 2), np.nan))] == [False, False]


def test_results_print_as_a_table_with_the_best_method_first():
    """They printed as the address of an object."""
    bags, y = sample(30)
    results = evaluate(bags, y, [("worse <b>", TrainMean(shift=9.0)), "aggregated"], repeats=2, folds=3)
    title, head, *rows = repr(results).splitlines()
    assert title == results.title() and head.split()[:2] == ["method", "rmse"]
    assert [row.split("  ")[0] for row in rows] == ["aggregated", "worse <b>"]
    assert str(results) == repr(results)
    page = results._repr_html_()
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert page.count("<tr>") == 3 and cells[0] == "aggregated" and "worse &lt;b&gt;" in cells
    assert cells[1] == f"{results.summary()['rmse'][1]:.4g}"


def test_summary_and_comparison_are_data_frames(monkeypatch):
    """Of pandas, else of polars, else dicts of columns, with the same numbers as the rows."""
    results, found = evaluate(*sample(30), ["aggregated", ("mean", TrainMean())], repeats=1), set()
    for there in (("pandas", "polars"), ("polars",), ()):
        monkeypatch.setattr("bagwise.bags.frames.find_spec", lambda name, there=there: name if name in there else None)
        tables = results.summary(), results.compare()
        assert {type(table).__module__.split(".")[0] for table in tables} == {there[0] if there else "builtins"}
        found.add(str([[name, list(table[name])] for table in tables for name in (table.columns if there else table)]))
        assert results.rows("summary")[1]["rmse"] == tables[0]["rmse"][1]
        assert results.rows("compare")[0]["p"] == tables[1]["p"][0]
    assert len(found) == 1
