"""`bagwise reproduce`, as typed: what is wrong is said before hours are spent, and told by the exit code."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from tests.helpers.published_files import crop_frame, matrix, write_aerosol
from tests.helpers.toy_estimators import TrainMean
from tests.helpers.typed import refused, rows_of, run

from bagwise.evaluation import table1
from bagwise.evaluation.plan import Entry

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


def typed(folder, *more, row=MEAN):
    """Run the command with few folds; return its result, and its messages in one line."""
    rows = () if row is None else ("--row", row)
    few = ("--repeats", 2, "--folds", 2, "--n-jobs", 1, "--out", folder.parent / "run")
    result = run("reproduce", folder, *rows, *few, *more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result, " ".join(result.stderr.split())


def written(folder):
    return [row["data"] for row in rows_of(folder.parent / "run" / "table1.csv")]


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
    "WHEAT.csv: it has 2 columns; expected the bag id, at least one feature and the target": lambda folder: (
        crop_frame(n_bags=8).iloc[:, :2].to_csv(folder / "WHEAT.csv", index=False)
    ),
    "WHEAT.p: it contains a dict; expected a data frame or an array": lambda folder: (folder / "WHEAT.p").write_bytes(
        pickle.dumps({"bag": 1})
    ),
    "WHEAT.p needs a missing package: No module named 'pandas9'; save it as": lambda folder: (
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


def test_an_untrusted_pickle_and_a_missing_file_count_as_unreadable(folder, quick):
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    result, said = typed(folder, "--data", "WHEAT", "--data", "misr1")
    assert result.exit_code == 1 and "there is no WHEAT.csv or WHEAT.csv.gz or WHEAT.parquet" in said
    assert "MISR1, 100 x RMSE" in result.stdout and "not run: WHEAT" in said
    result, said = typed(folder, "--data", "WHEAT")
    assert result.exit_code == 1 and said.endswith(f"nothing to run in {folder}")
    assert typed(folder)[0].exit_code == 0  # files that are not named may be missing
    crop_frame().to_pickle(folder / "CORN.p")
    result, said = typed(folder)
    assert result.exit_code == 1 and "Pass --trust-pickle" in said and "not run: CORN" in said
    assert written(folder) == ["MISR1"]
    refused("reproduce", folder, "--data", "AOD", words="no data set 'AOD'")
    (folder.parent / "empty").mkdir()
    refused("reproduce", folder.parent / "empty", words="nothing to run in")


@pytest.fixture
def stop(monkeypatch):
    """Return a function that makes MISR1 end with an error."""
    run_rows = table1.run_rows

    def by(error):
        def stopped(name, *data, **options):
            if name == "MISR1":
                raise error
            return run_rows(name, *data, **options)

        monkeypatch.setattr(table1, "run_rows", stopped if error else run_rows)

    return by


def test_a_stopped_run_keeps_what_is_finished_and_continues(folder, quick, stop):
    write_aerosol(folder, "MODIS", n_bags=8, instances=5, features=12)
    write_aerosol(folder, "MISR1", n_bags=8, instances=5)
    result, said = typed(folder, "--resume")
    assert result.exit_code == 1 and "There is no run in" in said
    stop(OSError("the disk is full"))
    result, said = typed(folder)
    assert result.exit_code == 1 and "the disk is full" in said and written(folder) == ["MODIS"]
    stop(KeyboardInterrupt())
    result, said = typed(folder)
    assert result.exit_code == 130 and f"4 finished cells are stored in {folder.parent / 'run'}" in said
    stop(None)
    result, said = typed(folder, "--resume")
    assert result.exit_code == 0 and written(folder) == ["MODIS", "MISR1"]


# The printed table ------------------------------------------------------------------------------------------------


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
    write_aerosol(folder, "MISR2", n_bags=14, instances=100, ragged=True)
    more = ("--row", "instance-MIR (median)", "--inner-folds", 2, "--bags-of-100")
    plain, said = typed(folder, *more)
    assert plain.exit_code == 0 and "optimistic" not in plain.stdout and "bags have exactly 100 instances" in said
    result, _ = typed(folder, "--row", "instance-kme-MIR (RBF)", *more)
    marked = [line.split()[0] for line in result.stdout.splitlines() if " * " in line and "±" in line]
    assert marked == ["instance-kme-MIR"] and table1.OPTIMISTIC in result.stdout
    rows = json.loads(typed(folder, *more, "--json")[0].stdout)
    assert {row["row"]: row["selection"] for row in rows} == {MEAN: "none", "instance-MIR (median)": "none"}
    assert all(np.isfinite([row["paper"], row["nested"], row["paper_se"]]).all() for row in rows)
