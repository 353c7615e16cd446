"""If a worker process dies, its task is retried once, then reported by name; the others continue.

Beside these: that no other task is lost, and a whole evaluation with a method that dies, in
tests/evaluation/test_executors.py; kill -9 of the whole run, in tests/evaluation/test_resume.py.
"""

import subprocess
import sys
import time

import pytest
from tests.helpers.breaking import ENVIRONMENT
from tests.helpers.deadly_tasks import mortal

from bagwise.execution import Lost, Processes


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
        assert isinstance(result, Lost) and result.reason.startswith("its worker process died twice")


# Tasks as the executors run them, and as the methods do.
ORPHANED = {
    "executor": "from bagwise.execution import Processes; list(Processes(2).run(tireless, [0, 1], (folder,)))",
    "method": "from bagwise.execution.tasks import _numbered; "
    "joblib.Parallel(2)(joblib.delayed(_numbered)(k, tireless, k, (folder,)) for k in range(2))",
}


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows cannot see that its parent is gone")
@pytest.mark.parametrize("how", ["executor", pytest.param("method", marks=pytest.mark.slow)])
def test_workers_end_with_a_parent_that_is_killed(tmp_path, how):
    """Workers used to continue, and to wait for tasks, after their parent was killed."""
    program = f"import joblib, pathlib; folder = pathlib.Path({str(tmp_path)!r}); "
    program += "from tests.helpers.deadly_tasks import tireless; "
    parent = subprocess.Popen([sys.executable, "-c", program + ORPHANED[how]], env=ENVIRONMENT)
    try:
        wait_until(lambda: written(tmp_path) and min(written(tmp_path)) > 0 and len(written(tmp_path)) == 2)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: stands_still(tmp_path))


def written(folder) -> list[int]:
    return [path.stat().st_size for path in sorted(folder.iterdir())]


def stands_still(folder) -> bool:
    before = written(folder)
    time.sleep(1)
    return written(folder) == before


def wait_until(true) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it is not so after a minute"
        time.sleep(0.1)
