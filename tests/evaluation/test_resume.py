"""kill -9 in the middle, then two runs at once on what is left: the table of a run that nobody disturbed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bagwise.evaluation import Results, evaluate

SCRIPT = """
import sys
from logged_mean import METHODS, data
from bagwise.evaluation import evaluate
evaluate(*data(), METHODS, repeats=2, out=sys.argv[1], n_jobs=int(sys.argv[2]))
"""
MODULE = '''
import os, time
import numpy as np
from tests.helpers.toy_estimators import TrainMean
from bagwise.testing.contract_checks import sample

class LoggedMean(TrainMean):
    """Notes every fit in a file; a line is one write, so that processes do not mix theirs."""
    def fit(self, bags, y):
        with open(os.environ["FIT_LOG"], "a") as log:
            log.write(f"{self.shift} {hash(tuple(bags.ids.tolist()))}\\n")
        return super().fit(bags, y)

METHODS = [("mean", LoggedMean(nap=0.05)), ("off", LoggedMean(nap=0.05, shift=1.0))]

def data():
    return sample(30)
'''


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start an evaluation in a process of its own."""
    (tmp_path / "logged_mean.py").write_text(MODULE)
    paths = [str(tmp_path), str(Path(__file__).parent)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*paths, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    monkeypatch.setenv("FIT_LOG", str(tmp_path / "fits.log"))
    monkeypatch.setattr(sys, "path", [*paths, *sys.path])
    return lambda n_jobs=1: subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(n_jobs)], start_new_session=True
    )


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
    return {
        name: column for name, column in results.table().to_dict("list").items() if name not in ("seconds", "memory_mb")
    }


def evaluated(out=None):
    """As the script does, in this process."""
    from logged_mean import METHODS, data

    return evaluate(*data(), METHODS, repeats=2, out=out)


def test_killed_then_finished_by_two_at_once(start, tmp_path):
    before = kill_after(start(), tmp_path, 4)
    assert 4 <= len(before) < 20
    log = tmp_path / "fits.log"
    assert len(log.read_text().splitlines()) <= len(before) + 1  # at most the cell in flight is lost
    log.write_text("")
    stamps = {name: (tmp_path / "run" / "cells" / name).stat().st_mtime_ns for name in before}
    other = start()
    wait_for(len(before) + 1, tmp_path, other)
    here = evaluated(tmp_path / "run")
    assert other.wait(timeout=120) == 0
    assert len(cells(tmp_path)) == 20
    assert {name: (tmp_path / "run" / "cells" / name).stat().st_mtime_ns for name in before} == stamps
    fits = len(log.read_text().splitlines())
    results = Results.load(tmp_path / "run")
    assert str(numbers(results)) == str(numbers(here)) == str(numbers(evaluated()))
    assert 20 - len(before) <= fits <= 2 * (20 - len(before))


@pytest.mark.slow
def test_killed_with_processes(start, tmp_path):
    before = kill_after(start(2), tmp_path, 5)
    process = start(2)
    assert process.wait(timeout=120) == 0
    assert len(cells(tmp_path)) == 20 > len(before)
    assert str(numbers(Results.load(tmp_path / "run"))) == str(numbers(evaluated()))
