"""`bagwise fit` and `predict` with --engine, as typed."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bagwise as bw
from bagwise.cli import app
from bagwise.testing.contract_checks import sample

COLUMNS = ("--bag", "site", "--target", "aod")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A data set in folders by year; every site has rows in both."""
    place = tmp_path_factory.mktemp("lake")
    bags, y = sample(40, random_state=0)
    frame = pd.DataFrame(bags.instances, columns=list("abc"))
    frame = frame.assign(site=[f"s{i}" for i in bags.expand(bags.ids)], aod=bags.expand(y))
    frame["year"] = np.where(np.arange(len(frame)) % 2, 2019, 2020)
    frame.to_parquet(place, partition_cols=["year"])
    return place


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def in_memory(lake, name):
    return bw.method(name).fit(*bw.load(lake, bag="site", target="aod"))


@pytest.mark.parametrize("engine", [("stream",), ("stream", "--n-jobs", 1), ("dask", "--n-jobs", 1)])
def test_the_model_and_its_predictions_are_those_of_memory(lake, tmp_path, engine):
    result = run("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", *engine, "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 0, result.output
    assert "Typical error 0.33" in result.stdout and "of held-out bags" in result.stdout
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = dict(zip(bags.ids, in_memory(lake, "aggregated").predict(bags), strict=True))
    found = bw.load_model(tmp_path / "m.bagwise").predict(bags)
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-9)
    header = bw.model_files.read_header(tmp_path / "m.bagwise")
    assert header["training"]["bags"] == 40 and header["training"]["instances"] == bags.n_instances

    result = run("predict", tmp_path / "m.bagwise", lake, "--engine", *engine, "--out", tmp_path / "parts")
    assert result.exit_code == 0, result.output
    written = pq.read_table(tmp_path / "parts")
    np.testing.assert_allclose(
        written["prediction"].to_numpy(), [expected[one] for one in written["site"].to_pylist()], rtol=1e-9
    )


def test_a_work_folder_is_gone_on_from_and_one_of_another_method_is_refused(lake, tmp_path):
    fit = ("fit", lake, *COLUMNS, "--engine", "stream", "--n-jobs", 1, "--work", tmp_path / "work", "--out")
    for name in ("one.bagwise", "two.bagwise"):
        result = run(*fit, tmp_path / name, "--method", "aggregated")
        assert result.exit_code == 0, result.output
    assert {"fit.json", "01-survey-000000.npz"} <= {path.name for path in (tmp_path / "work").iterdir()}
    one, two = (bw.load_model(tmp_path / name) for name in ("one.bagwise", "two.bagwise"))
    bags, _ = bw.load(lake, bag="site", target="aod")
    assert (one.predict(bags) == two.predict(bags)).all()
    result = run(*fit, tmp_path / "three.bagwise", "--method", "blr:rows")
    assert result.exit_code == 1 and "give another folder as --work, or remove this one" in result.output
    assert not (tmp_path / "three.bagwise").exists()


def test_a_row_per_bag_in_one_file_or_on_stdout(lake, tmp_path):
    run("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", "stream", "--out", tmp_path / "m.bagwise")
    to_file = ("--engine", "stream", "--out", tmp_path / "p.csv")
    assert run("predict", tmp_path / "m.bagwise", lake, *to_file).exit_code == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    printed = run("predict", tmp_path / "m.bagwise", lake, "--engine", "stream", "--json", "--quiet")
    assert [row["site"] for row in rows] == [row["site"] for row in json.loads(printed.stdout)["predictions"]]
    assert len(rows) == 40


def test_unasked_the_method_is_auto(lake, tmp_path):
    options = ("--engine", "stream", "--n-jobs", 1, "--paper", "--out", tmp_path / "m.bagwise")
    result = run("fit", lake, *COLUMNS, *options)
    assert result.exit_code == 0, result.output
    assert "by 5-fold cross-validation over bags" in result.output
    assert bw.model_files.read_header(tmp_path / "m.bagwise")["method"] == "auto"
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = bw.load_model(tmp_path / "m.bagwise").predict(bags)
    to_folder = ("--engine", "stream", "--n-jobs", 1, "--out", tmp_path / "parts")
    assert run("predict", tmp_path / "m.bagwise", lake, *to_folder).exit_code == 0
    written = pq.read_table(tmp_path / "parts")
    found = dict(zip(written["site"].to_pylist(), written["prediction"].to_pylist(), strict=True))
    np.testing.assert_allclose([found[one] for one in bags.ids.tolist()], expected, rtol=1e-9)


