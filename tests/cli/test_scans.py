"""`bagwise fit` and `predict` with --engine, as typed."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.helpers.typed import done, refused, rows_of, run, sample_frame

import bagwise as bw

COLUMNS = ("--bag", "site", "--target", "aod")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A data set in folders by year; every site has rows in both."""
    place = tmp_path_factory.mktemp("lake")
    frame = sample_frame(40)
    frame["site"] = "s" + frame.site.astype(str)
    frame["year"] = np.where(np.arange(len(frame)) % 2, 2019, 2020)
    frame.to_parquet(place, partition_cols=["year"])
    return place


def in_memory(lake, name):
    return bw.method(name).fit(*bw.load(lake, bag="site", target="aod"))


@pytest.mark.parametrize(
    "engine",
    [
        ("stream",),
        ("stream", "--n-jobs", 1),
        ("dask", "--scheduler"),
        pytest.param(("dask", "--n-jobs", 1), marks=pytest.mark.slow),
    ],
)
def test_the_model_and_its_predictions_are_those_of_memory(lake, tmp_path, engine, request):
    if engine[-1] == "--scheduler":
        engine = (*engine, request.getfixturevalue("client").scheduler_info()["address"])
    result = done("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", *engine, "--out", tmp_path / "m.bagwise")
    assert "Typical error 0.33" in result.stdout and "of held-out bags" in result.stdout
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = dict(zip(bags.ids, in_memory(lake, "aggregated").predict(bags), strict=True))
    found = bw.load_model(tmp_path / "m.bagwise").predict(bags)
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-9)
    header = bw.model_files.read_header(tmp_path / "m.bagwise")
    assert header["training"]["bags"] == 40 and header["training"]["instances"] == bags.n_instances

    result = done("predict", tmp_path / "m.bagwise", lake, "--engine", *engine, "--out", tmp_path / "parts")
    written = pq.read_table(tmp_path / "parts")
    np.testing.assert_allclose(
        written["prediction"].to_numpy(), [expected[one] for one in written["site"].to_pylist()], rtol=1e-9
    )


def test_a_work_folder_is_gone_on_from_and_one_of_another_method_is_refused(lake, tmp_path):
    fit = ("fit", lake, *COLUMNS, "--engine", "stream", "--n-jobs", 1, "--work", tmp_path / "work", "--out")
    for name in ("one.bagwise", "two.bagwise"):
        done(*fit, tmp_path / name, "--method", "aggregated")
    assert len(list((tmp_path / "work").glob("cells/*/001-partition"))) == 1
    one, two = (bw.load_model(tmp_path / name) for name in ("one.bagwise", "two.bagwise"))
    bags, _ = bw.load(lake, bag="site", target="aod")
    assert (one.predict(bags) == two.predict(bags)).all()
    other = (*fit, tmp_path / "three.bagwise", "--method", "blr:rows")
    refused(*other, words="give another folder to --work (work=), or delete this one")
    assert not (tmp_path / "three.bagwise").exists()


def test_a_row_per_bag_in_one_file_or_on_stdout(lake, tmp_path):
    run("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", "stream", "--out", tmp_path / "m.bagwise")
    to_file = ("--engine", "stream", "--out", tmp_path / "p.csv")
    result = done("predict", tmp_path / "m.bagwise", lake, *to_file)
    assert "No intervals: the model was fitted without them." in result.stderr
    rows = rows_of(tmp_path / "p.csv")
    printed = run("predict", tmp_path / "m.bagwise", lake, "--engine", "stream", "--json", "--quiet")
    assert [row["site"] for row in rows] == [row["site"] for row in json.loads(printed.stdout)["predictions"]]
    assert len(rows) == 40


def test_unasked_the_method_is_auto(lake, tmp_path):
    options = ("--engine", "stream", "--n-jobs", 1, "--paper", "--out", tmp_path / "m.bagwise")
    result = done("fit", lake, *COLUMNS, *options)
    assert "by 5-fold cross-validation over bags" in result.output
    assert bw.model_files.read_header(tmp_path / "m.bagwise")["method"] == "auto"
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = bw.load_model(tmp_path / "m.bagwise").predict(bags)
    to_folder = ("--engine", "stream", "--n-jobs", 1, "--out", tmp_path / "parts")
    done("predict", tmp_path / "m.bagwise", lake, *to_folder)
    written = pq.read_table(tmp_path / "parts")
    found = dict(zip(written["site"].to_pylist(), written["prediction"].to_pylist(), strict=True))
    np.testing.assert_allclose([found[one] for one in bags.ids.tolist()], expected, rtol=1e-9)


