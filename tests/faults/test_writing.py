"""If writing a file fails, the old file is unchanged and no temporary file remains."""

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.helpers.breaking import ENVIRONMENT, as_nobody, files_of_at_most, open_folder, whole, without_permission
from typer.testing import CliRunner

import bagwise as bw
from bagwise.cli import app
from bagwise.io.atomic_files import new_folder, refuse_unwritable, replace_file
from bagwise.io.table_output import write_table
from bagwise.model_files.store import Store, write_sealed
from bagwise.reports.html_reports import write_page
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(600)
MODEL = bw.method("aggregated").fit(*sample())
TABLE = {"bag": list(range(3000)), "value": [0.1 * i for i in range(3000)]}
LETTER = {"key": "ab12", "error": "x" * 20_000}
WRITERS = {
    "model.bagwise": lambda path: bw.save_model(MODEL, path),
    "bags.npz": lambda path: bw.save_npz(path, BAGS, Y),
    "table.csv": lambda path: write_table(path, TABLE),
    "table.parquet": lambda path: write_table(path, TABLE),
    "plan.json": lambda path: write_sealed(path, LETTER),
    "cells/ab12.json": lambda path: Store(path.parent.parent).write("ab12", LETTER),
    "report.html": lambda path: write_page(path, {"anything": 1}),
}


@pytest.fixture(scope="module", autouse=True)
def saved_once(tmp_path_factory):
    """Import as root what saving needs, because nobody may not have access to the environment."""
    bw.save_model(MODEL, tmp_path_factory.mktemp("once") / "model.bagwise")


@pytest.fixture(params=WRITERS)
def writer(request, monkeypatch):
    """Return pairs (name, write)."""
    monkeypatch.setattr("bagwise.reports.html_reports.render", lambda content: "<p>" + 20_000 * "x")
    return request.param, WRITERS[request.param]


@pytest.fixture
def old(writer):
    """Yield an existing file in a folder that all users may enter."""
    with open_folder() as folder:
        path = folder / writer[0]
        (folder / "cells").mkdir()
        path.write_bytes(b"the old file")
        before = whole(folder)
        yield path
        assert whole(folder) == before


def test_a_disk_that_fills_up_half_way(writer, old):
    with files_of_at_most(1024), pytest.raises(OSError) as caught:
        writer[1](old)
    assert caught.value.errno in (errno.EFBIG, None)  # None: Arrow tells it in words
    assert "File too large" in str(caught.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=errno.errorcode.get)
def test_a_fault_in_the_last_step(writer, old, monkeypatch, number):
    def fault(*paths, **options):
        raise OSError(number, os.strerror(number), *map(str, paths))

    monkeypatch.setattr(os, "replace", fault)
    with pytest.raises(OSError, match=f"{os.strerror(number)}: '{old}'$"):  # the file that was asked for
        writer[1](old)


def test_a_folder_without_permission(writer, old):
    with without_permission(old.parent), pytest.raises(PermissionError, match=f"Permission denied: '{old}'$"):
        writer[1](old)


def test_an_interrupt_half_way(writer, old, monkeypatch):
    def interrupted(*_, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "chmod", interrupted)  # all is written, nothing in place yet
    with pytest.raises(KeyboardInterrupt):
        writer[1](old)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full")
@pytest.mark.parametrize("name", [name for name in WRITERS if "json" not in name])
def test_a_device_that_is_full(name, monkeypatch):
    """Uses a link with a valid suffix, and no root rights, so that an error cannot remove the device."""
    monkeypatch.setattr("bagwise.reports.html_reports.render", lambda content: 20_000 * "x")
    with open_folder() as folder:
        (folder / name).symlink_to("/dev/full")
        with as_nobody(), pytest.raises(OSError, match="No space left on device"):
            WRITERS[name](folder / name)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_pipe_is_written_to_and_not_replaced(name, tmp_path):
    pipe, small = tmp_path / name, {"bag": [1, 2]}
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        told = pool.submit(pipe.read_bytes)
        write_table(pipe, small)
        assert told.result() == write_table(tmp_path / f"plain-{name}", small).read_bytes()
    assert pipe.is_fifo()


def test_nothing_is_made_where_there_is_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path}/no to write model.bagwise to"):
        bw.save_model(MODEL, tmp_path / "no" / "model.bagwise")
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_takes_the_place_of_an_empty_one_on_windows(tmp_path, monkeypatch):
    replace = Path.replace

    def replace_as_on_windows(path, target):
        if Path(target).is_dir():
            raise PermissionError(errno.EACCES, "Access is denied", str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_as_on_windows)
    (tmp_path / "parts").mkdir()
    new_folder(tmp_path / "parts", lambda path: (path / "part-0.txt").write_text("whole"))
    assert [path.name for path in tmp_path.rglob("*")] == ["parts", "part-0.txt"]


