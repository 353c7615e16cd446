"""A second table, categories, dates and several targets on the command line, and the names that results have."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, run

import bagwise as bw

PLOTS = [f"{k:03d}" for k in range(16)]
READ = ["--bag", "plot", "--targets", "yields.csv", "--categories", "crop", "--dates", "sown", "--bag-feature", "rain"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("plots"), np.random.default_rng(0)
    frame = pd.DataFrame({"plot": np.tile(PLOTS, 3), "red": rng.normal(size=48), "crop": rng.choice(["a", "b"], 48)})
    frame["sown"] = [f"2019-0{m}-11" for m in rng.integers(1, 9, 48)]
    frame["barcode"] = [f"c{k}" for k in range(48)]
    frame.to_csv(folder / "pixels.csv", index=False)
    second = pd.DataFrame({"plot": PLOTS, "yield": rng.normal(size=16), "protein": rng.normal(size=16)})
    second["rain"] = rng.normal(size=16)
    second.loc[5, "protein"] = np.nan
    second.to_csv(folder / "yields.csv", index=False)
    return folder


@pytest.fixture(autouse=True)
def _here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def read(names):
    options = {"bag": "plot", "targets": "yields.csv", "categories": ["crop"], "dates": ["sown"]}
    ignore = ["barcode"] if isinstance(names, list) else ["barcode", "protein"]
    return bw.load("pixels.csv", **options, target=names, bag_features=["rain"], ignore=ignore)


def test_one_target_of_a_second_table(folder):
    found = done(
        "fit", "pixels.csv", *READ, "--target", "yield", "--method", "aggregated", "--level", 0.8, "--out", "m"
    )
    assert "Note: column 'protein' of yields.csv is not used; --bag-feature protein takes" in found.stderr
    model = bw.Intervals("aggregated", level=0.8).fit(*read("yield"))
    found = done("predict", "m", "pixels.csv", "--targets", "yields.csv", "--target", "yield", "--instances", "i.csv")
    lines = found.stdout.splitlines()
    assert lines[0] == "plot,prediction,lower,upper,yield"
    expected = model.predict(read("yield")[0])
    np.testing.assert_allclose([float(line.split(",")[1]) for line in lines[1:]], expected, rtol=1e-12)
    assert pd.read_csv("i.csv", dtype={"plot": str})["plot"].tolist() == np.repeat(PLOTS, 3).tolist()
    known = ["--targets", "yields.csv", "--target", "protein"]
    found = run("predict", "m", "pixels.csv", *known, "--quantile", 0.5, "--json")  # one bag has no protein
    assert found.exit_code == 0 and np.isfinite(json.loads(found.stdout)["scores"]["crps"]), found.output
    both = ("predict", "m", "pixels.csv", *known, "--target", "yield")
    refused(*both, words="The model has one target, and 2 were given")
    found = run("predict", "m", "pixels.csv")
    assert found.exit_code == 1 and "no column 'rain'" in found.stderr and "give one with --targets" in found.stderr


def test_importance_reads_the_second_table(folder):
    second = pd.read_csv("yields.csv", dtype={"plot": str}).assign(farm=range(16), soil=["s", "t"] * 8)
    second.to_csv("soils.csv", index=False)
    read = ["--bag", "plot", "--targets", "soils.csv", "--target", "yield", "--groups", "farm", "--categories", "soil"]
    read += ["--bag-feature", "soil", "--ignore", "crop", "--ignore", "sown", "--ignore", "barcode", "--level", 0.8]
    done("fit", "pixels.csv", *read, "--method", "aggregated", "--out", "m6")
    found = done("importance", "m6", "pixels.csv", "--targets", "soils.csv", "--repeats", 1, "--json")
    features = {row["feature"] for row in json.loads(found.stdout)["importance"]}
    assert features == {"red", "soil=s", "soil=t", "soil=other"}
    assert json.loads(found.stdout)["held_out"] and "not used" not in found.stderr
    found = done("predict", "m6", "pixels.csv", "--targets", "soils.csv")
    assert "not used" not in found.stderr
    found = run("importance", "m6", "pixels.csv")
    assert found.exit_code == 1 and "'yield'" in found.stderr and "give one with --targets" in found.stderr


def test_several_targets(folder):
    both = ["--target", "yield", "--target", "protein"]
    more = ["--level", 0.8, "--keep", "barcode", "--report", "r.html"]
    found = done("fit", "pixels.csv", *READ, *both, "--method", "aggregated", *more, "--out", "m2")
    assert "yield: Typical error 1." in found.stdout and " at level 0.8\nWrote m2 (" in found.stdout
    page = (folder / "r.html").read_text()
    assert '<span class="label">yield' in page and '<span class="label">protein' in page
    assert '"kept":["barcode"]' in page and "c47" in page
    files = ["--instances", "i2.csv", "--keep", "barcode", "--json"]
    found = done("predict", "m2", "pixels.csv", "--targets", "yields.csv", *both, *files)
    told = json.loads(found.stdout)
    row = told["predictions"][5]
    model = bw.MultiTarget(bw.Intervals("aggregated", level=0.8)).fit(*read(["yield", "protein"]))
    bags = read(["yield", "protein"])[0]
    np.testing.assert_allclose([row["yield_prediction"], row["protein_prediction"]], model.predict(bags)[5], rtol=1e-12)
    ends = [row[name] for name in ("yield_lower", "yield_upper", "protein_lower", "protein_upper")]
    np.testing.assert_allclose(ends, model.predict_interval(bags)[5].ravel(), rtol=1e-12)
    assert row["protein"] is None and list(told["scores"]) == ["yield", "protein"]
    for some in (["protein"], ["protein", "yield"]):  # one of them, or in another order
        asked = [part for name in some for part in ("--target", name)]
        found = done("predict", "m2", "pixels.csv", "--targets", "yields.csv", *asked, "--json")
        assert json.loads(found.stdout)["scores"] == {name: told["scores"][name] for name in some}
    refused("importance", "m2", "pixels.csv", "--targets", "yields.csv", words="the targets yield, protein. Select one")
    one = ("--target", "protein", "--targets", "yields.csv", "--repeats", 1, "--json")
    assert json.loads(done("importance", "m2", "pixels.csv", *one).stdout)["held_out"]
    other = ("predict", "m2", "pixels.csv", "--targets", "yields.csv", "--target", "rain", "--out", "p2.csv")
    refused(*other, words="has no target 'rain'. Use --target with one of: yield, protein")
    assert not (folder / "p2.csv").exists()
    rows = pd.read_csv("i2.csv")
    assert list(rows)[:4] == ["plot", "instance", "row", "barcode"]
    sums = rows.groupby("plot", sort=False)["protein_contribution"].sum()
    np.testing.assert_allclose(sums, model.predict(bags)[:, 1], rtol=1e-9)


def test_several_targets_are_evaluated_each_in_a_folder(folder):
    both = ["--target", "yield", "--target", "protein"]
    how = ["--method", "aggregated", "--repeats", 1, "--folds", 3, "--json"]
    found = done("evaluate", "pixels.csv", *READ, *both, *how, "--out", "runs")
    assert list(json.loads(found.stdout)) == ["yield", "protein"]
    results = bw.Results.load(folder / "runs" / "yield")
    assert list(results.predictions("aggregated").to_dict("list"))[2:5] == ["plot", "size", "yield"]
    assert len(bw.Results.load(folder / "runs" / "protein").predictions("aggregated")["plot"]) == 15


def test_models_that_are_not_predicted_chunk_by_chunk(folder):
    table = pd.read_csv("pixels.csv", dtype={"plot": str}).merge(pd.read_csv("yields.csv", dtype={"plot": str}))
    table.drop(columns=["barcode", "sown"]).fillna({"protein": 0.0}).to_parquet("one.parquet")
    scan = ("--bag", "plot", "--target", "yield", "--targets", "yields.csv", "--engine", "stream", "--out", "m4")
    refused("fit", "one.parquet", *scan, words="--targets is for tables in memory")
    how = ["one.parquet", "--bag", "plot", "--method", "aggregated", "--no-intervals", "--out", "m5"]
    several = ["--target", "yield", "--target", "protein", "--ignore", "crop"]
    table[["plot", "red"]].to_parquet("two.parquet")
    second = ["two.parquet", *how[1:], "--targets", "yields.csv", "--target", "yield"]
    for fit, match in (
        ([*how, *several], "The model has several targets"),
        (second, "needs a second table, so it predicts in memory only"),
    ):
        done("fit", *fit)
        refused("predict", "m5", "one.parquet", "--engine", "stream", words=match)


def test_a_target_that_cannot_be_a_folder(folder):
    table = pd.read_csv("pixels.csv", dtype={"plot": str})[["plot", "red"]]
    codes = table["plot"].astype("category").cat.codes
    table.assign(**{"t/ha": codes, "b": codes}).to_csv("slash.csv", index=False)
    how = ["--bag", "plot", "--target", "t/ha", "--target", "b", "--method", "aggregated", "--out", "runs2"]
    refused("evaluate", "slash.csv", *how, words="Target 't/ha' cannot be the name of a folder")


def test_check_tells_of_the_second_table(folder):
    found = done("check", "pixels.csv", *READ, "--target", "yield", "--target", "protein", "--ignore", "barcode")
    assert "Target: yield, " in found.stdout and "Target: protein, " in found.stdout
    assert "Features: red, crop=a, crop=b, crop=other, sown_sine, sown_cosine, sown_year;" in found.stdout
    assert "Bag features: rain." in found.stdout


def test_a_target_called_as_a_column_of_results(folder):
    pd.read_csv("yields.csv", dtype={"plot": str})[["plot", "yield"]].rename(columns={"yield": "prediction"}).to_csv(
        "odd.csv", index=False
    )
    how = ["--bag", "plot", "--targets", "odd.csv", "--ignore", "crop", "--ignore", "sown", "--ignore", "barcode"]
    found = done("fit", "pixels.csv", *how, "--method", "aggregated", "--no-intervals", "--out", "m3")
    found = run("predict", "m3", "pixels.csv", "--targets", "odd.csv", "--target", "prediction")
    assert found.stdout.splitlines()[0] == "plot,prediction,target"
    pd.read_csv("pixels.csv", dtype={"plot": str})[["plot", "red"]].rename(columns={"plot": "prediction"}).to_csv(
        "renamed.csv", index=False
    )
    found = run("predict", "m3", "renamed.csv", "--bag", "prediction", "--instances", "i3.csv")
    assert found.stdout.splitlines()[0] == "bag,prediction"
    rows = pd.read_csv("i3.csv", dtype={"bag": str})
    assert list(rows) == ["bag", "instance", "row", "prediction", "contribution"] and rows["bag"][0] == "000"
