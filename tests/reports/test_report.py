"""The report of a run: its numbers are those of the results, and what is missing is told."""

import numpy as np
import pandas as pd
import pytest
from tests.helpers.page_reading import Report
from tests.helpers.toy_runs import END, HOSTILE, IMAGE, SCRIPT, MeanOfFirst, hostile_run, instance_kme

import bagwise as bw
from bagwise.io.table_output import shown, shown_p
from bagwise.reports import write_model_report, write_report
from bagwise.reports.findings import best_verdict
from bagwise.testing.contract_checks import sample

METHODS = ["aggregated", ("by hand", MeanOfFirst()), ("poor", MeanOfFirst(slope=-1.0))]


@pytest.fixture(scope="module")
def data():
    return sample(40)


@pytest.fixture(scope="module")
def results(data):
    return bw.evaluate(*data, METHODS, repeats=2, folds=4, name="toy")


@pytest.fixture(scope="module")
def report(data, results, tmp_path_factory):
    bags, y = data
    return Report(write_report(results, tmp_path_factory.mktemp("report") / "toy.html", bags=bags, y=y))


def write(results, tmp_path, **options):
    return Report(write_report(results, tmp_path / "report.html", **options))


# What it says ---------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_results(results, report):
    rows = {row["method"]: row for row in results.ranked()}
    for name, rmse, gap, p in zip(
        report.words("methods", "method"),
        report.values("methods", "RMSE"),
        report.values("methods", "from best"),
        report.values("methods", "p"),
        strict=True,
    ):
        assert rmse == rows[name]["rmse"] and gap == rows[name]["from_best"] and p == rows[name]["p_holm"]
    assert report.values("methods", "RMSE") == sorted(results.summary()["rmse"])
    assert report.values("pairs", "difference") == list(results.compare()["difference"])
    assert report.values("pairs", "p, Holm") == list(results.compare()["p_holm"])
    r2 = dict(zip(results.summary()["method"], results.summary()["r2"], strict=True))
    assert report.values("metrics", "R²") == [r2[name] for name in report.words("metrics", "method")]


def test_the_first_words_are_the_best_method_and_its_lead(results, report):
    best, second, _ = sorted(results.ranked(), key=lambda row: row["rmse"])
    assert f"{best['method']} has the best score" in report.text
    pooled = shown(results.pooled(best["method"])[0])
    assert f"RMSE {pooled} on bags it never saw" in report.text
    assert (
        f"RMSE {pooled} all bags together; {shown(best['rmse'])} is the mean of 8 splits, ± " in report.text
    )  # the tile
    assert f"RMSE of {best['method']} {pooled}" in report.text  # the bar
    assert f"over the next, {second['method']}, is {shown(second['from_best'], 2)}" in report.text
    luck = "more than chance" if second["p_holm"] < 0.05 else "may be chance"
    assert luck in report.text and f"{shown_p(second['p_holm'])}, corrected" in report.text


ANY = [("medae", "median absolute error"), ("r2", "R²"), ("nll", "NLL"), ("coverage", "interval coverage")]


@pytest.mark.parametrize(("metric", "name"), ANY)
def test_any_metric_ranks(data, tmp_path, metric, name):
    results = bw.evaluate(*data, METHODS, repeats=1, folds=4, metric=metric)
    report = write(results, tmp_path)
    best = next(row["method"] for row in results.ranked() if row["from_best"] is None and row[metric] is not None)
    assert report.words("methods", "method")[0] == best
    means = dict(zip(results.summary()["method"], results.summary()[metric], strict=True))
    assert report.values("methods", name)[0] == means[best]


def test_bags_by_held_out_error(results, report):
    table = pd.DataFrame(results.predictions(report.words("methods", "method")[0]))
    table = table[table.repeat == 0]
    errors = dict(zip(table.bag.astype(str), (table.target - table.prediction).abs(), strict=True))
    assert dict(zip(report.words("bag-table", "bag"), report.values("bag-table", "error"), strict=True)) == errors
    assert report.values("bag-table", "error") == sorted(errors.values(), reverse=True)


def test_the_explorer_is_of_the_best_method_that_can_be_made_again(data, results, report):
    model = bw.method("aggregated").fit(*data)
    predictions = dict(zip(map(str, data[0].ids), model.predict(data[0]), strict=True))
    told = report.explorer
    where = told["columns"].index("contribution")
    for bag, what in zip(report.words("bag-table", "bag"), told["bags"], strict=True):
        assert what["prediction"] == pytest.approx(predictions[bag], rel=1e-3)
        assert sum(what["columns"][where]) == pytest.approx(predictions[bag], rel=1e-2, abs=1e-3)
    assert "as aggregated sees them" in report.text


