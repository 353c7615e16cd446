"""A fit whose process has ended goes on from its work folder, and gives the same bits."""

import contextlib
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.cut_tables import SHARED, cut, scanned, small
from tests.helpers.killed_fits import Ended, Ending

import bagwise as bw
from bagwise.execution import Processes, Serial
from bagwise.out_of_core import checkpoints, fit_scan
from bagwise.out_of_core.survey import ColumnSums, Sample

RIDGE = "instance-kme:ridge"


@pytest.fixture(autouse=True)
def every_chunk(monkeypatch):
    """A checkpoint after every chunk."""
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)


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
def begun(source):
    """The passes of a fit with the number of tasks of each, and the model."""

    @cache
    def fit(name):
        counted = Ending()
        model = fit_scan(source, small(name), executor=counted)
        return counted.tasks, model

    return fit


def resumed(name, at, number, source, work):
    """The model of a fit that ended before that task of a pass and went on, and the tasks of the second part."""
    with pytest.raises(Ended):
        fit_scan(source, small(name), executor=Ending(at, number), work=work)
    rest = Ending()
    return fit_scan(source, small(name), executor=rest, work=work), rest.tasks


@pytest.mark.parametrize(
    "at", ["fold-sums", *(pytest.param(at, marks=pytest.mark.slow) for at in ("survey", "keep-chosen"))]
)
def test_a_fit_that_ended_goes_on_with_the_same_bits(at, source, bags, begun, tmp_path):
    passes, expected = begun(RIDGE)
    number = passes[at] // 2
    model, tasks = resumed(RIDGE, at, number, source, tmp_path / "work")
    assert list(tasks) == list(passes)[list(passes).index(at) :]  # nothing of the passes before
    assert tasks[at] == passes[at] - number  # nor of what this one had done
    assert (model.predict(bags) == expected.predict(bags)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [param.values[0] for param in SHARED])
