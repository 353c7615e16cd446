"""A worker process that dies: its task is tried once more, then reported by name; the others go on.

Beside these: that no other task is lost, and a whole evaluation with a method that dies, in
tests/protocol/test_executors.py; kill -9 of the whole run, in tests/protocol/test_resume.py.
"""

import sys
from pathlib import Path

import pytest

from bagwise.execution import Lost, Processes

sys.path.insert(0, str(Path(__file__).parent))
from deadly_tasks import mortal


@pytest.mark.parametrize("deaths", [1, 99], ids=["once", "always"])
def test_killed_once_it_is_tried_again_and_killed_twice_it_is_lost(tmp_path, deaths):
    lives = {"fine": 0, "deadly": deaths, "also fine": 0}
    found = dict(Processes(2).run(mortal, lives, (lives, tmp_path)))
    result = found.pop("deadly")
    assert found == {"fine": "fine", "also fine": "also fine"}
    assert len((tmp_path / "deadly").read_text()) == 2  # two tries, not one and not three
    if deaths == 1:
        assert result == "deadly"
    else:
        assert isinstance(result, Lost) and result.reason.startswith("the process running it died, twice")


@pytest.mark.slow
def test_the_command_line_names_the_cell(tmp_path):
    """The first cell that was lost, how many others, and the exit code."""
    import subprocess

    from breaking import ENVIRONMENT
    from deadly_tasks import COMMAND

    done = subprocess.run(
        [sys.executable, "-c", COMMAND, tmp_path / "bags.npz", tmp_path / "run"],
        capture_output=True, text=True, timeout=300, env=ENVIRONMENT | {"PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "1 of 2 cells failed. The first is deadly, repeat 0, fold " in said and "died, twice" in said
