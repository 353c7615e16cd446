"""Results in the order of their tasks, and their sum, whoever runs them."""

import os
import time

import pytest

from bagwise.execution import Lost, Processes, Serial
from bagwise.execution.tasks import add_up, in_order


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


@pytest.mark.parametrize("n", range(1, 12))
def test_the_tree_is_the_same_whoever_builds_it(n):
    def add(left, right):
        return f"({left}{right})"

    names = [chr(97 + k) for k in range(n)]
    level = names
    while len(level) > 1:  # neighbours, and neighbours of these
        level = [add(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    assert add_up(Backwards(), str.lower, names, (), add) == level[0]


@pytest.mark.parametrize("stop", range(7))
@pytest.mark.parametrize("executor", [Serial(), Backwards()], ids=["in order", "backwards"])
def test_a_sum_goes_on_from_the_nodes_of_another(executor, stop):
    def add(left, right):
        return f"({left}{right})"

    def keep(number, nodes):
        kept.append(dict(nodes()))

    names, kept, begun = "abcdefg", [], []
    expected = add_up(executor, str, names, (), add, report=keep)
    assert expected == "(((ab)(cd))((ef)g))"
    assert add_up(executor, lambda name: (begun.append(name), name)[1], names, (), add, nodes=kept[stop]) == expected
    assert len(begun) == 6 - stop  # the others are in the nodes


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
        add_up(Processes(2), divmod, [1, 2], (0,), max)


def test_a_task_that_is_lost_is_named():
    with pytest.raises(RuntimeError, match="3: it died"):
        list(in_order(Loses(), pow, [2, 3, 4], (2,)))
