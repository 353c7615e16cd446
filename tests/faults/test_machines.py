"""The command line on machines that lack something: a locale, a compiler, a home, memory, shared semaphores."""

import resource
import subprocess
import sys

import pytest
from tests.helpers.breaking import ENVIRONMENT

import bagwise as bw

ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
NO_PROGRAMS = {"PATH": "/nonexistent"}
NO_HOME = {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent/cache", "MPLCONFIGDIR": "/nonexistent/matplotlib"}
NO_SEMAPHORES = """
import _multiprocessing

def refuse(*_, **__):
    raise OSError(30, "Read-only file system")

_multiprocessing.SemLock = type("SemLock", (), {"__new__": refuse, "SEM_VALUE_MAX": 2**31 - 1})
"""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))


def run(folder, *arguments, machine, before=""):
    command = [sys.executable, "-c", before + "from bagwise.cli import run; run()", *arguments]
    options = {"cwd": folder, "capture_output": True, "encoding": "utf-8", "errors": "replace", "timeout": 300}
    done = subprocess.run(command, env=ENVIRONMENT | machine, preexec_fn=limit_memory, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def folder(tmp_path):
    bw.save_npz(tmp_path / "bags.npz", *bw.datasets.make_gaussian(30, instances=3))
    return tmp_path


def test_fit_and_predict_with_2_gb_and_without_locale_programs_and_home(folder):
    machine = ASCII | NO_PROGRAMS | NO_HOME
    run(folder, "fit", "bags.npz", "--method", "aggregated", "--out", "model.bagwise", machine=machine)
    run(folder, "predict", "model.bagwise", "bags.npz", "--out", "predictions.csv", machine=machine)
    assert len((folder / "predictions.csv").read_text().splitlines()) == 31


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", NO_SEMAPHORES], ids=["semaphores", "no semaphores"])
def test_evaluate_in_two_processes_or_in_one_where_semaphores_are_missing(folder, before):
    words = ["evaluate", "bags.npz", "--method", "aggregated", "--repeats", "2", "--n-jobs", "2", "--out", "runs"]
    stderr = run(folder, *words, machine=ASCII | NO_PROGRAMS | NO_HOME, before=before)
    assert ("joblib will operate in serial mode" in stderr) == bool(before)
    run(folder, "report", "runs", "--out", "run.html", machine=ASCII | NO_PROGRAMS | NO_HOME)
