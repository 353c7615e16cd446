"""Ctrl-C during a run: it ends, each file that it leaves is complete, and the run can be resumed.

kill -9, which no program can answer, is tried in tests/evaluation/test_resume.py.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.helpers.breaking import BAGWISE, ENVIRONMENT

import bagwise as bw
from bagwise.evaluation.plan import read_plan
from bagwise.model_files.store import Store
from bagwise.testing.contract_checks import sample


def until(ready, process, seconds: float = 100):
    end = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None and time.monotonic() < end, "it ended before it could be interrupted"
        time.sleep(0.01)


def interrupted(words, ready):
    """Start a command and interrupt its process group once it is ready."""
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=ENVIRONMENT, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it in the background
    )  # fmt: skip
    until(ready, process)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_evaluation(tmp_path, n_jobs):
    table, run, cells = tmp_path / "bags.npz", tmp_path / "run", tmp_path / "run" / "cells"
    bw.save_npz(table, *sample(30))
    words = f"evaluate {table} --method aggregated --out {run} --repeats 200 --n-jobs {n_jobs}".split()
    code, errors = interrupted([*BAGWISE, *words], lambda: len(list(cells.glob("[!.]*.json"))) > 5)
    assert code == 130 and (n_jobs > 1 or "Traceback" not in errors)
    left = sorted(path for path in run.rglob("*") if path.is_file())
    assert [path for path in left if path.name.startswith(".") or path.suffix != ".json"] == []
    store = Store(run)
    assert read_plan(store) is not None
    for path in cells.iterdir():
        assert store.read(path.stem) == json.loads(path.read_text())["result"]  # a damaged one would be None


SAVING = """
import sys
import numpy as np
import bagwise as bw
from bagwise.testing.contract_checks import sample
bags, _ = sample(20000)
for turn in range(100_000):
    bw.save_npz(sys.argv[1], bags, turn + np.arange(20000.0))
"""


@pytest.mark.slow
def test_saving(tmp_path):
    """Save repeatedly, so that the interrupt occurs during a save."""
    path = tmp_path / "bags.npz"
    code, _ = interrupted([sys.executable, "-c", SAVING, path], path.exists)
    assert code == -signal.SIGINT and [file.name for file in tmp_path.iterdir()] == ["bags.npz"]
    bags, y = bw.load(path)
    assert len(bags) == 20_000 and len(set(y - range(20_000))) == 1
