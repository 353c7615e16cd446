"""`bagwise fit` and `bagwise predict`, as typed."""

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, rows_of, run, sample_frame

import bagwise as bw
from bagwise.model_files import names as allowed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table to learn from, new bags to predict, and a model."""
    place = tmp_path_factory.mktemp("cli")
    for name, seed in (("old", 0), ("new", 1)):
        frame = sample_frame(40, random_state=seed)
        frame.assign(site="s" + frame.site.astype(str), year=2019).to_csv(place / f"{name}.csv", index=False)
    result = fit(place, "--out", place / "model.bagwise")
    assert result.exit_code == 0, result.output
    return place


def fit(place, *more, method="aggregated"):
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year")
    return run("fit", place / "old.csv", *columns, "--method", method, *more)


def load(place, name):
    return bw.load(place / f"{name}.csv", bag="site", target="aod", ignore=["year"])


def test_the_predictions_are_those_of_the_library(folder, tmp_path):
    done("predict", folder / "model.bagwise", folder / "new.csv", "--out", tmp_path / "p.csv")
    model = bw.Intervals("aggregated").fit(*load(folder, "old"))
    new, _ = load(folder, "new")
    found = rows_of(tmp_path / "p.csv")
    assert [row["site"] for row in found] == new.ids.tolist()
    np.testing.assert_allclose([float(row["prediction"]) for row in found], model.predict(new), rtol=1e-12)
    bounds = [[float(row["lower"]), float(row["upper"])] for row in found]
    np.testing.assert_allclose(bounds, model.predict_interval(new), rtol=1e-12)


def test_contributions_of_instances_add_up(folder, tmp_path):
    files = ("--out", tmp_path / "p.parquet", "--instances", tmp_path / "i.csv")
    done("predict", folder / "model.bagwise", folder / "new.csv", *files)
    bags, instances = pd.read_parquet(tmp_path / "p.parquet"), pd.read_csv(tmp_path / "i.csv")
    assert list(instances) == ["site", "instance", "row", "prediction", "contribution"]
    sums = instances.groupby("site", sort=False)["contribution"].sum()
    np.testing.assert_allclose(sums[bags["site"]].to_numpy(), bags["prediction"], rtol=1e-9)
    files = ("--out", tmp_path / "q.csv", "--instances", tmp_path / "i.txt")
    refused("predict", folder / "model.bagwise", folder / "new.csv", *files, words="should end in .csv")
    assert not (tmp_path / "q.csv").exists()


def test_scores_are_results_on_stdout_or_stderr(folder, tmp_path):
    """They are beside a table on stdout; --quiet does not hide them."""
    known = ("predict", folder / "model.bagwise", folder / "new.csv", "--target", "aod", "--quiet")
    model, (new, y) = bw.load_model(folder / "model.bagwise"), load(folder, "new")
    errors = model.predict(new) - y
    rmse, mae = np.sqrt(np.mean(errors**2)), np.mean(np.abs(errors))
    share = bw.intervals.coverage(y, model.predict_interval(new))
    words = f"Against the known targets: RMSE {rmse:.4g}, MAE {mae:.4g}; {share:.0%} of the targets are inside their"
    words += " intervals\n"
    piped = run(*known)
    rows = rows_of(piped.stdout)
    assert (
        piped.stderr == words and list(rows[0]) == ["site", "prediction", "lower", "upper", "aod"] and len(rows) == 40
    )
    written = run(*known, "--out", tmp_path / "p.csv")
    assert written.stdout == words and written.stderr == ""
    quiet = run("predict", folder / "model.bagwise", folder / "new.csv", "--json", "--quiet")
    assert quiet.stderr == "" and json.loads(quiet.stdout)["scores"] is None
    found = json.loads(run(*known, "--json").stdout)
    assert list(found) == ["predictions", "scores"]
    numbers = [found["scores"][name] for name in ("rmse", "mae", "coverage")]
    np.testing.assert_allclose(numbers, [rmse, mae, share], rtol=1e-9)


def test_a_model_without_intervals(folder, tmp_path):
    assert fit(folder, "--out", tmp_path / "m.bagwise", "--no-intervals").exit_code == 0
    result = run("predict", tmp_path / "m.bagwise", folder / "new.csv")
    assert result.stdout.splitlines()[0] == "site,prediction"
    predict = ("predict", tmp_path / "m.bagwise", folder / "new.csv")
    refused(*predict, "--level", 0.9, words="was fitted without intervals. Fit it again without --no-int")
    refused(*predict, "--quantile", 0.5, words="fitted without intervals, so it has no quantiles")


def test_auto_is_the_default_and_says_what_it_chose(folder, tmp_path):
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year", "--time-budget", 1)
    asked = ("fit", folder / "old.csv", *columns, "--out", tmp_path / "m.bagwise", "--n-jobs", 1)
    result = done(*asked, "--work", tmp_path / "work")
    baselines = r"\S+ for the mean of the targets, \S+ for bag means \+ forest"
    line = rf"Typical error \S+, [a-z ]+ \(RMSE of held-out bags; {baselines}\), intervals at level 0.9"
    assert re.fullmatch(line, result.stdout.splitlines()[0])
    assert "aggregated" in result.stderr and "above the best" in result.stderr
    again = run(*asked, "--work", tmp_path / "work", "--paper", "--metric", "mae")
    assert "Typical error" in again.stdout and "(MAE of held-out bags; " in again.stdout
    assert "the method auto of bagwise" in again.stdout and "conformal" in again.stdout
    assert bw.model_files.read_header(tmp_path / "m.bagwise")["method"] == "auto"
    result = done("predict", tmp_path / "m.bagwise", folder / "new.csv", "--out", tmp_path / "p.csv")
    assert len(rows_of(tmp_path / "p.csv")) == 40


def test_the_first_line_of_a_fit(folder, tmp_path):
    """The error, that of the mean, the level of intervals, the file; the paragraph for papers only if asked for."""
    told = json.loads(fit(folder, "--out", tmp_path / "m.bagwise", "--json", "--quiet").stdout)
    rmse, mean = told["held_out"]["rmse"], told["held_out"]["rmse_of_mean"]
    verdict, forest = told["verdict"].lower(), told["held_out"]["rmse_of_forest"]
    baselines = f"{mean:.4g} for the mean of the targets, {forest:.4g} for bag means + forest"
    errors = f"Typical error {rmse:.4g}, {verdict} (RMSE of held-out bags; {baselines})"
    plain = fit(folder, "--out", tmp_path / "m.bagwise", "--level", 0.8, "--quiet")
    size = f"{(tmp_path / 'm.bagwise').stat().st_size / 1e3:.0f} kB"
    assert plain.stdout.splitlines() == [
        f"{errors}, intervals at level 0.8",
        f"Wrote {tmp_path / 'm.bagwise'} ({size})",
    ]
    assert plain.stderr == ""
    paper = fit(folder, "--out", tmp_path / "m.bagwise", "--paper")
    assert paper.stdout.startswith(f"{errors}, intervals at level 0.9\n") and told["paragraph"] in paper.stdout
    bare = fit(folder, "--out", tmp_path / "m.bagwise", "--no-intervals", method="salience")
    assert bare.stdout.startswith("The error is not known, because no bag was held out; no intervals\nWrote")


def test_an_interrupt_tells_what_is_kept(folder, tmp_path, monkeypatch):
    from bagwise.auto.cross_validation import CrossValidation

    run_tasks, finished = CrossValidation._run, []

    def interrupted(self, tasks):
        if len(finished) == 7:
            raise KeyboardInterrupt
        finished.extend(tasks)
        return run_tasks(self, tasks)

    monkeypatch.setattr(CrossValidation, "_run", interrupted)
    asked = ("--out", tmp_path / "m.bagwise", "--n-jobs", 1)
    result = fit(folder, *asked, "--work", tmp_path / "w", method="auto:quick")
    words = f"Stopped; 7 finished fits are stored in {tmp_path / 'w'}. The same command continues from there.\n"
    assert result.exit_code == 130 and result.stderr.endswith(words)
    result = fit(folder, *asked, method="auto:quick")
    assert result.exit_code == 130
    assert "bagwise fit: Stopped. Nothing is stored. With --work DIR" in result.stderr


def test_properties_of_the_bag(folder, tmp_path):
    """A bag feature that was found by itself is asked for by name when predicting."""
    frame = pd.read_csv(folder / "old.csv")
    frame["angle"] = frame["site"].map({site: i / 40 for i, site in enumerate(frame["site"].unique())})
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year", "--bag-feature", "auto")
    done("fit", tmp_path / "t.csv", *columns, "--method", "aggregated", "--out", tmp_path / "m.bagwise")
    done("predict", tmp_path / "m.bagwise", tmp_path / "t.csv")
    refused("predict", tmp_path / "m.bagwise", folder / "new.csv", words="there is no column 'angle'")


def test_too_few_bags_for_intervals(folder, tmp_path):
    frame = pd.read_csv(folder / "old.csv")
    frame[frame["site"].isin([f"s{i}" for i in range(6)])].to_csv(tmp_path / "t.csv", index=False)
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year", "--method", "aggregated")
    result = done("fit", tmp_path / "t.csv", *columns, "--out", tmp_path / "m.bagwise")
    assert "Note:" in result.stderr and "conformal" not in result.stdout
    result = done("predict", tmp_path / "m.bagwise", tmp_path / "t.csv")
    assert result.stdout.splitlines()[0] == "site,prediction"
    assert "No intervals: level 0.9 needs at least 9" in result.stderr and "at most 0.857" in result.stderr
    result = done("predict", tmp_path / "m.bagwise", tmp_path / "t.csv", "--level", 0.8)
    assert result.stdout.splitlines()[0] == "site,prediction,lower,upper"
    refused("predict", tmp_path / "m.bagwise", tmp_path / "t.csv", "--level", 0.9, words="level of at most 0.857")


def test_doubts_about_a_table_are_voiced_while_fitting(folder, tmp_path):
    frame = pd.read_csv(folder / "old.csv").assign(row=range(len(pd.read_csv(folder / "old.csv"))), note="x")
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year", "--method", "aggregated")
    result = run("fit", tmp_path / "t.csv", *columns, "--out", tmp_path / "m.bagwise")
    assert "Note: column 'row': counts the rows" in result.stderr
    assert "Note: column 'note' (String) is not numeric and was left out" in result.stderr


def test_the_version():
    assert run("--version").stdout.strip() == bw.__version__
    module = subprocess.run([sys.executable, "-m", "bagwise", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout.strip() == bw.__version__


def test_an_output_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-c", "from bagwise.cli import run; run()", "methods"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    words = "bagwise: the output cannot be written (No space left on device)"
    assert ran.returncode == 1 and ran.stderr.strip() == words


def test_weights_and_archives_of_bags(folder, tmp_path):
    """A weight column was refused after the whole fit; an archive of bags could be learned from but not predicted."""
    frame = pd.read_csv(folder / "old.csv").assign(area=1.0)
    frame.loc[::3, "area"] = 2.5
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--bag", "site", "--target", "aod", "--ignore", "year", "--weights", "area", "--method", "aggregated")
    result = done("fit", tmp_path / "t.csv", *columns, "--out", tmp_path / "m.bagwise")
    bags, y = bw.load(tmp_path / "t.csv", bag="site", target="aod", ignore=["year"], weights="area")
    bw.save_npz(tmp_path / "t.npz", bags, y)
    found = []
    for source in ("t.csv", "t.npz"):
        result = done("predict", tmp_path / "m.bagwise", tmp_path / source, "--quiet")
        found.append([float(row["prediction"]) for row in rows_of(result.stdout)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    np.testing.assert_allclose(found[0], bw.method("aggregated").fit(bags, y).predict(bags), rtol=1e-9)
    result = done("fit", tmp_path / "t.npz", "--method", "aggregated", "--out", tmp_path / "n.bagwise")
    done("predict", tmp_path / "n.bagwise", tmp_path / "t.npz")


# --- a long fit is not lost


def test_a_method_that_cannot_be_saved_is_not_fitted(tmp_path, monkeypatch):
    """As with a scikit-learn that gives the parts of its trees other names; the table is not even read."""
    monkeypatch.setattr(allowed, "INNER", {name for name in allowed.INNER if not name.endswith(".TreePredictor")})
    words = "cannot be saved: it holds sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
    allowed.is_allowed.cache_clear()
    try:
        refused("fit", tmp_path / "none.parquet", "--method", "auto", "--bag", "b", words=words)
    finally:
        allowed.is_allowed.cache_clear()


def test_a_model_whose_folder_is_full_is_saved_elsewhere(folder, tmp_path, monkeypatch):
    def replace(path, write):
        if Path(path).parent == tmp_path:
            raise OSError(28, "No space left on device", str(path))
        write(Path(path))

    monkeypatch.setattr("bagwise.model_files.model_file.replace_file", replace)
    result = fit(folder, "--out", tmp_path / "m.bagwise")
    said = "".join(result.stderr.split("\n"))
    assert result.exit_code == 1 and "No space left on device" in said
    kept = Path(re.search(r"The fitted model was saved as (\S+m\.bagwise) instead; move it", said)[1])
    new, _ = load(folder, "new")
    expected = bw.load_model(folder / "model.bagwise").predict(new)
    np.testing.assert_array_equal(bw.load_model(kept).predict(new), expected)
    shutil.rmtree(kept.parent)


def test_a_fit_that_cannot_be_saved_says_what_can_be_done(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.model_files.try_saving", lambda model: None)
    monkeypatch.setattr("bagwise.model_files.names.NAMES", {})
    result = fit(folder, "--out", tmp_path / "m.bagwise")
    lost = "The fitted model is lost. Fit another method (`bagwise methods`), or fit in Python"
    assert result.exit_code == 1 and lost in " ".join(result.stderr.split())


def test_ids_that_spreadsheets_compute_can_be_written_as_text(folder, tmp_path):
    """They are written as they are, unless a safe form is asked for."""
    frame = pd.read_csv(folder / "new.csv")
    frame.assign(site="=1+" + frame.site).to_parquet(tmp_path / "t.parquet")
    for more, first in (([], "=1+s0"), (["--spreadsheet-safe"], "'=1+s0")):
        files = ["--out", tmp_path / "p.csv", "--instances", tmp_path / "i.csv"]
        done("predict", folder / "model.bagwise", tmp_path / "t.parquet", *files, *more)
        printed = run("predict", folder / "model.bagwise", tmp_path / "t.parquet", "--quiet", *more)
        for source in (tmp_path / "p.csv", tmp_path / "i.csv", io.StringIO(printed.stdout)):
            assert pd.read_csv(source).site[0] == first


def test_quantile_scores_and_columns_of_the_distribution(folder, tmp_path):
    place = tmp_path / "q.bagwise"
    result = fit(folder, "--scores", "quantile", "--paper", "--out", place, "--report", tmp_path / "q.html")
    assert result.exit_code == 0, result.output
    assert "around quantiles of the error (Romano et al. 2019)" in result.stdout
    page = (tmp_path / "q.html").read_text()
    assert "Do the intervals hold for every kind of bag?" in page and "all bags" in page
    asked = ("--out", tmp_path / "p.csv", "--quantile", "0.1", "--quantile", "0.5", "--target", "aod")
    result = done("predict", place, folder / "new.csv", *asked)
    model = bw.Intervals("aggregated", scores="quantile").fit(*load(folder, "old"))
    new, y = load(folder, "new")
    found = rows_of(tmp_path / "p.csv")
    assert list(found[0]) == ["site", "prediction", "lower", "upper", "q0.1", "q0.5", "aod"]
    distribution = model.predict_distribution(new)
    columns = [[float(row["q0.1"]), float(row["q0.5"])] for row in found]
    np.testing.assert_allclose(columns, distribution.quantile([0.1, 0.5]), rtol=1e-9)
    assert f"CRPS {distribution.crps(y).mean():.4g}" in result.stdout


def test_a_model_worse_than_the_mean_says_so(tmp_path):
    """On noise: in the first line of fit, in its JSON, below the table of evaluate, and on the page."""
    rng = np.random.default_rng(0)
    lines = [f"{bag},{x},{target}" for bag, target in enumerate(rng.normal(size=40)) for x in rng.normal(size=3)]
    (tmp_path / "noise.csv").write_text("\n".join(["bag,x,target", *lines]))
    asked = (tmp_path / "noise.csv", "--bag", "bag", "--target", "target", "--method", "statistics", "--quiet")
    first = run("fit", *asked, "--out", tmp_path / "m.bagwise", "--report", tmp_path / "m.html").stdout
    assert first.startswith("Typical error") and ", worse than the mean (RMSE of held-out bags; " in first
    assert "Worse than the mean" in (tmp_path / "m.html").read_text()
    compared = run("evaluate", *asked, "--repeats", 1, "--out", tmp_path / "run").stdout
    assert "statistics: worse than the mean. RMSE" in compared and "bag means + forest" in compared