def test_rows_can_be_chosen(lake, tmp_path):
    options = ("--engine", "stream", "--n-jobs", 1, "--where", "year >= 2020", "--no-intervals")
    done("fit", lake, *COLUMNS, "--method", "aggregated", *options, "--out", tmp_path / "m.bagwise")
    assert bw.model_files.read_header(tmp_path / "m.bagwise")["training"]["where"] == "year >= 2020"
    recent = bw.load(lake / "year=2020", bag="site", target="aod")
    expected = bw.method("aggregated").fit(*recent).predict(recent[0])
    np.testing.assert_allclose(bw.load_model(tmp_path / "m.bagwise").predict(recent[0]), expected, rtol=1e-9)


def test_a_folder_that_holds_something_is_left_alone(lake, tmp_path):
    run("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", "stream", "--out", tmp_path / "m.bagwise")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine.txt").write_text("mine")
    predict = ("predict", tmp_path / "m.bagwise", lake, "--engine", "stream")
    refused(*predict, "--out", tmp_path / "parts", words="parts already exists; give the name of a new folder")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["mine.txt"]
    refused(*predict, "--level", 0.8, words="The model was fitted without intervals")


def test_intervals_are_fitted_if_asked_for(lake, tmp_path):
    how = ("--method", "aggregated", "--engine", "stream", "--n-jobs", 1, "--level", 0.5)
    result = done("fit", lake, *COLUMNS, *how, "--out", tmp_path / "m.bagwise")
    assert "intervals at level 0.5" in " ".join(result.output.split())
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = bw.load_model(tmp_path / "m.bagwise").predict_interval(bags)
    more = ("--engine", "stream", "--n-jobs", 1, "--json", "--quiet")
    found = json.loads(run("predict", tmp_path / "m.bagwise", lake, *more).stdout)["predictions"]
    assert [row["site"] for row in found] == bags.ids.tolist()
    np.testing.assert_allclose([[row["lower"], row["upper"]] for row in found], expected, rtol=1e-9)


COLUMN_OPTIONS = [
    ("--weights", "beside", "--categories", "crop", "--dates", "seen", "--missing", "impute"),
    ("--bag-feature", "beside", "--fill-value", "-99", "--missing", "drop-instances", "--groups", "crop"),
]


@pytest.mark.parametrize("columns", COLUMN_OPTIONS, ids=["weights, levels and dates", "covariates and fill values"])
def test_columns_of_every_kind_are_those_of_memory(lake, tmp_path, columns):
    frame = pd.read_parquet(lake).drop(columns="year")
    frame["beside"] = frame["aod"].rank(method="dense") + 1.0
    frame["crop"] = np.where(frame["beside"] % 3 == 0, "rye", "oats")
    frame["seen"] = pd.Timestamp("2019-04-23") + pd.to_timedelta(np.arange(len(frame)), "D")
    frame.loc[frame.index[::9], "a"] = np.nan if "impute" in columns else -99.0
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    for engine in ("memory", "stream"):
        options = ("--method", "aggregated", "--no-intervals", "--engine", engine, "--n-jobs", 1, *columns)
        result = done("fit", tmp_path / "t.parquet", *COLUMNS, *options, "--out", tmp_path / f"{engine}.bagwise")
    found = {}
    for model, engine in (("memory", "memory"), ("memory", "stream"), ("stream", "memory"), ("stream", "stream")):
        more = ("--engine", engine, "--n-jobs", 1, "--json", "--quiet")
        result = done("predict", tmp_path / f"{model}.bagwise", tmp_path / "t.parquet", *more)
        rows = json.loads(result.stdout)["predictions"]
        found[model, engine] = [row["prediction"] for row in sorted(rows, key=lambda row: row["site"])]
    for other in found.values():
        np.testing.assert_allclose(other, found["memory", "memory"], rtol=1e-9)
