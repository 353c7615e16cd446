"""Results in the order of their tasks, whoever runs them."""

import os
import time

import pytest

from bagwise.execution import Dask, Lost, Processes, Serial
from bagwise.execution.tasks import in_order


class Backwards:
    """Runs all tasks, and hands the results over from the last to the first."""

    def run(self, function, tasks, shared=()):
        yield from reversed(list(Serial().run(function, tasks, shared)))


class Loses:
    """The worker of the second task dies."""

    def run(self, function, tasks, shared=()):
        for number, pair in enumerate(Serial().run(function, tasks, shared)):
            yield (pair[0], Lost("it died")) if number == 1 else pair


def slower_first(task):
    time.sleep(0.02 * (3 - task))
    return task, os.getpid()


def test_results_come_in_the_order_of_the_tasks():
    assert list(in_order(Backwards(), pow, [2, 3, 4], (2,))) == [4, 9, 16]
    assert [task for task, _ in in_order(Processes(2), slower_first, range(4))] == [0, 1, 2, 3]


def test_after_an_error_no_other_task_begins():
    begun = []

    def note(task):
        begun.append(task)
        return 1 / (task - 1)

    with pytest.raises(ZeroDivisionError):
        list(in_order(Serial(), note, range(10)))
    assert begun == [0, 1]


@pytest.mark.filterwarnings("error")  # nothing may be left behind in the processes
def test_an_error_is_raised_as_it_was():
    with pytest.raises(ZeroDivisionError):
        list(in_order(Serial(), divmod, [1, 2], (0,)))
    with pytest.raises(ZeroDivisionError):
        list(in_order(Processes(2), divmod, [1, 2], (0,)))


def test_a_task_that_is_lost_is_named():
    with pytest.raises(RuntimeError, match="3: it died"):
        list(in_order(Loses(), pow, [2, 3, 4], (2,)))


def test_a_dashboard_shows_the_names_of_tasks(processes):
    key_split = pytest.importorskip("dask.utils").key_split
    submit, keys = processes.submit, []
    processes.submit = lambda *args, **options: (keys.append(options.get("key")), submit(*args, **options))[1]
    try:
        list(in_order(Dask(processes), str, range(3), name="survey"))
        list(in_order(Dask(processes), str, range(3), name="fold-sums"))
    finally:
        del processes.submit
    named = [key for key in keys if key]
    assert [key.rpartition("-")[0] for key in named] == [
        f"{name}-{number:04d}" for name in ("survey", "fold-sums") for number in range(3)
    ]
    assert {key_split(key) for key in named} == {"survey", "fold-sums"}  # how the dashboard puts them together