def test_networks_are_trained_on_rows_that_stream(lake, tmp_path):
    how = ("--method", "instance-kme:single", "--engine", "stream", "--n-jobs", 1, "--seed", 3)
    result = run("fit", lake, *COLUMNS, *how, "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 0, result.output
    bags, _ = bw.load(lake, bag="site", target="aod")
    expected = bw.fit_scan(bw.scan(lake, bag="site", target="aod"), "instance-kme:single", random_state=3)
    np.testing.assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(bags), expected.predict(bags))


def test_rows_can_be_chosen(lake, tmp_path):
    options = ("--engine", "stream", "--n-jobs", 1, "--where", "year >= 2020", "--no-intervals")
    result = run("fit", lake, *COLUMNS, "--method", "aggregated", *options, "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 0, result.output
    assert bw.model_files.read_header(tmp_path / "m.bagwise")["training"]["where"] == "year >= 2020"
    recent = bw.load(lake / "year=2020", bag="site", target="aod")
    expected = bw.method("aggregated").fit(*recent).predict(recent[0])
    np.testing.assert_allclose(bw.load_model(tmp_path / "m.bagwise").predict(recent[0]), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "stream", "--method", "em"), "em cannot be fitted from sums over rows; methods that can are"),
        (("--engine", "stream", "--method", "instance-kme"), "rows that stream instance-kme:single"),
        (("--engine", "stream", "--report", "r.html"), "--report is for tables in memory; leave it out, or use"),
        (("--engine", "stream", "--bag-feature", "a"), "--bag-feature is for tables in memory"),
        (("--engine", "stream", "--scheduler", "tcp://x:1"), "--scheduler names a Dask cluster; with --engine stream"),
        (("--where", "year > 1"), "--where is for tables that are read chunk by chunk: use --engine stream"),
        (("--engine", "stream", "--where", "year >> 1"), "year >> 1"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(lake, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    result = run("fit", lake, *COLUMNS, *options, "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(lake, tmp_path):
    run("fit", lake, *COLUMNS, "--method", "aggregated", "--engine", "stream", "--out", tmp_path / "m.bagwise")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine.txt").write_text("mine")
    result = run("predict", tmp_path / "m.bagwise", lake, "--engine", "stream", "--out", tmp_path / "parts")
    assert result.exit_code == 1 and "parts is there already; give the name of a new folder" in result.output
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["mine.txt"]
    result = run("predict", tmp_path / "m.bagwise", lake, "--engine", "stream", "--level", "0.8")
    assert result.exit_code == 1 and "--level is for tables in memory" in result.output


@pytest.mark.parametrize(("option", "words"), [("--weights", "instance weights"), ("--bag-feature", "covariates")])
def test_a_model_of_weights_or_covariates_is_not_predicted_without_them(lake, tmp_path, option, words):
    frame = pd.read_parquet(lake).drop(columns="year")
    frame["beside"] = frame["aod"].rank(method="dense") + 1.0
    frame.to_parquet(tmp_path / "t.parquet")
    more = ("--method", "aggregated", "--no-intervals", option, "beside", "--out", tmp_path / "m.bagwise")
    result = run("fit", tmp_path / "t.parquet", *COLUMNS, *more)
    assert result.exit_code == 0, result.output
    result = run("predict", tmp_path / "m.bagwise", tmp_path / "t.parquet", "--engine", "stream")
    assert result.exit_code == 1
    assert f"fitted with {words}" in result.output and "use --engine memory" in result.output.replace("\n", " ")


def test_a_damaged_part_is_named_and_nothing_is_written(lake, tmp_path):
    import shutil

    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    damaged = next((copy / "year=2020").iterdir())
    content = bytearray(damaged.read_bytes())
    content[4:40] = b"\xff" * 36  # where the first page says what it holds
    damaged.write_bytes(bytes(content))
    result = run("fit", copy, *COLUMNS, "--method", "aggregated", "--engine", "stream", "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 1 and damaged.name in result.output.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