def test_permissions_and_links_are_kept(tmp_path, monkeypatch):
    private, link = tmp_path / "private.csv", tmp_path / "link.csv"
    private.write_text("old")
    private.chmod(0o600)
    link.symlink_to(private)
    write_table(link, TABLE)
    assert link.is_symlink() and private.stat().st_size > 3
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    mask = os.umask(0o027)  # of the process: other threads must not see a change of it
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask was set"))
    try:
        write_table(tmp_path / "new.csv", TABLE)
    finally:
        monkeypatch.undo()
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new.csv").stat().st_mode) == 0o640


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path, seen = tmp_path / "private.txt", []
    path.touch(0o600)

    def write(temporary):
        seen.append(stat.S_IMODE(temporary.stat().st_mode))
        temporary.write_text("secret")

    replace_file(path, write)
    assert seen == [0o600] and path.read_text() == "secret"


def test_a_name_in_capitals_is_kept(tmp_path):
    bw.save_npz(tmp_path / "BAGS.NPZ", BAGS, Y)
    assert [path.name for path in tmp_path.iterdir()] == ["BAGS.NPZ"]
    assert bw.load(tmp_path / "BAGS.NPZ")[0] == BAGS


TURNS = """
import sys
from bagwise.io.atomic_files import replace_file
for turn in range(100):
    replace_file(sys.argv[1], lambda path: path.write_text(sys.argv[2] * 50_000))
"""


def test_two_processes_write_one_file(tmp_path):
    """A reader sees one complete version. For two runs in one folder, see tests/evaluation/test_resume."""
    path = tmp_path / "shared.txt"
    path.write_text("a" * 50_000)
    writers = [subprocess.Popen([sys.executable, "-c", TURNS, path, one], env=ENVIRONMENT) for one in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        text = path.read_text()
        assert len(text) == 50_000 and len(set(text)) == 1
        seen.add(text[0])
    assert [writer.returncode for writer in writers] == [0, 0] and seen == {"a", "b"}
    assert [file.name for file in tmp_path.iterdir()] == ["shared.txt"]


# A place that cannot be written is found out before any work: what would be read is not even there --------------------


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ("fit none.csv --out", "m.bagwise"),
        ("fit none.csv --report", "m.html"),
        ("fit none.csv --work", "work"),
        ("fit none.parquet --engine stream --out", "m.bagwise"),
        ("fit none.parquet --engine stream --work", "work"),
        ("predict none.bagwise none.csv --out", "p.csv"),
        ("predict none.bagwise none.csv --instances", "i.csv"),
        ("predict none.bagwise none.parquet --engine stream --out", "parts"),
        ("evaluate none.csv --method aggregated --out", "runs/aod"),
        ("reproduce none --out", "runs"),
        ("demo --out", "demo"),
        ("datasets aerosol --out", "d.csv"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_first(place, arguments, monkeypatch):
    with open_folder() as folder:
        monkeypatch.chdir(folder)
        folder.chmod(0o777)
        locked = folder / "locked"
        locked.mkdir()
        with without_permission(locked):
            found = CliRunner().invoke(app, [*arguments.split(), str(locked / place)])
        assert found.exit_code == 1
        said = " ".join(found.stderr.split())
        assert f"{locked / place} cannot be written (Permission denied); give a place that can be" in said
        assert whole(folder) == {}


def test_a_report_beside_its_run_is_tried_first():
    with open_folder() as folder, without_permission(folder):
        found = CliRunner().invoke(app, ["report", str(folder)])
        assert found.exit_code == 1 and "report.html cannot be written (Permission denied)" in found.stderr


@pytest.mark.parametrize("arguments", ["evaluate none.csv --method aggregated --out", "fit none.csv --work"])
def test_a_folder_of_results_is_no_file(arguments, tmp_path, monkeypatch):
    arguments = arguments.split()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("")
    found = CliRunner().invoke(app, [*arguments, "runs"])
    assert found.exit_code == 1
    assert found.stderr == f"bagwise {arguments[0]}: runs is a file. Give the name of a folder.\n"
    below = CliRunner().invoke(app, [*arguments, "runs/below"])
    said = f"bagwise {arguments[0]}: runs/below cannot be written (Not a directory); give a place that can be\n"
    assert below.exit_code == 1 and below.stderr == said


def test_trying_a_place_leaves_it_as_it_was(tmp_path):
    (tmp_path / "old.csv").write_text("old")
    for name in ("old.csv", "new.csv", "runs/new", ""):
        refuse_unwritable(tmp_path / name)
    refuse_unwritable("/dev/null")
    assert whole(tmp_path) == {"old.csv": b"old"} and [path.name for path in tmp_path.iterdir()] == ["old.csv"]
