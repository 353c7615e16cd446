"""`bagwise reproduce`, as typed: what is wrong is said before hours are spent, and told by the exit code."""

import csv
import json
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy.io import savemat
from tests.helpers.published_files import crop_frame, matrix, write_aerosol
from tests.helpers.toy_estimators import TrainMean
from typer.testing import CliRunner

from bagwise.evaluation import table1
from bagwise.evaluation.plan import Entry

verb = import_module("bagwise.cli.reproduce")  # the package has the function under this name
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(verb.reproduce)

MEAN = "instance-MIR (mean)"


class Flaky(TrainMean):
    """Fails until a file is there."""

    def __init__(self, place=None, shift=0.0, nap=0.0):
        super().__init__(shift, nap)
        self.place = place

    def fit(self, bags, y):
        if self.place is not None and not Path(self.place).exists():
            raise ArithmeticError("the sums do not add up")
        return super().fit(bags, y)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def quick(monkeypatch):
    """Every row by the mean of the training targets: these tests are about the command."""
    monkeypatch.setattr(table1, "table_entries", lambda **_: [Entry("instance-MIR", lambda seed: TrainMean())])


def typed(folder, *more, row=MEAN, environment=None):
    """The command with few folds; its answer, and what it said in one line."""
    rows = () if row is None else ("--row", row)
    words = (folder, *rows, "--repeats", 2, "--folds", 2, "--n-jobs", 1, "--out", folder.parent / "run", *more)
    result = CliRunner().invoke(app, [str(word) for word in words], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result, " ".join(result.stderr.split())


def written(folder):
    return [row["data"] for row in csv.DictReader((folder.parent / "run" / "table1.csv").read_text().splitlines())]


# Cells that fail --------------------------------------------------------------------------------------------------


def test_failed_cells_are_told_as_by_evaluate_and_retried_when_asked(folder, monkeypatch):
    place = folder.parent / "repaired"
    entries = [Entry("instance-MIR", lambda seed: Flaky(str(place)))]
    monkeypatch.setattr(table1, "table_entries", lambda **_: entries)
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    write_aerosol(folder, "MISR2", n_bags=8, instances=5)
    result, said = typed(folder)
    assert result.exit_code == 1
    first = "8 of 8 cells failed. The first is MISR1, instance-MIR, repeat 0, fold 0: ArithmeticError: the sums"
    assert first in said and "--retry-failed runs them again" in said
    assert [line.split()[-3:] for line in result.stdout.splitlines() if line.startswith(MEAN)] == [["-", "-", "4"]] * 2
    place.touch()
    assert typed(folder)[0].exit_code == 1  # as it was
    result, said = typed(folder, "--retry-failed", "--json")
    assert result.exit_code == 0 and [row["failed"] for row in json.loads(result.stdout)] == [0, 0]


# Files that cannot be read ----------------------------------------------------------------------------------------


def infinities(folder):
    values = matrix(*write_aerosol(folder, "MISR1", n_bags=8, instances=5))
    values[3, 4] = np.inf
    savemat(folder / "MISR1.mat", {"MISR1": values})


def no_targets(folder):
    frame = crop_frame(n_bags=8)
    frame.loc[:9, "yield"] = np.nan
    frame.to_csv(folder / "WHEAT.csv", index=False)


DAMAGES = {
    "MISR1.mat cannot be read; it may be cut short, damaged": lambda folder: (folder / "MISR1.mat").write_text("hello"),
    "MISR1.mat: bag 1 has infinite feature values in column 'reflectance_4'; correct the file": infinities,
    "MISR1.mat: folds need at least two bags; there is 1": lambda folder: write_aerosol(folder, "MISR1", n_bags=1),
    "WHEAT.csv: bag 'c0_2003' has a missing or infinite target in column 'yield'; correct the file": no_targets,
    "WHEAT.csv: it has 2 columns; the bag id, features and the target are needed": lambda folder: (
        crop_frame(n_bags=8).iloc[:, :2].to_csv(folder / "WHEAT.csv", index=False)
    ),
    "WHEAT.p: it holds a dict; a data frame or an array is needed": lambda folder: (folder / "WHEAT.p").write_bytes(
        pickle.dumps({"bag": 1})
    ),
    "WHEAT.p needs what is not installed here: No module named 'pandas9'; save it as": lambda folder: (
        folder / "WHEAT.p"
    ).write_bytes(b"cpandas9\nDataFrame\n."),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_file_that_cannot_be_read_is_named_first_and_the_others_run(folder, quick, message):
    write_aerosol(folder, "MODIS", n_bags=8, instances=5, features=12)
    DAMAGES[message](folder)
    result, said = typed(folder, "--trust-pickle")
    name = message[:5]
    assert result.exit_code == 1 and said.endswith(f"not run: {name}; the reason is given above")
    assert message in said.split("MODIS: 8 bags")[0]  # before the first cell
    assert not any(word in said for word in ("--missing", "variable=", "missing=", "leave target out"))
    assert "MODIS, 100 x RMSE" in result.stdout and written(folder) == ["MODIS"]


def test_an_untrusted_pickle_counts_as_one_that_cannot_be_read(folder, quick):
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    crop_frame().to_pickle(folder / "CORN.p")
    result, said = typed(folder)
    assert result.exit_code == 1 and "pass --trust-pickle" in said and "not run: CORN" in said
    assert written(folder) == ["MISR1"]


def test_a_data_set_asked_for_by_name_must_be_there(folder, quick):
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    result, said = typed(folder, "--data", "WHEAT", "--data", "misr1")
    assert result.exit_code == 1 and "there is no WHEAT.csv or WHEAT.csv.gz or WHEAT.parquet" in said
    assert "MISR1, 100 x RMSE" in result.stdout and "not run: WHEAT" in said
    result, said = typed(folder, "--data", "WHEAT")
    assert result.exit_code == 1 and said.endswith(f"nothing to run in {folder}")
    assert typed(folder)[0].exit_code == 0  # not asked for, the others are not missed


def test_the_table_is_written_after_every_data_set(folder, quick, monkeypatch):
    write_aerosol(folder, "MODIS", n_bags=8, instances=5, features=12)
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    run_rows = table1.run_rows

    def stopped(name, *data, **options):
        if name == "MISR1":
            raise OSError("the disk is full")
        return run_rows(name, *data, **options)

    monkeypatch.setattr(table1, "run_rows", stopped)
    result, said = typed(folder)
    assert result.exit_code == 1 and "the disk is full" in said and written(folder) == ["MODIS"]


def test_a_stopped_run_says_what_is_kept_and_goes_on(folder, quick, monkeypatch):
    write_aerosol(folder, "MODIS", n_bags=8, instances=5, features=12)
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    result, said = typed(folder, "--resume")
    assert result.exit_code == 1 and "There is no run in" in said
    run_rows = table1.run_rows

    def stopped(name, *data, **options):
        if name == "MISR1":
            raise KeyboardInterrupt
        return run_rows(name, *data, **options)

    with monkeypatch.context() as patch:
        patch.setattr(table1, "run_rows", stopped)
        result, said = typed(folder)
    assert result.exit_code == 130 and f"4 finished cells are stored in {folder.parent / 'run'}" in said
    result, said = typed(folder, "--resume")
    assert result.exit_code == 0 and written(folder) == ["MODIS", "MISR1"]


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("--folds", 0), ("--folds", 1), ("--repeats", 0), ("--inner-folds", 1), ("--n-jobs", 0)]
)
def test_numbers_that_make_no_protocol_are_refused(folder, words):
    result, said = typed(folder, *words)
    assert result.exit_code == 2 and words[0] in said


