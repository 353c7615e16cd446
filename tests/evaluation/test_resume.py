"""kill -9 in the middle, then two runs at once on what is left: the table of a run that nobody disturbed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.helpers.breaking import ENVIRONMENT
from tests.helpers.toy_estimators import LoggedMean

from bagwise.evaluation import Results, evaluate
from bagwise.testing.contract_checks import sample

DATA, METHODS = sample(30), [("mean", LoggedMean(nap=0.05)), ("off", LoggedMean(nap=0.05, shift=1.0))]
SCRIPT = """
import sys
from tests.helpers.toy_estimators import LoggedMean
from bagwise.evaluation import evaluate
from bagwise.testing.contract_checks import sample
methods = [("mean", LoggedMean(nap=0.05)), ("off", LoggedMean(nap=0.05, shift=1.0))]
evaluate(*sample(30), methods, repeats=2, out=sys.argv[1], n_jobs=int(sys.argv[2]))
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that starts an evaluation in a process of its own; fits are logged here as there."""
    monkeypatch.setenv("FIT_LOG", str(tmp_path / "fits.log"))
    command, env = (
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run")],
        ENVIRONMENT | {"FIT_LOG": os.environ["FIT_LOG"]},
    )
    return lambda n_jobs=1: subprocess.Popen([*command, str(n_jobs)], env=env, start_new_session=True)


def cells(tmp_path):
    return {path.name for path in (tmp_path / "run" / "cells").glob("[!.]*.json")}


def wait_for(n_cells, tmp_path, process):
    deadline = time.monotonic() + 120
    while len(cells(tmp_path)) < n_cells:
        assert process.poll() is None and time.monotonic() < deadline, f"the run ended before {n_cells} cells were seen"
        time.sleep(0.02)


def kill_after(process, tmp_path, n_cells):
    """kill -9 the process and its children once so many cells are done; the cells there are then."""
    wait_for(n_cells, tmp_path, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return cells(tmp_path)


def numbers(results):
    return [row | {"seconds": 0, "memory_mb": 0} for row in results.rows("table")]


def test_killed_then_finished_by_two_at_once(start, tmp_path):
    before = kill_after(start(), tmp_path, 4)
    assert 4 <= len(before) < 20
    log = tmp_path / "fits.log"
    assert len(log.read_text().splitlines()) <= len(before) + 1  # at most the cell in flight is lost
    log.write_text("")
    stamps = {name: (tmp_path / "run" / "cells" / name).stat().st_mtime_ns for name in before}
    other = start()
    wait_for(len(before) + 1, tmp_path, other)
    here = evaluate(*DATA, METHODS, repeats=2, out=tmp_path / "run")
    assert other.wait(timeout=120) == 0
    assert len(cells(tmp_path)) == 20
    assert {name: (tmp_path / "run" / "cells" / name).stat().st_mtime_ns for name in before} == stamps
    fits = len(log.read_text().splitlines())
    results = Results.load(tmp_path / "run")
    assert numbers(results) == numbers(here) == numbers(evaluate(*DATA, METHODS, repeats=2))
    assert 20 - len(before) <= fits <= 2 * (20 - len(before))


@pytest.mark.slow
def test_killed_with_processes(start, tmp_path):
    before = kill_after(start(2), tmp_path, 5)
    process = start(2)
    assert process.wait(timeout=120) == 0
    assert len(cells(tmp_path)) == 20 > len(before)
    assert numbers(Results.load(tmp_path / "run")) == numbers(evaluate(*DATA, METHODS, repeats=2))