def test_what_was_run_is_told(results, report):
    for words in (results.record["data"]["hash"], "2 repeats of 4 folds", "seeds 0, 1", "python", "not recorded"):
        assert words.lower() in report.text.lower()


def test_same_run_same_page(data, results, report, tmp_path):
    bags, y = data
    assert write(results, tmp_path, bags=bags, y=y).html == report.html


def test_no_name_is_markup(tmp_path):
    bags, y, results = hostile_run()
    report = write(results, tmp_path, bags=bags, y=y, model=bw.method("aggregated").fit(bags, y))
    assert not any(name in report.html for name in HOSTILE[:3])
    assert not any(tag == "img" or any(key.startswith("on") for key in attributes) for tag, attributes in report.tags)
    assert {SCRIPT, IMAGE, END} <= set(report.words("bag-table", "bag"))
    assert sorted(report.explorer["features"]) == sorted([SCRIPT, IMAGE, END])


def test_control_characters_of_names_are_written_out(tmp_path):
    raw, written = "a\x1b[31m\u202eb", r"a\x1b[31m\u202eb"
    bags, y = sample(40, ids=[raw, *(f"bag {i}" for i in range(39))], feature_names=[raw, "x", "y"])
    bags = bags._with(target_name=raw)
    model = bw.method("aggregated").fit(bags, y)
    results = bw.evaluate(bags, y, [("aggregated" + raw, MeanOfFirst())], repeats=1, folds=4, name=raw)
    about = {"name": raw, "method": raw, "command": raw}
    of_model = Report(write_model_report(tmp_path / "model.html", model, bags, y, **about))
    for report in (of_model, write(results, tmp_path, bags=bags, y=y, model=model)):
        assert not {"\x1b", "\u202e"} & set(report.html)
        assert written in report.words("bag-table", "bag")
        assert sorted(report.explorer["features"]) == sorted([written, "x", "y"])
        assert any(written in attributes.get("aria-label", "") for tag, attributes in report.tags if tag == "svg")