def test_a_fit_that_ended_anywhere_goes_on_with_the_same_bits(name, source, bags, begun, tmp_path):
    passes, expected = begun(name)
    for at, n_tasks in passes.items():
        for number in {0, n_tasks // 2, n_tasks - 1}:
            model, _ = resumed(name, at, number, source, tmp_path / f"{at}-{number}")
            assert (model.predict(bags) == expected.predict(bags)).all()


@pytest.mark.slow
def test_so_does_auto(source, bags, tmp_path):
    whole = Ending()
    expected = fit_scan(source, "auto", executor=whole).predict(bags)
    for at in ("survey", "sum-features", "fold-sums", "left-out"):
        with pytest.raises(Ended):
            fit_scan(source, "auto", executor=Ending(at, whole.tasks[at] // 2), work=tmp_path / at)
        rest = Ending()
        assert (fit_scan(source, "auto", executor=rest, work=tmp_path / at).predict(bags) == expected).all()
        assert sum(rest.tasks.values()) < sum(whole.tasks.values())


def test_a_fit_that_had_ended_reads_nothing_again(source, bags, begun, tmp_path):
    work = tmp_path / "work"
    model = fit_scan(source, small(RIDGE), work=work, executor=Processes(2))
    again = Ending()
    assert (fit_scan(source, small(RIDGE), executor=again, work=work).predict(bags) == model.predict(bags)).all()
    assert not again.tasks
    assert (model.predict(bags) == begun(RIDGE)[1].predict(bags)).all()


class Elsewhere(Serial):
    """Tasks that run in another folder than that of the caller, as workers do that were started there."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, function, tasks, shared=()):
        def there(task, *rest):
            with contextlib.chdir(self.folder):
                return function(task, *rest)

        return super().run(there, tasks, shared)


def test_workers_may_have_been_started_in_another_folder(source, bags, begun, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    model = fit_scan(source, small(RIDGE), executor=Elsewhere(tmp_path / "there"), work="work")
    assert (model.predict(bags) == begun(RIDGE)[1].predict(bags)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("at", "number"), [("fold-sums", 3), ("survey", 2), ("sum-polynomials", 5)])
def test_a_process_that_was_killed(at, number, folder, source, bags, begun, tmp_path):
    work = tmp_path / "work"
    script = Path(__file__).parents[1] / "helpers" / "killed_fits.py"
    command = [sys.executable, script, folder, work, RIDGE, at, str(number)]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, str(Path(bw.__file__).parents[1])])
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not any(path.name.startswith(".") for path in work.iterdir())  # nothing half-written
    rest = Ending()
    model = fit_scan(source, small(RIDGE), executor=rest, work=work)
    assert rest.tasks[at] == begun(RIDGE)[0][at] - number
    assert (model.predict(bags) == begun(RIDGE)[1].predict(bags)).all()


@pytest.mark.slow
def test_workers_of_a_cluster_go_on_from_there(source, bags, begun, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        from bagwise.execution import Dask

        with pytest.raises(Ended):
            fit_scan(source, small(RIDGE), executor=Ending("fold-sums", 4), work=tmp_path / "work")
        model = fit_scan(source, small(RIDGE), executor=Dask(client), work=tmp_path / "work")
        assert (model.predict(bags) == begun(RIDGE)[1].predict(bags)).all()


# Folders of something else ------------------------------------------------------------------------------------------


@pytest.fixture
def work(source, tmp_path):
    """Of a fit that had ended."""
    fit_scan(source, "aggregated", work=tmp_path / "work")
    return tmp_path / "work"


def test_another_method_is_refused(source, work):
    same = bw.method("aggregated")
    same.set_params(**{key: [1.0] for key in same.get_params() if key.endswith("penalties")})
    for other in ("statistics:moments", same):
        with pytest.raises(ValueError, match="work holds passes of another method, or of the same with other param"):
            fit_scan(source, other, work=work)


def test_another_version_is_refused(source, work, monkeypatch):
    monkeypatch.setattr(checkpoints, "of_library", lambda: "bagwise 9.9")
    with pytest.raises(ValueError, match=r"passes by another version: bagwise \S+, .* where this is bagwise 9\.9"):
        fit_scan(source, "aggregated", work=work)


def test_other_data_are_refused(folder, work, tmp_path):
    moved = shutil.copytree(folder, tmp_path / "moved")
    with pytest.raises(ValueError, match=r"over other data: \S+part-0.parquet .and \d others. is new; give another"):
        fit_scan(scanned(moved, chunk_rows=350), "aggregated", work=work)
    with pytest.raises(ValueError, match="over other columns, rows or chunks of the data"):
        fit_scan(scanned(folder, chunk_rows=450), "aggregated", work=work)
    with pytest.raises(ValueError, match="over other columns, rows or chunks of the data"):
        fit_scan(scanned(folder, chunk_rows=350, features=["x1", "x2"]), "aggregated", work=work)


def test_a_file_that_changed_or_is_gone_is_named(table, tmp_path):
    cut(table, tmp_path, 1)
    first = tmp_path / "part-0.parquet"
    fit_scan(scanned(tmp_path, chunk_rows=350), "aggregated", work=tmp_path / "work")
    os.utime(first, ns=(1, 1))
    with pytest.raises(ValueError, match=r"over other data: \S*part-0.parquet has changed"):
        fit_scan(scanned(tmp_path, chunk_rows=350), "aggregated", work=tmp_path / "work")
    first.unlink()
    with pytest.raises(ValueError, match=r"over other data: \S*part-0.parquet is gone"):
        fit_scan(scanned(tmp_path, chunk_rows=350), "aggregated", work=tmp_path / "work")


@pytest.mark.parametrize("kind", ["table", "bags"])
def test_data_in_memory_are_known_by_their_content(kind, table, tmp_path):
    def scan(changed):
        one = table if not changed else table.set_column(0, "x0", [np.arange(table.num_rows, dtype=float)])
        if kind == "table":
            return scanned(one, chunk_rows=350)
        bags, y = bw.load(one, bag="bag", target="y", ignore=["site"])
        return bw.scan(bags, target=y, chunk_rows=350)

    fit_scan(scan(False), "aggregated", work=tmp_path / "work")
    again = Ending()
    fit_scan(scan(False), "aggregated", work=tmp_path / "work", executor=again)
    assert not again.tasks
    with pytest.raises(ValueError, match="over other columns, rows or chunks of the data"):
        fit_scan(scan(True), "aggregated", work=tmp_path / "work")


def test_what_is_no_work_folder(source, tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="is not a work folder of a fit: it holds notes.txt; give an empty"):
        fit_scan(source, "aggregated", work=tmp_path)
    with pytest.raises(NotADirectoryError, match=r"notes\.txt is a file; checkpoints need a folder"):
        fit_scan(source, "aggregated", work=tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="is a URL; the work folder is on the machine that fits"):
        fit_scan(source, "aggregated", work="s3://bucket/work")


def test_a_damaged_description_is_refused(source, work):
    (work / "fit.json").write_text("{")
    with pytest.raises(ValueError, match=r"passes of what is not known, for fit\.json is damaged; give another folder"):
        fit_scan(source, "aggregated", work=work)


# Damage -------------------------------------------------------------------------------------------------------------


def test_a_damaged_checkpoint_is_named_and_its_pass_run_again(source, bags, begun, tmp_path):
    passes, expected = begun("aggregated")
    with pytest.raises(Ended):
        fit_scan(source, "aggregated", executor=Ending("survey", 4), work=tmp_path / "work")
    path = tmp_path / "work" / "01-survey-000002.npz"
    path.write_bytes(path.read_bytes()[:-20])
    rest = Ending()
    with pytest.warns(UserWarning, match=r"01-survey-000002\.npz is damaged .* that pass is run again from there"):
        model = fit_scan(source, "aggregated", executor=rest, work=tmp_path / "work")
    assert rest.tasks["survey"] == passes["survey"] - 2
    assert (model.predict(bags) == expected.predict(bags)).all()


def test_if_later_passes_were_made_of_it_all_are_run_again(source, bags, begun, tmp_path):
    passes, expected = begun("aggregated")
    fit_scan(source, "aggregated", work=tmp_path / "work")
    (tmp_path / "work" / "03-whole-bags-total.npz").write_bytes(b"")
    rest = Ending()
    with pytest.warns(UserWarning, match=r"03-whole-bags-total\.npz is damaged .* and all are run again"):
        model = fit_scan(source, "aggregated", executor=rest, work=tmp_path / "work")
    assert rest.tasks == passes
    assert (model.predict(bags) == expected.predict(bags)).all()


def test_no_bit_can_change_unnoticed(tmp_path):
    path = tmp_path / "01-survey-000000.npz"
    checkpoints.write(path, [{"a": np.arange(3.0), "b": ("text", np.array(["x"], object))}])
    whole, before = path.read_bytes(), repr(checkpoints.read(path))
    for place in range(0, len(whole), 11):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with warnings.catch_warnings(action="ignore"):  # zipfile may find names twice
            assert checkpoints.damage(path) is not None or repr(checkpoints.read(path)) == before
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        assert checkpoints.damage(path) is not None


def test_nothing_but_results_is_made_of_a_file(tmp_path):
    path = tmp_path / "01-survey-000000.npz"
    for name in ("os:system", "bagwise.__main__:x", "bagwise.bags.container:Bags", "builtins:dict"):
        text = np.frombuffer(f'{{"of": "{name}", "fields": {{}}}}'.encode(), np.uint8)
        np.savez(path, structure=text)
        assert f"it names the class {name}, which no pass gives" in checkpoints.damage(path)
    np.savez(path, structure=np.array([{"a": 1}], object))
    assert "allow_pickle=False" in checkpoints.damage(path)


def test_what_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(TypeError, match="a pass gave set, which a checkpoint does not hold; it holds arrays, numbers"):
        checkpoints.write(tmp_path / "one.npz", {1, 2})


def test_values_come_back_as_they_were(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 3))
    objects = np.array(["a", None, "ü"], object)
    value = [
        (1, 2.5, "text", None, True, float("inf")),
        {(0, 3): X, 7: np.asfortranarray(X), "s": np.float32(0.1), "d": np.array([date(2019, 4, 23)], object)},
        ColumnSums.of(X),
        Sample.of(X, 2, 0),
        objects,
        np.array(["2019-04-23"], "datetime64[ns]"),
        np.array([1, "a", 2.5, None], object),
        Counter({3: 4}),
        np.empty((0, 2)),
    ]
    checkpoints.write(tmp_path / "one.npz", value)
    found = checkpoints.read(tmp_path / "one.npz")
    assert repr(found) == repr(value)
    assert found[1][7].flags.f_contiguous and type(found[1]["s"]) is np.float32
    assert (found[2].mean == value[2].mean).all() and type(found[3]) is Sample


def test_a_damaged_file_of_the_hundredth_pass_leaves_those_before(tmp_path):
    for name in ("20-survey-total", "99-train-share-000000", "100-train-share-000000", "100-train-share-000002"):
        checkpoints.write(tmp_path / f"{name}.npz", [1.0])
    (tmp_path / "100-train-share-000002.npz").write_bytes(b"cut")
    with pytest.warns(UserWarning, match="100-train-share-000002.npz is damaged .* that pass is run again from there"):
        checkpoints.Work(tmp_path)._remove_damaged()
    found = sorted(one.stem for one in tmp_path.iterdir())
    assert found == ["100-train-share-000000", "20-survey-total", "99-train-share-000000"]


def test_progress_tells_rows_their_rate_and_the_time_left(source, tmp_path):
    def last(name):
        fit_scan(source, "aggregated", progress=steps.append, work=tmp_path / "work")
        return [step for step in steps if step.name == name][-1]

    steps, n_rows = [], sum(chunk.n_rows for chunk in source.chunks)
    step = last("survey")
    assert step.rows == step.total == n_rows and step.rate > 0 and step.seconds_left == 0
    assert f"pass 1, survey: {n_rows:,} of {n_rows:,} rows, " in str(step)
    assert str(last("survey")) == f"pass 1, survey: {n_rows:,} of {n_rows:,} rows"  # found, not read
    assert str(last("whole-bags")).endswith("whole-bags: 1 of 1 shards")


def test_without_a_terminal_nothing_is_shown(source, capsys):
    fit_scan(source, "aggregated", progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_one_line(source):
    import io

    from rich.console import Console

    from bagwise.out_of_core.passes import PassDisplay

    shown = io.StringIO()
    with PassDisplay("fitting aggregated", console=Console(file=shown, force_terminal=True, width=120)) as display:
        fit_scan(source, "aggregated", progress=display)
    # A pass that ends between two looks of the terminal is not shown.
    assert re.search(r"fitting aggregated, pass \d, [a-z-]+: \d+ of \d+ .*/s, .* left", shown.getvalue())


def test_threads_may_read_at_once(tmp_path):
    """Before Python 3.11.8, parsers of two threads that meet in a collection of garbage end in SystemError."""
    path, threshold = tmp_path / "kept.npz", gc.get_threshold()
    with path.open("wb") as file:
        checkpoints.save(file, [np.arange(3.0), {"n": 1}])

    def meet(phase, info):
        time.sleep(0)

    gc.callbacks.append(meet)
    gc.set_threshold(5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: checkpoints.read(path)[0].sum(), range(300)))
    finally:
        gc.callbacks.remove(meet)
        gc.set_threshold(*threshold)
    assert found == [3.0] * 300
