"""Scores by site or year equal the scores of the bags of each label, and notes name labels with few bags."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import r2_score, root_mean_squared_error

import bagwise as bw
from bagwise.evaluation import Results, evaluate
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
SITE = np.array(["a"] * 12 + ["b"] * 17 + ["c"])


@pytest.fixture(scope="module")
def results():
    methods = ["aggregated", ("intervals", bw.Intervals("aggregated", folds=3))]
    return evaluate(BAGS, Y, methods, repeats=2, folds=3, by={"site": SITE})


def test_they_are_the_scores_of_the_labels_bags(results):
    rows = results.rows("scores_by")
    assert [(row["method"], row["site"], row["bags"]) for row in rows[:3]] == [
        ("aggregated", site, bags) for site, bags in (("a", 12), ("b", 17), ("c", 1))
    ]
    table = results.predictions("aggregated")
    table = table[SITE[np.searchsorted(BAGS.ids, table["bag"])] == "b"]
    parts = [(part["target"], part["prediction"]) for _, part in table.groupby("repeat")]
    errors = [root_mean_squared_error(*part) for part in parts]
    found = [rows[1][name] for name in ("rmse", "rmse_sd_repeats", "r2", "bias")]
    r2, bias = (np.mean([of(*part) for part in parts]) for of in (r2_score, lambda y, p: np.mean(p - y)))
    assert found == pytest.approx([np.mean(errors), np.std(errors, ddof=1), r2, bias])


def test_one_bag_has_an_error_and_no_correlation(results):
    row = results.rows("scores_by")[2]
    assert row["rmse"] == pytest.approx(row["mae"]) and row["r2"] is row["spearman"] is row["kendall"] is None
    notes = results.by_notes()
    assert "1 of 3 labels of site have one bag (first: c)" in notes[0]
    assert "2 of 3 labels of site had bags both" in notes[1] and "pass the labels as groups" in notes[1]


def test_intervals_have_every_metric_of_uncertainty_but_nll(results):
    found = results.rows("summary")
    assert all(found[0][name] is None for name in ("nll", "crps", "pinball", "interval_score", "coverage"))
    assert found[1]["nll"] is None and 0.6 < found[1]["coverage"] <= 1 and 0 < found[1]["crps"] < found[1]["mae"]
    cell = results.cell("intervals", results.splits[0])
    train = np.setdiff1d(np.arange(30), cell["bags"])
    model = bw.Intervals("aggregated", folds=3).fit(BAGS[train], Y[train])
    test = BAGS[cell["bags"]]
    np.testing.assert_allclose(cell["uncertainty"]["bounds"], model.predict_interval(test, level=0.9))
    expected = model.predict_distribution(test).crps(Y[cell["bags"]]).mean()
    assert cell["scores"]["crps"] == [pytest.approx(expected)]
    pooled = results.pooled("intervals", "crps")
    assert pooled.shape == (2,) and pooled.mean() == pytest.approx(found[1]["crps"], rel=0.2)


def test_intervals_are_judged_at_the_level_that_is_asked_for(tmp_path):
    methods = ["blr", ("intervals", bw.Intervals("aggregated", folds=3))]
    found = evaluate(BAGS, Y, methods, repeats=1, folds=3, level=0.5, metric="coverage", by=SITE, out=tmp_path)
    cell = found.cell("blr", found.splits[0])
    inside = np.abs(np.subtract(cell["predictions"], cell["targets"])) <= norm.ppf(0.75) * np.array(cell["std"])
    assert cell["scores"]["coverage"] == [inside.mean()]
    cell = found.cell("intervals", found.splits[0])
    train = np.setdiff1d(np.arange(30), cell["bags"])
    model = bw.Intervals("aggregated", folds=3).fit(BAGS[train], Y[train])
    np.testing.assert_allclose(cell["uncertainty"]["bounds"], model.predict_interval(BAGS[cell["bags"]], level=0.5))
    again = Results.load(tmp_path)
    assert again.level == 0.5 and again.rows("scores_by") == found.rows("scores_by")
    gaps = {row["method"]: abs(row["coverage"] - 0.5) for row in found.ranked()}
    assert gaps[found.best_method()] == min(gaps.values())
    assert "50\u00a0% intervals" in bw.reports.write_report(tmp_path, tmp_path / "r.html", explore=False).read_text()
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, not 90"):
        evaluate(BAGS, Y, methods, level=90)


def test_whole_groups_need_no_warning_and_groups_are_a_label():
    bags = bw.Bags(BAGS.instances, BAGS.offsets, groups=np.arange(30) // 5)
    found = evaluate(bags, Y, ["aggregated"], repeats=1, folds=3, by="groups")
    assert found.by_notes() == [] and list(found.scores_by()["group"]) == list(range(6))
    shuffled = pd.Series(SITE, index=BAGS.ids)[::-1]  # in the order of its index, not of the bags
    for labels in (SITE, shuffled):
        assert list(found.scores_by(labels)["bags"]) == [12, 17, 1]


def test_they_are_kept_in_the_folder(tmp_path):
    evaluate(BAGS, Y, ["aggregated"], repeats=1, folds=3, by=SITE, out=tmp_path)
    again = Results.load(tmp_path)
    assert again.by["name"] == "label" and list(again.scores_by()["bags"]) == [12, 17, 1]
    assert (tmp_path / "scores_by.csv").read_text().startswith("method,label,bags,repeats,bias,rmse")


def test_what_is_refused(results):
    with pytest.raises(ValueError, match="by='groups' needs bags with groups"):
        evaluate(BAGS, Y, ["aggregated"], by="groups")
    with pytest.raises(ValueError, match="one label per bag, {name: labels} or 'groups', not 'site'"):
        evaluate(BAGS, Y, ["aggregated"], by="site")
    with pytest.raises(ValueError, match=r"by must have one label per bag \(30\), not shape \(2,\)"):
        evaluate(BAGS, Y, ["aggregated"], by=["a", "b"])
    with pytest.raises(ValueError, match="by takes one set of labels, not 2"):
        evaluate(BAGS, Y, ["aggregated"], by={"a": SITE, "b": SITE})
    with pytest.raises(ValueError, match=r"one label per bag .30., not shape \(3,\)"):
        results.scores_by(["a", "b", "c"])
    plain = Results({k: v for k, v in results.record.items() if k != "by"}, [])
    with pytest.raises(ValueError, match="Labels are required"):
        plain.scores_by()


def test_a_method_without_kept_predictions_is_named():
    searched = ("searched", bw.EmbeddingRidge(), {"head__penalties": [(1.0,), (10.0,)]})
    how = {"repeats": 1, "folds": 3, "selection": "paper", "tune": False}
    found = evaluate(BAGS, Y, [searched, "aggregated"], by=SITE, **how)
    assert set(found.scores_by()["method"]) == {"aggregated"}
    assert "searched has no scores by label, because its predictions are not stored" in found.by_notes()[0]