def test_nothing_is_loaded_from_anywhere(report):
    asking = [(t, a) for t, a in report.tags if {"src", "srcset", "data"} & set(a) or t in ("link", "img", "iframe")]
    assert asking == [] and "url(" not in report.html and "@import" not in report.html
    assert all(a["href"].startswith("#") for t, a in report.tags if "href" in a)
    policy = next(a["content"] for t, a in report.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy


def test_the_learned_function(data, tmp_path):
    bags, y = data
    results = bw.evaluate(bags, y, [("kme", instance_kme())], repeats=1, folds=4)
    report = write(results, tmp_path, bags=bags, y=y, model=instance_kme().fit(bags, y))
    assert "The learned function" in report.text
    assert "The learned function" not in write(results, tmp_path, bags=bags, y=y).text  # an estimator of one's own


# What is missing ------------------------------------------------------------------------------------------------


def test_failed_cells_are_told(tmp_path):
    bags, y = sample(24)
    methods = ["aggregated", ("broken", MeanOfFirst(fail="no such luck"))]
    report = write(bw.evaluate(bags, y, methods, repeats=1, folds=3), tmp_path)
    assert "3 cells failed (broken); they count in no average." in report.text
    assert report.words("failed", "method") == ["broken"] * 3
    assert all("RuntimeError: no such luck" in error for error in report.words("failed", "error"))
    assert report.column("methods", "RMSE")[1] == ("–", None)


def test_nothing_but_failures(tmp_path):
    bags, y = sample(24)
    report = write(bw.evaluate(bags, y, [("broken", MeanOfFirst(fail="no"))], repeats=1, folds=3), tmp_path)
    assert "No method has a score" in report.text and "No held-out predictions are kept" in report.text
    assert "3 cells failed; 0 are still to be run" in report.text


def test_an_unfinished_run(data, tmp_path):
    bw.evaluate(*data, ["aggregated"], repeats=2, folds=4, out=tmp_path / "run")
    first, *others = sorted((tmp_path / "run" / "cells").iterdir())
    first.unlink()
    report = write(tmp_path / "run", tmp_path)
    assert "Unfinished: 1 of 8 cells have not run" in report.text
    for path in others:
        path.unlink()
    with pytest.raises(ValueError, match="no results: 8 of 8 cells have not run, or their files are damaged"):
        write_report(tmp_path / "run", tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_one_method_and_the_groups_of_its_bags(data, tmp_path):
    bags, y = data
    grouped = bw.Bags(bags.instances, bags.offsets, groups=np.arange(40) // 4)
    for one, badge in ((bags, "Worth using"), (grouped, "Use with care")):  # fewer than 30 groups
        results = bw.evaluate(one, y, ["aggregated"], repeats=1, folds=4)
        report = write(results, tmp_path, bags=one, y=y, explore=False)
        assert "One method was run." in report.text and "pairs" not in report.tables
        assert badge in report.text and best_verdict(results, one, y).startswith(f"aggregated: {badge.lower()}. ")
    assert "the run did not record where its data came from" in write(results, tmp_path).text


@pytest.mark.parametrize("repeats", [1, 3])
def test_one_split_cannot_tell_luck(data, tmp_path, repeats):
    split = np.where(np.arange(40) < 25, "train", "test")
    report = write(bw.evaluate(*data, METHODS, split=split, repeats=repeats), tmp_path)
    assert "one split does not show whether that is chance" in report.text
    assert "trained on the same bags and scored on the same others" in report.text
    assert len(report.words("bag-table", "bag")) == 15
    bags, y = data
    assert f"15 bags of {bags.sizes[25:].min()} to {bags.sizes[25:].max()} instances" in report.text  # the header
    assert f"targets from {shown(y[25:].min())} to {shown(y[25:].max())}" in report.text
    assert "The other 25 bags served for training alone." in report.text
    assert "Targets inside" not in report.text and "nominal level of intervals" not in report.text
    for text in ("mean of splits", "means of splits", "1 split", "corrected p below"):
        assert text not in report.text


def test_only_methods_with_settings_to_choose_are_called_optimistic(data, tmp_path):
    methods = [("searched", MeanOfFirst(), {"slope": [1.0, 2.0]}), ("by hand", MeanOfFirst())]
    report = write(bw.evaluate(*data, methods, repeats=1, folds=4, selection="paper"), tmp_path)
    assert "Optimistic for searched: hyperparameters are the best on the scoring folds" in report.text
    labels = dict(zip(report.words("methods", "method"), report.words("methods", "selection"), strict=True))
    assert labels == {"searched": "paper (optimistic)", "by hand": "none"}
    alone = write(bw.evaluate(*data, methods[1:], repeats=1, folds=4, selection="paper"), tmp_path)
    assert "ptimistic" not in alone.text and "Default settings, or settings chosen by the method" in alone.text


class Dodger(MeanOfFirst):
    """Fails on the fold with bag 0, and is better than all others elsewhere."""

    def predict(self, bags, return_std=False):
        if 0 in bags.ids.tolist():
            raise RuntimeError("too hard")
        return super().predict(bags, return_std)


def test_who_lacks_a_fold_is_not_the_best(data, tmp_path):
    methods = [("dodger", Dodger()), ("honest", MeanOfFirst(slope=1.0)), ("poor", MeanOfFirst(slope=-1.0))]
    results = bw.evaluate(*data, methods, repeats=1, folds=4)
    report = write(results, tmp_path)
    assert report.words("methods", "method") == ["honest", "poor", "dodger"]
    assert report.values("methods", "RMSE")[2] < report.values("methods", "RMSE")[0]
    assert report.values("methods", "cells") == [4, 4, 3]
    assert report.values("methods", "rank")[2] is None
    assert "honest has the best score" in report.text and "Its lead over the next, poor," in report.text
    assert "dodger has rmse on only 3 of 4 splits. Its mean is over these" in report.text
    two = write(bw.evaluate(*data, methods[:2], repeats=1, folds=4), tmp_path)
    assert "No other method has a score on all of these splits." in two.text and "Its lead" not in two.text


def test_no_split_in_common(data, tmp_path):
    results = bw.evaluate(*data, METHODS[1:], repeats=1, folds=4)
    cells = [results.outcome("by hand", results.splits[0]), results.outcome("poor", results.splits[1])]
    report = write(bw.Results(results.record, cells), tmp_path)
    assert "No split has a score of every method" in report.text and "has the better score" not in report.text


def test_a_score_far_from_the_others_does_not_hide_them(data, tmp_path):
    methods = ["aggregated", ("by hand", MeanOfFirst()), ("astray", MeanOfFirst(slope=1e6))]
    results = bw.evaluate(*data, methods, repeats=1, folds=4)
    report = write(results, tmp_path)
    assert "4 of 12 scores lie far beyond the others" in report.text
    told = [attributes.get("aria-label", "") for tag, attributes in report.tags if tag == "svg"]
    assert any(text.endswith(f"to {shown(results.values('astray').max())}") for text in told)  # not where it is drawn


def test_bags_of_one_size_and_a_constant_target(tmp_path):
    bags = bw.from_arrays([np.full((2, 1), float(i)) for i in range(12)])
    report = write(bw.evaluate(bags, np.ones(12), [("by hand", MeanOfFirst())], repeats=1, folds=3), tmp_path)
    assert "12 bags of 2 instances" in report.text and "instances in the bag" not in report.text


# Data that is not what it was ---------------------------------------------------------------------------------


def test_other_data_is_refused(data, results, tmp_path):
    bags, y = data
    with pytest.raises(ValueError, match="the data is not what it was when the run was made"):
        write_report(results, tmp_path / "report.html", bags=bags, y=y + 1)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.csv"):
        write_report(results, tmp_path / "report.html", data=tmp_path / "gone.csv")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_is_no_file(results, tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file, such as"):
        write_report(results, tmp_path)


def test_a_changed_method_is_told(tmp_path):
    bags, y = sample(30)
    frame = pd.DataFrame(bags.instances, columns=list("abc")).assign(bag=bags.expand(bags.ids), y=bags.expand(y))
    frame.to_csv(tmp_path / "toy.csv", index=False)
    options = {"bag": "bag", "target": "y"}
    bags, y = bw.load(tmp_path / "toy.csv", **options)
    origin = {"path": str(tmp_path / "toy.csv"), "options": options}
    results = bw.evaluate(bags, y, ["aggregated"], repeats=1, folds=3, origin=origin)
    assert "has changed since" not in write(results, tmp_path).text
    results.record["methods"]["aggregated"]["estimator"] = "another"
    assert "aggregated has changed since the run was made" in write(results, tmp_path).text


def test_coverage_for_every_kind_of_bag_and_scores_by_label(data, tmp_path):
    bags, y = data
    site = np.arange(40) % 2
    results = bw.evaluate(bags, y, ["aggregated"], repeats=1, folds=4, by={"site": site}, name="toy")
    page = write(results, tmp_path, explore=False)
    rows = results.scores_by()
    assert page.values("by", "RMSE") == sorted(rows["rmse"], reverse=True) and page.values("by", "bags") == [20, 20]
    assert "2 of 2 labels of site had bags both in the training and" in page.text
    kinds = page.words("coverage", "bags of")
    assert kinds[0] == "all bags" and kinds[-2:] == ["group 0", "group 1"] and any(k.startswith("size ") for k in kinds)
    counts, inside = page.values("coverage", "bags"), page.values("coverage", "inside")
    assert counts[0] == 40 and counts[-2:] == [20, 20]
    assert inside[0] == pytest.approx((inside[-2] + inside[-1]) / 2)


@pytest.mark.parametrize("method", ["aggregated", ("intervals", bw.Intervals("aggregated", folds=3))])
def test_intervals_have_the_level_of_the_run(data, tmp_path, method):
    results = bw.evaluate(*data, [method], repeats=1, folds=4, level=0.8)
    page = write(results, tmp_path)
    assert "Targets inside their 80 % intervals" in page.text and "With 80 % intervals" in page.text
    assert "90 %" not in page.text.replace("90 % of", "")
    if method != "aggregated":
        assert page.values("methods", "inside") == results.summary()["coverage"].tolist()


def test_a_model_with_intervals_shows_its_own_by_group(data, tmp_path):
    bags, y = data
    grouped = bw.Bags(bags.instances, bags.offsets, groups=np.arange(40) // 2)
    model = bw.Intervals("aggregated", folds=5, level=0.8).fit(grouped, y)
    page = Report(write_model_report(tmp_path / "m.html", model, grouped, y, held_out=y - model.residuals_))
    bounds = model.held_out_interval(grouped, y, 0.8)
    assert page.values("coverage", "width")[0] == pytest.approx(np.ptp(bounds, axis=1).mean())
    assert page.values("coverage", "inside")[0] == np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert sum(one.startswith("group ") for one in page.words("coverage", "bags of")) == 20
