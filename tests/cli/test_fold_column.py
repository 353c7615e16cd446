"""Declared folds on the command line: fixed folds, train and test, forward in time."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, rows_of

import bagwise as bw

COLUMNS = ("--bag", "site", "--target", "aod")


@pytest.fixture
def table(tmp_path):
    """Sixty bags of two rows, one per day, in four folds."""
    rng, n = np.random.default_rng(0), 60
    frame = pd.DataFrame({"site": [f"s{i}" for i in range(n)], "x": rng.normal(size=n), "aod": rng.normal(size=n)})
    frame["day"] = pd.date_range("2020-01-01", periods=n)[rng.permutation(n)].strftime("%Y-%m-%d")
    frame = pd.concat([frame.assign(fold=np.arange(n) % 4), frame.assign(fold=np.arange(n) % 4, x=frame.x + 1)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_forward_folds_are_those_of_the_library(table, tmp_path):
    forward = (*COLUMNS, "--time", "day", "--folds", "forward", "--ignore", "fold")
    checked = done("check", table, *forward)
    assert "Folds: 5 folds, 50 of 60 bags held out." in checked.stdout
    how = ("--method", "aggregated", "--repeats", 1, "--out", tmp_path / "run", "--json")
    evaluated = done("evaluate", table, *forward, *how)
    bags, y = bw.load(table, bag="site", target="aod", time="day", ignore=["fold"])
    expected = bw.evaluate(bags, y, ["aggregated"], repeats=1, folds="forward").summary()
    assert json.loads(evaluated.stdout)["summary"][0]["rmse"] == pytest.approx(expected["rmse"][0], rel=1e-9)
    done("fit", table, *forward, "--method", "instance-kme:ridge", "--no-intervals", "--out", tmp_path / "m")
    declared = bags.with_validation(bw.Validation("forward"))
    model = bw.method("instance-kme:ridge").fit(declared, y)
    np.testing.assert_allclose(bw.load_model(tmp_path / "m").predict(bags), model.predict(bags), rtol=1e-9)


@pytest.mark.parametrize("method", ["aggregated", pytest.param("auto:quick", marks=pytest.mark.slow)])
def test_errors_of_forward_folds_are_of_later_bags(table, tmp_path, method):
    forward = (*COLUMNS, "--time", "day", "--folds", "forward", "--ignore", "fold", "--method", method)
    fitted = done("fit", table, *forward, "--out", tmp_path / "m", "--report", tmp_path / "m.html", "--json")
    bags, y = bw.load(table, bag="site", target="aod", time="day", ignore=["fold"])
    later = np.argsort(bags.time)[10:]
    model = bw.load_model(tmp_path / "m")
    assert sorted(model.calibration_.tolist()) == sorted(later.tolist())
    errors = json.loads(fitted.stdout)["held_out"]
    assert errors["rmse"] == pytest.approx(np.sqrt(np.mean(model.residuals_**2)), rel=1e-9)


@pytest.mark.parametrize("what", ["fold", "split"])
def test_dates_are_folds_and_a_missing_label_is_named(tmp_path, what):
    frame = pd.DataFrame({"site": [f"s{i // 2}" for i in range(24)], "x": range(24), "aod": np.arange(24) // 2})
    evaluate = ("evaluate", tmp_path / "t.csv", *COLUMNS, "--method", "aggregated", "--out", tmp_path / "run")
    frame.assign(**{what: np.repeat(["train", "test"] * 5 + [None, None], 2)}).to_csv(tmp_path / "t.csv", index=False)
    words = f"bag 's10' (and 1 other) has rows without a fold in column '{what}'"
    said = refused(*evaluate, f"--{what}-column", what, words=words)
    assert "or leave --fold-column out" in said and "group" not in said
    days = ["2020-01-01", "2020-01-02", "2020-01-03"]
    frame.assign(day=np.repeat(days * 4, 2)).to_csv(tmp_path / "t.csv", index=False)
    done(*evaluate, "--fold-column", "day")
    assert [row["fold"] for row in rows_of(tmp_path / "run" / "results.csv")] == days
