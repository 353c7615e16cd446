"""Declared folds on the command line: fixed folds, train and test, forward in time."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, run

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
    assert json.loads(evaluated.stdout)["summary"][0]["rmse"] == pytest.approx(
        float(list(expected["rmse"])[0]), rel=1e-9
    )
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


def evaluated(tmp_path, what, labels):
    frame = pd.DataFrame({"site": [f"s{i}" for i in range(12)], "x": range(12), "aod": range(12), what: labels})
    frame = pd.concat([frame, frame])
    frame.iloc[12:, 1] += 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = ("--method", "aggregated", f"--{what}-column", what, "--out", tmp_path / "run")
    return run("evaluate", tmp_path / "t.csv", *COLUMNS, *how)


@pytest.mark.parametrize("what", ["fold", "split"])
def test_a_missing_label_is_called_what_it_is(tmp_path, what):
    result = evaluated(tmp_path, what, ["train", "test"] * 5 + [None, None])
    said = " ".join(result.stderr.split())
    assert result.exit_code != 0 and "group" not in said
    assert f"bag 's10' (and 1 other) has rows without a fold in column '{what}'" in said
    assert "or leave --fold-column out" in said


def test_dates_are_folds(tmp_path):
    assert evaluated(tmp_path, "fold", ["2020-01-01", "2020-01-02", "2020-01-03"] * 4).exit_code == 0
    assert list(pd.read_csv(tmp_path / "run" / "results.csv")["fold"]) == ["2020-01-01", "2020-01-02", "2020-01-03"]
