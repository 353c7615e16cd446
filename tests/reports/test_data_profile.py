"""The section on the data: numbers as pandas has them."""

import numpy as np
import pandas as pd
import pytest
from tests.helpers.page_reading import Report

import bagwise as bw
from bagwise.reports import write_model_report
from bagwise.reports.explorer import MOST_FEATURES, coordinates_of, data_section, explain_bags, features_table, profile


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(np.arange(30), rng.integers(2, 9, size=30))})
    n = len(frame)
    level = rng.normal(size=30)
    frame["red"] = level[frame.site] + rng.normal(size=n)
    frame["same"] = 7.0
    frame["gaps"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    frame["lon"], frame["lat"] = rng.uniform(5, 6, n), rng.uniform(50, 51, n)
    frame["y"] = (level + 0.1 * rng.normal(size=30))[frame.site]
    return frame


@pytest.mark.parametrize("name", ["red", "gaps"])
def test_a_feature_as_pandas_has_it(frame, name):
    bags, y = bw.load(frame, bag="site", target="y", keep=["lon", "lat"], missing="keep")
    found = profile(name, frame[name].to_numpy(), bags, y)
    column, means = frame[name], frame.groupby("site")[name].mean()
    assert found["missing"] == pytest.approx(column.isna().mean())
    assert [found["low"], found["median"], found["high"]] == pytest.approx(column.quantile([0, 0.5, 1]).tolist())
    assert found["counts"].sum() == column.notna().sum()
    spread = column - column.mean()
    between = ((means - column.mean()) ** 2 * frame.groupby("site")[name].count()).sum() / (spread**2).sum()
    assert found["between"] == pytest.approx(between)
    assert found["correlation"] == pytest.approx(means.corr(frame.groupby("site").y.first()))


def test_a_constant_and_an_empty_feature(frame):
    bags, y = bw.load(frame, bag="site", target="y", keep=["lon", "lat"], missing="keep")
    rows = [profile("same", frame.same.to_numpy(), bags, y), profile("none", np.full(len(frame), np.nan), bags, y)]
    columns = {column.head: column for column in features_table(rows)}
    assert columns["distribution"].texts == ["constant", "no value"]
    assert columns["missing"].texts == ["0.0\xa0%", "100.0\xa0%"]
    assert "between bags" not in columns and "with target" not in columns  # of nothing that varies


def test_what_was_left_out_is_told(frame):
    with pytest.warns(UserWarning, match="were dropped"):
        bags, y = bw.load(frame, bag="site", target="y", missing="drop-instances")
    gone = int(frame.gaps.isna().sum())
    facts = dict(data_section(bags, y)["facts"])
    last = int(np.flatnonzero(frame.gaps.notna())[-1]) + 1
    inside = gone - (len(frame) - last)
    assert facts["Left out"] == f"{inside} rows of the first {last} of the table"
    kept, y = bw.load(frame, bag="site", target="y", missing="keep")
    facts = dict(data_section(kept, y)["facts"])
    assert facts["Left out"] == "no row" and facts["Missing values"].startswith(f"{gone:,} (")


def test_many_features_are_cut(frame):
    rng = np.random.default_rng(0)
    wide = bw.from_arrays(list(rng.normal(size=(12, 3, MOST_FEATURES + 2))))
    section = data_section(wide, rng.normal(size=12))
    assert len(section["columns"][0].texts) == MOST_FEATURES and "The first 40 of 42 features." in section["more"]
    model = bw.method("aggregated").fit(wide, wide.instances[::3, 33])
    told = explain_bags(model, wide)
    assert len(told["features"]) == 20 and "x34" in told["features"] and told["n_features"] == 42


def test_kept_coordinates_make_maps(frame, tmp_path):
    bags, y = bw.load(frame, bag="site", target="y", keep=["lon", "lat"], ignore=["gaps"])
    model = bw.method("aggregated").fit(bags, y)
    report = Report(write_model_report(tmp_path / "model.html", model, bags, y))
    assert [report.explorer["kept"][column] for column in report.explorer["axes"]] == ["lon", "lat"]
    places = [a for tag, a in report.tags if tag == "circle" and a.get("class", "").startswith("place ")]
    assert len(places) == 30
    names = report.words("bag-table", "site")
    for name, bag in zip(names, report.explorer["bags"], strict=True):
        mine = frame[frame.site == int(name)]
        np.testing.assert_allclose(np.array(bag["kept"], dtype=float), mine[["lon", "lat"]].to_numpy().T, rtol=1e-6)
    without, _ = bw.load(frame, bag="site", target="y", ignore=["gaps", "lon", "lat"])
    assert coordinates_of(without) is None


def test_coordinates_that_are_no_numbers_make_no_map(frame):
    words = frame.assign(lon="east")
    bags, _ = bw.load(words, bag="site", target="y", keep=["lon", "lat"], ignore=["gaps"])
    assert coordinates_of(bags) is None
