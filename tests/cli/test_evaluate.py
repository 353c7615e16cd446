"""`bagwise evaluate` and `bagwise learning-curve`, as typed."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, rows_of, run, sample_frame

import bagwise as bw
from bagwise.evaluation import evaluation
from bagwise.evaluation.plan import run_cell


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    frame = sample_frame(30)
    frame = frame.assign(fold=frame.site % 3, split=np.where(frame.site < 20, "train", "test"))
    frame = frame.assign(patient=[f"p{site // 5}" for site in frame.site])
    path = tmp_path_factory.mktemp("table") / "aod.csv"
    frame.to_csv(path, index=False)
    return path


def evaluated(table, out, *more, roles=("fold", "split", "patient")):
    """The command with what every table here needs; columns that are no features are ignored."""
    ignored = [part for name in roles for part in ("--ignore", name)]
    basic = ["--bag", "site", "--target", "aod", "--method", "aggregated", "--out", out, *ignored]
    return run("evaluate", table, *basic, *more)


def test_a_table_on_stdout_and_files_in_the_folder(table, tmp_path):
    result = evaluated(table, tmp_path / "run", "--repeats", 2)
    assert result.exit_code == 0, result.output
    assert "aod, selection none: default settings" in result.stdout  # it chooses its penalty by itself
    assert "aggregated" in result.stdout and "30 bags" in result.stderr
    assert len(rows_of(tmp_path / "run" / "results.csv")) == 10
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()}
    again = evaluated(table, tmp_path / "run", "--repeats", 2)
    assert again.stdout == result.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()} == before


def test_by_default_recommended_methods_are_compared_in_a_folder_named_after_the_table(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("aggregated", "statistics:linear")
    monkeypatch.setattr("bagwise.cli.options.read_cards", lambda: dict.fromkeys(names, {"question": "Recommended"}))
    basic = ("evaluate", table, "--bag", "site", "--target", "aod", "--groups", "patient", "--ignore", "fold")
    done(*basic)
    rows = rows_of(tmp_path / "runs" / "aod" / "results.csv")
    assert sorted(row["method"] for row in rows) == sorted(names * 5)
    named = done(*basic, "--methods", ",".join(names), "--repeats", 1, "--json", "--resume")
    assert {row["method"] for row in json.loads(named.stdout)["summary"]} == set(names)


def test_json_for_machines(table, tmp_path):
    methods = ("--method", "aggregated:default", "--method", "blr")
    result = evaluated(
        table, tmp_path, "--repeats", 1, "--json", "--quiet", "--metric", "coverage", "--level", 0.5, *methods
    )
    found = json.loads(result.stdout)
    assert result.stderr == "" and found["metric"] == "coverage"
    assert [row["cells"] for row in found["summary"]] == [0, 0, 5] and found["summary"][0]["nll"] is None
    assert found["comparisons"][0]["difference"] is None and bw.Results.load(tmp_path).level == 0.5


@pytest.mark.parametrize(
    ("options", "left", "cells"),
    [
        (("--fold-column", "fold"), ("split", "patient"), ["0", "1", "2"]),
        (("--split-column", "split"), ("fold", "patient"), ["test"]),
        (("--groups", "patient", "--folds", 3, "--repeats", 1), ("fold", "split"), ["0", "1", "2"]),
    ],
    ids=["folds", "split", "groups"],
)
def test_columns_that_fix_the_protocol(table, tmp_path, options, left, cells):
    result = evaluated(table, tmp_path, *options, roles=left)
    assert result.exit_code == 0, result.output
    assert "3 features" in result.stderr  # none of the roles became one
    assert [row["fold"] for row in rows_of(tmp_path / "results.csv")] == cells


def test_the_optimistic_way_is_labelled(table, tmp_path):
    paper = ("--selection", "paper", "--repeats", 1, "--folds", 2)
    result = evaluated(table, tmp_path / "both", *paper, "--method", "cluster")
    assert "selection none and paper (optimistic)" in result.stdout and "optimistic (cluster)" in result.stdout
    rows = rows_of(tmp_path / "both" / "results.csv")
    labels = {(row["method"], row["selection"]) for row in rows}
    assert labels == {("aggregated", "none"), ("cluster", "paper (optimistic)")}
    few = ("--repeats", 1, "--folds", 2, "--method", "cluster", "--no-tune")
    assert "selection none: default settings" in evaluated(table, tmp_path / "untuned", *few).stdout


def test_a_failed_cell_shows_in_the_exit_code(table, tmp_path):
    roles = ("--groups", "patient", "--fold-column", "fold")
    result = evaluated(table, tmp_path, *roles, "--method", "instance-kme:paper", "--quiet", roles=("split",))
    assert result.exit_code == 1 and "aggregated" in result.stdout
    said = " ".join(result.stderr.split())
    assert "3 of 6 cells failed. The first is instance-kme:paper" in said and "--retry-failed" in said


def test_a_missing_device_is_refused(table, tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    result = evaluated(table, tmp_path / "run", "--device", "cuda")
    assert result.exit_code != 0 and "device='cuda' needs" in " ".join(result.output.split())
    assert not list((tmp_path / "run").rglob("cells/*.json"))


def test_several_tables_are_one(table, tmp_path):
    """The rows of a bag may lie in two files; the run knows both."""
    frame = pd.read_csv(table)
    frame[:50].to_csv(tmp_path / "part-1.csv", index=False)
    frame[50:].to_csv(tmp_path / "part-2.csv", index=False)
    result = evaluated(tmp_path / "part-*.csv", tmp_path / "run", "--repeats", 1, "--json", "--quiet")
    whole = evaluated(table, tmp_path / "whole", "--repeats", 1, "--json", "--quiet")
    scores = [json.loads(one.stdout)["summary"][0]["rmse"] for one in (result, whole)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)
    record = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert [Path(path).name for path in record["origin"]["path"]] == ["part-1.csv", "part-2.csv"]


def test_scores_by_a_column(table, tmp_path):
    result = evaluated(table, tmp_path / "run", "--repeats", 1, "--by", "patient", roles=("fold", "split"))
    assert result.exit_code == 0, result.output
    assert "aggregated by patient:" in result.stdout and "had bags both in the training" in result.stdout
    found = rows_of(tmp_path / "run" / "scores_by.csv")
    assert [(row["patient"], row["bags"]) for row in found] == [(f"p{i}", "5") for i in range(6)]
    groups = ("--groups", "patient", "--by", "patient", "--json")
    again = evaluated(table, tmp_path / "grouped", "--repeats", 1, *groups, roles=("fold", "split"))
    content = json.loads(again.stdout)
    assert [row["patient"] for row in content["scores_by"]] == [f"p{i}" for i in range(6)] and content["notes"] == []


def test_a_learning_curve(table, tmp_path):
    basic = ("--bag", "site", "--target", "aod", "--ignore", "fold", "--ignore", "split", "--ignore", "patient")
    asked = ("learning-curve", table, *basic, "--repeats", 1, "--folds", 3, "--out", tmp_path / "curve")
    result = done(*asked)
    assert "Twice as many bags would" in result.stdout and "Wrote" in result.stderr
    again = json.loads(run(*asked, "--json", "--times", 4, "--resume").stdout)
    assert again["sentence"].startswith("Four times as many bags")
    assert set(again["law"]) == {"floor", "slope", "exponent"}
    assert [row["bags"] for row in again["curve"]] == [8, 10, 12, 14, 17, 20]
    refused(*asked, "--size", 5, "--size", 900, words="whole numbers from 2 to 20, the training bags per fold")


# Runs that are interrupted and continued ----------------------------------------------------------------------------


def test_resume_is_the_same_command_and_needs_a_beginning(table, tmp_path):
    result = evaluated(table, tmp_path / "run", "--resume")
    assert result.exit_code == 1 and "There is no run in" in result.stderr and not (tmp_path / "run").exists()
    first = evaluated(table, tmp_path / "run", "--repeats", 1)
    again = evaluated(table, tmp_path / "run", "--repeats", 1, "--resume")
    assert again.exit_code == 0 and again.stdout == first.stdout
    assert "--resume" not in json.loads((tmp_path / "run" / "plan.json").read_text())["origin"]["command"]


@pytest.fixture
def stopped_after(monkeypatch):
    """Ctrl-C in the middle of a cell, after so many were finished."""

    def stop_after(cells):
        left = iter(range(cells))

        def interrupted(cell, bags, y):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return run_cell(cell, bags, y)

        monkeypatch.setattr(evaluation, "run_cell", interrupted)

    return stop_after


@pytest.mark.parametrize(("cells", "kept"), [(3, "3 finished cells are stored"), (1, "1 finished cell is stored")])
def test_an_interrupt_says_what_is_stored(table, tmp_path, stopped_after, cells, kept):
    stopped_after(cells)
    result = evaluated(table, tmp_path / "run", "--repeats", 1, "--quiet")
    assert result.exit_code == 130 and "Traceback" not in result.output
    text = f"bagwise evaluate: Stopped; {kept} in {tmp_path / 'run'}. The same command continues from there."
    assert " ".join(result.stderr.split()) == text
    stopped_after(5 - cells)
    assert evaluated(table, tmp_path / "run", "--repeats", 1, "--resume").exit_code == 0
    for cell in (tmp_path / "run" / "cells").iterdir():
        cell.write_text("{")
    refused("report", tmp_path / "run", words="the evaluation has no results: 5 of 5 cells")
    assert not (tmp_path / "run" / "report.html").exists()


def test_methods_of_an_earlier_run_are_named_and_a_terminal_has_a_width(table, tmp_path, monkeypatch):
    two = ("--repeats", 2, "--method", "statistics:linear")
    monkeypatch.setenv("COLUMNS", "45")
    lines = evaluated(table, tmp_path, *two).stdout.splitlines()
    assert lines[1].endswith("seconds per split") and lines[3].startswith("statistics:linear ")
    with monkeypatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
        lines = re.sub(r"\x1b\[[0-9;]*m", "", evaluated(table, tmp_path, *two).stdout).splitlines()
    assert lines[3].startswith("statistics:linear  0.") and max(map(len, lines[1:4])) <= 45
    assert "from best" in lines[1] and "rank" not in lines[1]
    said = " ".join(evaluated(table, tmp_path, "--repeats", 2).stderr.split())
    assert "Note: the tables in" in said and "no longer of statistics:linear, which another run compared there" in said


def test_each_command_takes_each_metric(table, tmp_path):
    """The median absolute error is one entry of `METRICS` and no branch."""
    columns = ("--bag", "site", "--target", "aod", "--ignore", "fold", "--ignore", "split", "--ignore", "patient")
    model, page, metric = tmp_path / "m.bagwise", tmp_path / "m.html", ("--metric", "medae")
    fast = ("--time-budget", 2, "--n-jobs", 1)
    fitted = done("fit", table, *columns, *fast, *metric, "--out", model, "--report", page).stdout
    assert "(median absolute error of held-out bags; " in fitted
    assert "Typical error (median absolute error)" in page.read_text()
    assert "median absolute error 0." in done("importance", model, table, "--repeats", 1, *metric).stdout
    told = json.loads(evaluated(table, tmp_path / "run", "--repeats", 1, "--json", *metric).stdout)
    assert told["metric"] == "medae" and "median absolute error" in told["verdict"]
    assert bw.Results.load(tmp_path / "run").ranked()[0]["medae"] == told["summary"][0]["medae"]
    curve = ("learning-curve", table, *columns, "--repeats", 1, *metric, "--out", tmp_path / "curve")
    assert "the median absolute error" in done(*curve).stdout
