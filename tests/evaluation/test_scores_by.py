"""Scores apart by site or year: equal to those of the label's bags, and honest about few of them."""

import numpy as np
import pytest
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
        ("aggregated", "a", 12),
        ("aggregated", "b", 17),
        ("aggregated", "c", 1),
    ]
    table = {name: np.array(column) for name, column in results.predictions("aggregated").to_dict("list").items()}
    place = {one: i for i, one in enumerate(BAGS.ids.tolist())}
    site = SITE[[place[one] for one in table["bag"].tolist()]]
    parts = [(site == "b") & (table["repeat"] == r) for r in (0, 1)]
    errors = [root_mean_squared_error(table["target"][at], table["prediction"][at]) for at in parts]
    assert rows[1]["rmse"] == pytest.approx(np.mean(errors))
    assert rows[1]["rmse_sd_repeats"] == pytest.approx(np.std(errors, ddof=1))
    assert rows[1]["r2"] == pytest.approx(
        np.mean([r2_score(table["target"][a], table["prediction"][a]) for a in parts])
    )
    gaps = [np.mean(table["prediction"][at] - table["target"][at]) for at in parts]
    assert rows[1]["bias"] == pytest.approx(np.mean(gaps))


def test_one_bag_has_an_error_and_no_correlation(results):
    row = results.rows("scores_by")[2]
    assert row["rmse"] == pytest.approx(row["mae"]) and row["r2"] is row["spearman"] is row["kendall"] is None
    notes = results.by_notes()
    assert "1 of 3 labels of site have one bag (first: c)" in notes[0]
    assert "2 of 3 labels of site had bags in training" in notes[1] and "Give it as groups" in notes[1]


def test_intervals_have_every_metric_of_uncertainty_but_nll(results):
    found = results.rows("summary")
    assert all(found[0][name] is None for name in ("nll", "crps", "pinball", "interval90", "coverage90"))
    assert found[1]["nll"] is None and 0.6 < found[1]["coverage90"] <= 1 and 0 < found[1]["crps"] < found[1]["mae"]
    cell = results.cell("intervals", results.splits[0])
    train = np.setdiff1d(np.arange(30), cell["bags"])
    model = bw.Intervals("aggregated", folds=3).fit(BAGS[train], Y[train])
    test = BAGS[cell["bags"]]
    np.testing.assert_allclose(cell["uncertainty"]["bounds"], model.predict_interval(test, level=0.9))
    expected = model.predict_distribution(test).crps(Y[cell["bags"]]).mean()
    assert cell["scores"]["crps"] == [pytest.approx(expected)]
    pooled = results.pooled("intervals", "crps")
    assert pooled.shape == (2,) and pooled.mean() == pytest.approx(found[1]["crps"], rel=0.2)


def test_whole_groups_need_no_warning_and_groups_are_a_label():
    bags = bw.Bags(BAGS.instances, BAGS.offsets, groups=np.arange(30) // 5)
    found = evaluate(bags, Y, ["aggregated"], repeats=1, folds=3, by="groups")
    assert found.by_notes() == [] and list(found.scores_by()["group"]) == list(range(6))
    assert list(found.scores_by(SITE)["label"]) == ["a", "b", "c"]


def test_they_are_kept_in_the_folder(tmp_path):
    evaluate(BAGS, Y, ["aggregated"], repeats=1, folds=3, by=SITE, out=tmp_path)
    again = Results.load(tmp_path)
    assert again.by["name"] == "label" and list(again.scores_by()["bags"]) == [12, 17, 1]
    assert (tmp_path / "scores_by.csv").read_text().startswith("method,label,bags,repeats,bias,rmse")


def test_results_of_a_version_with_fewer_metrics_still_open(results):
    cells = [results.ran("aggregated", split) for split in results.splits]
    old = [cell | {"scores": {k: v for k, v in cell["scores"].items() if k != "kendall"}} for cell in cells]
    for cell in old:
        del cell["uncertainty"]
    record = results.record | {"methods": {"aggregated": results.record["methods"]["aggregated"]}}
    found = Results({k: v for k, v in record.items() if k != "by"}, old)
    assert np.isnan(found.summary()["kendall"]).all() and np.isnan(found.table().to_dict("list")["kendall"]).all()
    assert found.by is None and found.pooled("aggregated").shape == (2,)


def test_what_is_refused(results):
    with pytest.raises(ValueError, match="by='groups' needs bags with groups"):
        evaluate(BAGS, Y, ["aggregated"], by="groups")
    with pytest.raises(ValueError, match="one label per bag, {name: labels} or 'groups', not 'site'"):
        evaluate(BAGS, Y, ["aggregated"], by="site")
    with pytest.raises(ValueError, match=r"by must have one label per bag \(30\), not shape \(2,\)"):
        evaluate(BAGS, Y, ["aggregated"], by=["a", "b"])
    with pytest.raises(ValueError, match="by takes one set of labels, not 2"):
        evaluate(BAGS, Y, ["aggregated"], by={"a": SITE, "b": SITE})
    with pytest.raises(ValueError, match=r"one label for each of 30 bags, not shape \(3,\)"):
        results.scores_by(["a", "b", "c"])
    plain = Results({k: v for k, v in results.record.items() if k != "by"}, [])
    with pytest.raises(ValueError, match="nothing to score apart by; give labels"):
        plain.scores_by()


def test_a_method_without_kept_predictions_is_named():
    space = {"head__penalties": [(1.0,), (10.0,)]}
    found = evaluate(
        BAGS,
        Y,
        [("searched", bw.EmbeddingRidge(), space), "aggregated"],
        repeats=1,
        folds=3,
        selection="paper",
        by=SITE,
        tune=False,
    )
    assert set(found.scores_by()["method"]) == {"aggregated"}
    assert "searched has no scores by label: its predictions are not kept" in found.by_notes()[0]