# The printed table ------------------------------------------------------------------------------------------------


def row_of(name, *, selection="none", failed=0):
    ours = {"paper": 62.45, "paper_se": 1.54, "paper_gap_in_se": 137.44}
    ours |= {end.replace("paper", to): value for end, value in ours.items() for to in ("nested", "clipped")}
    return {"data": "WHEAT", "row": name, "published": 4.96, "failed": failed, "selection": selection} | ours


ROWS = [row_of(MEAN), row_of("instance-kme-MIR (INV)", selection="paper (optimistic)", failed=3)]


def test_columns_show_the_spread_and_the_difference_in_standard_errors():
    columns = table1._text_columns(ROWS)
    assert columns["paper"] == ["62.45 ± 1.54 (+137.4)", "* 62.45 ± 1.54 (+137.4)"]
    assert columns["cells failed"] == ["0", "3"] and "cells failed" not in table1._text_columns(ROWS[:1])


def test_a_pipe_has_no_width(folder, quick, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    write_aerosol(folder, "MISR1", n_bags=9, instances=5)
    result, _ = typed(folder)
    (line,) = [line for line in result.stdout.splitlines() if line.startswith(MEAN)]
    assert line.count("±") == 3 and line.rstrip().endswith(")")
    assert table1.NOTE in result.stdout


def test_only_what_was_chosen_on_the_scoring_folds_is_called_optimistic(folder, monkeypatch):
    monkeypatch.setattr(table1, "PAPER_BANDWIDTHS", (10.0, 100.0))
    monkeypatch.setattr(table1, "PAPER_PENALTIES", (1e-2, 1e-8))
    write_aerosol(folder, "MISR1", n_bags=12, instances=10)
    more = ("--row", "instance-MIR (median)", "--inner-folds", 2)
    plain, _ = typed(folder, *more)
    assert (
        plain.exit_code == 0 and "optimistic" not in plain.stdout and "*" not in plain.stdout.replace(table1.NOTE, "")
    )
    result, _ = typed(folder, "--row", "instance-kme-MIR (RBF)", *more)
    assert [line.split()[0] for line in result.stdout.splitlines() if " * " in line and "±" in line] == [
        "instance-kme-MIR"
    ]
    assert table1.OPTIMISTIC in result.stdout
    found = {row["row"]: row["selection"] for row in json.loads(typed(folder, *more, "--json")[0].stdout)}
    assert found == {MEAN: "none", "instance-MIR (median)": "none"}
