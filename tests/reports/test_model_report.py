"""The report of one fitted model, and of data too large to show whole."""

import numpy as np
import pytest
from page_reading import Report
from sklearn.metrics import root_mean_squared_error
from toy_runs import MeanOfFirst, instance_kme

import bagwise as bw
from bagwise.explaining import explain
from bagwise.reports import write_model_report
from bagwise.reports.explorer import explain_bags
from bagwise.reports.numbers import shown
from bagwise.testing.contracts import sample


def write(tmp_path, *arguments, **options):
    return Report(write_model_report(tmp_path / "model.html", *arguments, **options))


def test_without_held_out_predictions_nothing_is_called_a_score(tmp_path):
    bags, y = sample(30)
    report = write(tmp_path, bw.method("aggregated").fit(bags, y), bags, y, method="aggregated", command="bagwise fit")
    assert "scored on no bag that it had not seen" in report.text and "RMSE" not in report.text
    assert "bagwise fit" in report.text and report.explorer["what"] == "fitted"


def test_held_out_predictions_are_scored(tmp_path):
    bags, y = sample(30)
    guess = y + np.random.default_rng(0).normal(size=30)
    report = write(tmp_path, instance_kme().fit(bags, y), bags, y, held_out=guess, fold=np.arange(30) % 5, name="toy")
    assert f"RMSE {shown(root_mean_squared_error(y, guess))} on bags it never saw" in report.text
    assert "The learned function" in report.text and "Pipeline was fitted on 30 bags" in report.text
    assert report.values("bag-table", "error") == sorted(np.abs(y - guess), reverse=True)


def test_held_out_of_another_length_is_refused(tmp_path):
    bags, y = sample(30)
    with pytest.raises(ValueError, match=r"held_out has shape \(29,\) for 30 bags; give one prediction per bag"):
        write(tmp_path, bw.method("aggregated").fit(bags, y), bags, y, held_out=y[1:])


class Automatic(MeanOfFirst):
    """Has what an automatic method has."""

    def fit(self, bags, y):
        self.held_out_, self.fold_ = y + 0.5, np.arange(len(y)) % 4
        self.account_ = [{"member": "<b>aggregated", "rmse": 0.5, "why": ""}, {"member": "prime", "rmse": float("nan")}]
        return super().fit(bags, y)

    def summary(self):
        return "Tried <two> members."


def test_the_account_of_an_automatic_method(tmp_path):
    bags, y = sample(30)
    report = write(tmp_path, Automatic().fit(bags, y), bags, y)
    assert report.words("members", "member") == ["<b>aggregated", "prime"]
    assert report.values("members", "rmse") == [0.5, None] and "Tried <two> members." in report.text
    assert "RMSE 0.500 on bags it never saw" in report.text


@pytest.mark.parametrize("additive", [True, False])
def test_a_page_stays_small(tmp_path, additive):
    rng = np.random.default_rng(0)
    sizes = np.r_[5000, rng.integers(1, 400 if additive else 60, size=499)]
    bags = bw.from_arrays(
        [rng.normal(size=(size, 5)) for size in sizes], ids=[f"a rather long name {i}" for i in range(500)]
    )
    y = rng.normal(size=500)
    model = (bw.method("aggregated") if additive else MeanOfFirst()).fit(bags, y)
    report = write(tmp_path, model, bags, y, held_out=y + rng.normal(size=500))
    assert len(report.html.encode()) < 3e6
    assert len(report.words("bag-table", "bag")) == 300
    told, sizes = report.explorer["bags"], report.values("bag-table", "size")
    for bag, size in zip(told, sizes, strict=True):
        assert bag is None or len(bag["instances"]) == min(size, report.explorer["most"])
    assert report.explorer["most"] <= 200
    assert told.count(None) <= (0 if additive else 1)  # the one of 5000 cannot be left out one by one
    assert report.explorer["kind"] == ("contributions" if additive else "leave-one-out")


def test_of_a_large_bag_the_largest_numbers_are_kept():
    bags = bw.from_arrays([np.arange(-300.0, 300.0), np.ones(3)])
    model = bw.method("aggregated").fit(bags, [0.0, 1.0])
    told = explain_bags(model, bags)
    kept, values = told["bags"][0]["instances"], explain(model, bags).values[:600]
    assert len(kept) == told["most"] < 600
    assert sorted(np.abs(values))[-len(kept) :] == sorted(np.abs(values[kept]))


def test_bags_too_large_to_leave_out_are_refused_in_words():
    bags = bw.from_arrays([np.zeros(401), np.ones(500)])
    with pytest.raises(ValueError, match="every bag has more than 400 instances"):
        explain_bags(MeanOfFirst().fit(bags, np.array([0.0, 1.0])), bags)
