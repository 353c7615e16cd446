"""Imports and compilation at first use, in new interpreters whose first work runs in threads."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.helpers.breaking import ENVIRONMENT

import bagwise as bw
from bagwise.execution.resources import SharedSetting
from bagwise.first_use import once

SHORT = {
    "instance-kme": {"instances__network__regressor__epochs": (1,), "instances__network__regressor__n_jobs": 2},
    "attention": {"epochs": 1, "restarts": 1},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function from a method to its model file, a file of bags (larger than one job) and its predictions."""
    folder, known = tmp_path_factory.mktemp("saved"), {}
    bags, y = bw.datasets.make_gaussian(100, instances=50)
    bw.save_npz(folder / "bags.npz", bags, y)

    def files(name):
        if name not in known:
            model = bw.method(name, random_state=0).set_params(**SHORT[name]).fit(bags, y)
            bw.save_model(model, folder / f"{name}.bagwise")
            known[name] = [str(folder / f"{name}.bagwise"), str(folder / "bags.npz")], model.predict(bags)
        return known[name]

    return files


def started(tmp_path, *arguments):
    """Return the results of the threads of a new interpreter, and the modules imported outside its main thread."""
    command = [sys.executable, "-m", "tests.helpers.cold_start", *arguments, str(tmp_path / "out.npy")]
    environment = ENVIRONMENT | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return np.load(tmp_path / "out.npy"), done.stdout.split()


def test_threads_of_a_prediction_import_nothing(saved, tmp_path):
    files, expected = saved("instance-kme")
    found, imported = started(tmp_path, "alone", *files)
    assert imported == []
    assert_array_equal(found[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*SHORT, pytest.param("train", marks=pytest.mark.torch)])
def test_two_threads_are_the_first_in_twenty_interpreters(method, saved, tmp_path):
    files, expected = saved(method) if method in SHORT else ([], None)
    for _ in range(20):
        one, other = started(tmp_path, "predict" if files else "train", *files)[0]
        assert_array_equal(one, other if expected is None else expected)
        assert_array_equal(one, other)


def together(function, n=4):
    gate = threading.Barrier(n)

    def begin(i):
        gate.wait()
        return function(i)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(begin, range(n)))


def test_what_is_made_once_is_made_by_one_thread_and_tried_again_after_an_error():
    made = []

    @once
    def engine():
        threading.Event().wait(0.05)  # long enough for the others to come
        made.append(threading.get_ident())
        if len(made) == 1:
            raise ImportError("not yet")
        return object()

    with pytest.raises(ImportError, match="not yet"):
        engine()
    found = together(lambda _: engine())
    assert len(made) == 2 and len(set(map(id, found))) == 1


def test_a_shared_setting_is_undone_when_all_have_left():
    class Setting:
        value = "usual"

        def __enter__(self):
            self.before, Setting.value = Setting.value, "special"

        def __exit__(self, *_):
            Setting.value = self.before

    shared, second, first = SharedSetting(Setting), threading.Event(), threading.Event()

    def stay(i):
        if i == 1:
            second.wait(10)  # enters while the first is inside, and leaves after it
        with shared:
            assert Setting.value == "special"
            second.set()
            first.wait(10) if i == 1 else threading.Event().wait(0.05)
            assert Setting.value == "special"
        first.set()

    together(stay, n=2)
    assert Setting.value == "usual"
