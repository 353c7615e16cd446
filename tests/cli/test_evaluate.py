"""`bagwise evaluate` and `bagwise reproduce`, as typed."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.published_files import write_aerosol
from tests.helpers.typed import done, refused, run, sample_frame

from bagwise.evaluation import table1


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
    assert len(list(csv.DictReader((tmp_path / "run" / "results.csv").read_text().splitlines()))) == 10
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()}
    again = evaluated(table, tmp_path / "run", "--repeats", 2)
    assert again.stdout == result.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()} == before


def test_without_options_the_recommended_methods_are_compared_in_a_folder_named_after_the_table(
    table, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = ("aggregated", "statistics:linear")
    monkeypatch.setattr("bagwise.cli.options.read_cards", lambda: dict.fromkeys(names, {"question": "Recommended"}))
    basic = ("evaluate", table, "--bag", "site", "--target", "aod", "--groups", "patient", "--ignore", "fold")
    done(*basic)
    rows = list(csv.DictReader((tmp_path / "runs" / "aod" / "results.csv").read_text().splitlines()))
    assert sorted(row["method"] for row in rows) == sorted(names * 5)
    named = done(*basic, "--methods", ",".join(names), "--repeats", 1, "--json", "--resume")
    assert {row["method"] for row in json.loads(named.stdout)["summary"]} == set(names)


def test_json_for_machines(table, tmp_path):
    result = evaluated(
        table, tmp_path, "--repeats", 1, "--json", "--quiet", "--metric", "mae", "--method", "aggregated:default"
    )
    found = json.loads(result.stdout)
    assert result.stderr == "" and found["metric"] == "mae"
    assert [row["cells"] for row in found["summary"]] == [5, 5]
    assert found["comparisons"][0]["difference"] == 0 and found["summary"][0]["nll"] is None


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
    assert [row["fold"] for row in csv.DictReader((tmp_path / "results.csv").read_text().splitlines())] == cells


def test_the_optimistic_way_is_labelled(table, tmp_path):
    paper = ("--selection", "paper", "--repeats", 1, "--folds", 2)
    result = evaluated(table, tmp_path / "both", *paper, "--method", "cluster")
    assert "selection none and paper (optimistic)" in result.stdout and "optimistic (cluster)" in result.stdout
    rows = csv.DictReader((tmp_path / "both" / "results.csv").read_text().splitlines())
    labels = {(row["method"], row["selection"]) for row in rows}
    assert labels == {("aggregated", "none"), ("cluster", "paper (optimistic)")}
    few = ("--repeats", 1, "--folds", 2, "--method", "cluster", "--no-tune")
    assert "selection none: default settings" in evaluated(table, tmp_path / "untuned", *few).stdout


def test_another_plan_in_the_folder_is_told(table, tmp_path):
    evaluated(table, tmp_path, "--repeats", 1)
    result = evaluated(table, tmp_path, "--repeats", 1, "--folds", 3)
    assert "Note:" in result.stderr and "the folds are others" in " ".join(result.stderr.split())


def test_a_failed_cell_shows_in_the_exit_code(table, tmp_path):
    result = evaluated(
        table, tmp_path, "--groups", "patient", "--method", "instance-kme:paper", "--fold-column", "fold", "--quiet",
        roles=("split",),
    )  # fmt: skip
    assert result.exit_code == 1 and "aggregated" in result.stdout
    said = " ".join(result.stderr.split())
    assert "3 of 6 cells failed. The first is instance-kme:paper" in said and "--retry-failed" in said


@pytest.mark.parametrize("command", ["evaluate", "reproduce"])
def test_a_device_is_asked_for_by_name_and_refused_where_there_is_none(table, tmp_path, monkeypatch, command):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    write_aerosol(tmp_path, "MISR1", n_bags=12)
    out, device = tmp_path / "run", ("--device", "cuda")
    runs = {"evaluate": evaluated, "reproduce": lambda _, out, *more: run("reproduce", tmp_path, "--out", out, *more)}
    result = runs[command](table, out, *device)
    assert result.exit_code != 0 and "device='cuda' needs" in " ".join(result.output.split())
    assert not list(out.rglob("cells/*.json"))


# reproduce ------------------------------------------------------------------------------------------------------


def test_table_1_of_one_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "PAPER_BANDWIDTHS", (10.0, 100.0))
    monkeypatch.setattr(table1, "PAPER_PENALTIES", (1e-2, 1e-8))
    write_aerosol(tmp_path, "MISR2", n_bags=12, instances=100, ragged=True)
    rows = [part for row in list(table1.PUBLISHED)[:4] for part in ("--row", row)]
    few = ("--repeats", 2, "--folds", 2, "--inner-folds", 2, "--n-jobs", 1)
    options = ("--data", "misr2", *rows, "--bags-of-100", *few)
    result = done("reproduce", tmp_path, *options, "--out", tmp_path / "run", "--json")
    rows = {row["row"]: row for row in json.loads(result.stdout)}
    assert rows["instance-kme-MIR (INV)"]["published"] == 7.28 and rows["instance-MIR (mean)"]["failed"] == 0
    assert all(np.isfinite([row["paper"], row["nested"], row["paper_se"]]).all() for row in rows.values())
    assert "bags have exactly 100 instances" in " ".join(result.stderr.split())
    shown = run("reproduce", tmp_path, *options, "--out", tmp_path / "run")  # nothing is run twice
    assert "MISR2, 100 x RMSE" in shown.stdout and "paper (optimistic)" in shown.stdout and "±" in shown.stdout
    assert len(list(csv.DictReader((tmp_path / "run" / "table1.csv").read_text().splitlines()))) == len(rows)


@pytest.mark.parametrize(("data", "message"), [((), "nothing to run in"), (("--data", "AOD"), "no data set 'AOD'")])
def test_nothing_to_reproduce(tmp_path, data, message):
    result = run("reproduce", tmp_path, *data)
    assert result.exit_code == 1 and message in " ".join(result.stderr.split())


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
    assert "aggregated by patient:" in result.stdout and "had bags in training" in result.stdout
    found = list(csv.DictReader((tmp_path / "run" / "scores_by.csv").read_text().splitlines()))
    assert [(row["patient"], row["bags"]) for row in found] == [(f"p{i}", "5") for i in range(6)]
    again = evaluated(
        *(table, tmp_path / "grouped", "--repeats", 1, "--groups", "patient", "--by", "patient", "--json"),
        roles=("fold", "split"),
    )
    content = json.loads(again.stdout)
    assert [row["patient"] for row in content["scores_by"]] == [f"p{i}" for i in range(6)] and content["notes"] == []


def test_a_learning_curve(table, tmp_path):
    basic = ("--bag", "site", "--target", "aod", "--ignore", "fold", "--ignore", "split", "--ignore", "patient")
    asked = ("learning-curve", table, *basic, "--repeats", 1, "--folds", 3, "--out", tmp_path / "curve")
    result = done(*asked)
    assert "Twice as many bags would" in result.stdout and "Wrote" in result.stderr
    again = json.loads(run(*asked, "--json", "--times", 4, "--resume").stdout)
    assert again["sentence"].startswith("Four times as many bags") and set(again["law"]) == {
        "floor",
        "slope",
        "exponent",
    }
    assert [row["bags"] for row in again["curve"]] == [8, 10, 12, 14, 17, 20]
    refused(*asked, "--size", 5, "--size", 900, words="whole numbers from 2 to 20, the training bags per fold")
