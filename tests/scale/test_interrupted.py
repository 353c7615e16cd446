"""A fit whose process has ended goes on from its work folder, and gives the same model."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tests.helpers.cut_tables import SHARED, cut, scanned, small
from tests.helpers.killed_fits import Ended, Ending

import bagwise as bw
from bagwise.execution import Processes
from bagwise.scale import fit_scan, passes

RIDGE = "instance-kme:ridge"


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    return cut(table, tmp_path_factory.mktemp("cut"), 1)


@pytest.fixture(scope="module")
def source(folder):
    return scanned(folder, chunk_rows=350)


@pytest.fixture(scope="module")
def bags(table):
    return bw.load(table, bag="bag", target="y", ignore=["site"])[0]


@pytest.fixture(scope="module")
def whole(source):
    """The tasks of each pass of a fit, and the model."""
    counted = Ending()
    return fit_scan(source, small(RIDGE), executor=counted), counted.tasks


@pytest.mark.parametrize("at", ["partition", "load", "fold-sums", "polynomials"])
def test_a_fit_that_ended_goes_on_with_the_same_bits(at, source, bags, whole, tmp_path):
    model, tasks = whole
    number = tasks[at] // 2
    with pytest.raises(Ended):
        fit_scan(source, small(RIDGE), executor=Ending(at, number), work=tmp_path)
    rest = Ending()
    again = fit_scan(source, small(RIDGE), executor=rest, work=tmp_path)
    assert rest.tasks[at] == tasks[at] - number  # nothing that was finished is made again
    assert at == "partition" or "partition" not in rest.tasks
    assert (again.predict(bags) == model.predict(bags)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*[param.values[0] for param in SHARED], "auto"])
def test_a_fit_that_ended_anywhere_goes_on_with_the_same_bits(name, source, bags, tmp_path):
    counted = Ending()
    expected = fit_scan(source, name, executor=counted).predict(bags)
    for at, n_tasks in counted.tasks.items():
        with pytest.raises(Ended):
            fit_scan(source, name, executor=Ending(at, n_tasks - 1), work=tmp_path / at)
        assert (fit_scan(source, name, work=tmp_path / at).predict(bags) == expected).all()


def test_a_fit_that_had_ended_reads_nothing_again(source, bags, whole, tmp_path):
    fit_scan(source, small(RIDGE), work=tmp_path, executor=Processes(2))
    again = Ending()
    model = fit_scan(source, small(RIDGE), executor=again, work=tmp_path)
    assert not again.tasks and (model.predict(bags) == whole[0].predict(bags)).all()


def test_a_result_that_is_damaged_is_made_again(source, bags, whole, tmp_path):
    fit_scan(source, small(RIDGE), work=tmp_path)
    for name in ("fold-sums", "predictions"):
        damaged = sorted(tmp_path.glob(f"cells/*/*-{name}/00001/*.npy"))[0]
        damaged.write_bytes(damaged.read_bytes()[:100])
    again = Ending()
    model = fit_scan(source, small(RIDGE), executor=again, work=tmp_path)
    assert again.tasks == {"fold-sums": 1, "predictions": 1}
    assert (model.predict(bags) == whole[0].predict(bags)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("at", "number"), [("partition", 3), ("fold-sums", 3), ("polynomials", 2)])
def test_a_process_that_was_killed(at, number, folder, source, bags, whole, tmp_path):
    work = tmp_path / "work"
    script = Path(__file__).parents[1] / "helpers" / "killed_fits.py"
    command = [sys.executable, script, folder, work, RIDGE, at, str(number)]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, str(Path(bw.__file__).parents[1])])
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    rest = Ending()
    model = fit_scan(source, small(RIDGE), executor=rest, work=work)
    assert rest.tasks[at] == whole[1][at] - number
    assert (model.predict(bags) == whole[0].predict(bags)).all()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError("8000 requested and 16 written")], ids=["errno", "numpy"]
)
def test_a_full_disk_is_named(error, source, monkeypatch, tmp_path):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match=f"{error.strerror or error}.*need a folder with more space"):
        fit_scan(source, "aggregated", work=tmp_path)
    assert not list(tmp_path.rglob(".*"))  # nothing half-written


# Folders of something else ------------------------------------------------------------------------------------------


@pytest.fixture
def work(source, tmp_path):
    """Of a fit that had ended."""
    fit_scan(source, "aggregated", work=tmp_path / "work")
    return tmp_path / "work"


def test_another_method_or_version_is_refused(source, work, monkeypatch):
    same = bw.method("aggregated")
    same.set_params(**{key: [1.0] for key in same.get_params() if key.endswith("penalties")})
    for other in ("statistics:moments", same):
        with pytest.raises(ValueError, match=r"work holds the results of a fit of a scan with other method: .*--work"):
            fit_scan(source, other, work=work)
    monkeypatch.setattr(passes, "of_library", lambda: "bagwise 9.9")
    with pytest.raises(ValueError, match=r"with other versions: bagwise \S+, .* there, bagwise 9\.9 here"):
        fit_scan(source, "aggregated", work=work)


def test_other_data_are_refused(folder, work, tmp_path):
    moved = shutil.copytree(folder, tmp_path / "moved")
    with pytest.raises(ValueError, match=r"with other contents of \S+moved/part-0.parquet: missing there, "):
        fit_scan(scanned(moved, chunk_rows=350), "aggregated", work=work)
    again = tmp_path / "again"
    fit_scan(scanned(moved, chunk_rows=350), "aggregated", work=again)
    os.utime(moved / "part-0.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"with other contents of \S*part-0.parquet: .* there, .* 1 ns here"):
        fit_scan(scanned(moved, chunk_rows=350), "aggregated", work=again)
    (moved / "part-0.parquet").unlink()
    with pytest.raises(ValueError, match=r"with other contents of \S*part-0.parquet: .* there, missing here"):
        fit_scan(scanned(moved, chunk_rows=350), "aggregated", work=again)
    for options in ({"chunk_rows": 450}, {"chunk_rows": 350, "features": ["x1", "x2"]}):
        with pytest.raises(ValueError, match="with other columns, conditions or chunks"):
            fit_scan(scanned(folder, **options), "aggregated", work=work)


def test_data_in_memory_are_known_by_their_content(table, tmp_path):
    other = table.set_column(0, "x0", [np.arange(table.num_rows, dtype=float)])
    fit_scan(scanned(table, chunk_rows=350), "aggregated", work=tmp_path / "work")
    again = Ending()
    fit_scan(scanned(table, chunk_rows=350), "aggregated", work=tmp_path / "work", executor=again)
    assert not again.tasks
    with pytest.raises(ValueError, match="with other bags"):
        fit_scan(scanned(other, chunk_rows=350), "aggregated", work=tmp_path / "work")


def test_what_is_no_work_folder(source, tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="contains files that do not belong to a fit of a scan; give another folder"):
        fit_scan(source, "aggregated", work=tmp_path)
    with pytest.raises(NotADirectoryError, match=r"notes\.txt is a file; finished work needs a folder"):
        fit_scan(source, "aggregated", work=tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="Got the URL s3://bucket/work as work"):
        fit_scan(source, "aggregated", work="s3://bucket/work")


def test_passes_of_other_work_are_not_read_where_the_description_is_damaged(source, work, bags):
    (work / "work.json").write_text("{")
    expected = fit_scan(source, "statistics:moments").predict(bags)
    with pytest.warns(UserWarning, match="work.json is damaged"):
        found = fit_scan(source, "statistics:moments", work=work)
    assert (found.predict(bags) == expected).all()


# Progress -----------------------------------------------------------------------------------------------------------


def test_progress_tells_rows_their_rate_and_the_time_left(source, tmp_path):
    steps, n_rows = [], sum(chunk.n_rows for chunk in source.chunks)
    fit_scan(source, "aggregated", progress=steps.append, work=tmp_path / "work")
    step = [step for step in steps if step.name == "partition"][-1]
    assert step.rows == step.total == n_rows and step.rate > 0 and step.seconds_left == 0
    assert f"pass 2, partition: {n_rows:,} of {n_rows:,} rows, " in str(step)


def test_without_a_terminal_nothing_is_shown(source, capsys):
    fit_scan(source, "aggregated", progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_one_line(source):
    shown = io.StringIO()
    with passes.PassDisplay(
        "fitting aggregated", console=Console(file=shown, force_terminal=True, width=120)
    ) as display:
        fit_scan(source, "aggregated", progress=display)
    # A pass that ends between two looks of the terminal is not shown.
    assert re.search(r"fitting aggregated, pass \d, [a-z-]+: [\d,]+ of [\d,]+ .*/s, .* left", shown.getvalue())
