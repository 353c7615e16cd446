"""Results of tasks in the order of the tasks, and their sum by pairs, pairs of pairs and so on.

The numbers are the same to the last bit, whoever runs the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

from bagwise.execution.local import Failed, Lost


class Tree:
    """A balanced sum of what it takes, one after another; it holds no more than the logarithm of their number.

    Examples
    --------
    >>> tree = Tree(lambda a, b: f"({a}{b})")
    >>> for letter in "abcde":
    ...     tree.take(letter)
    >>> tree.total()
    '(((ab)(cd))e)'
    """

    def __init__(self, add: Callable[[Any, Any], Any]):
        self.add = add
        self._held: list[tuple[int, Any]] = []  # (height of a tree, its sum), heights falling

    def take(self, value) -> None:
        height = 0
        while self._held and self._held[-1][0] == height:
            value, height = self.add(self._held.pop()[1], value), height + 1
        self._held.append((height, value))

    def total(self) -> Any:
        """The sum of all, of which there must be one at least."""
        total = self._held[-1][1]
        for _, value in reversed(self._held[:-1]):
            total = self.add(value, total)
        return total


def in_order(executor, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[Any]:
    """``function(task, *shared)`` of every task, in the order of the tasks, run by an executor (see `execution`).

    An error in a task is raised here as it was there, when the tasks that had begun have ended; no other is begun.

    Examples
    --------
    >>> from bagwise.execution import Serial
    >>> list(in_order(Serial(), pow, [2, 3], (2,)))
    [4, 9]
    """
    early, turn, wrong = {}, 0, {}
    numbered = takewhile(lambda _: not wrong, enumerate(tasks))
    for (number, task), result in executor.run(_guarded, numbered, (function, *shared)):
        if isinstance(result, Failed | Lost):
            wrong[number] = result, task
        early[number] = result
        while not wrong and turn in early:
            yield early.pop(turn)
            turn += 1
    if wrong:
        checked(*wrong[min(wrong)])


def add_up(executor, function: Callable, tasks: Iterable, shared: tuple, add: Callable[[Any, Any], Any]) -> Any:
    """The results of all tasks added in pairs, pairs of pairs and so on, in the order of the tasks.

    An executor that can add where the results are (`Dask`) does so; the pairs are the same.
    """
    if hasattr(executor, "add_up"):
        return checked(executor.add_up(_guarded, enumerate(tasks), (function, *shared), _Adding(add)))
    tree = Tree(add)
    for result in in_order(executor, function, tasks, shared):
        tree.take(result)
    return tree.total()


def checked(result, task=None) -> Any:
    """The result; the error or the loss of the task is raised."""
    if isinstance(result, Failed):
        raise result.error
    if isinstance(result, Lost):
        raise RuntimeError(f"{'' if task is None else f'{task}: '}{result.reason}")
    return result


def _guarded(numbered, function, *shared):
    """A task's result, or its error as a value: a cluster takes an exception for the end of a worker."""
    try:
        return function(numbered[1], *shared)
    except Exception as error:
        return Failed(error)


class _Adding:
    """Adding that passes errors on; the first of two wins."""

    def __init__(self, add):
        self.add = add

    def __call__(self, left, right):
        for one in (left, right):
            if isinstance(one, Failed | Lost):
                return one
        try:
            return self.add(left, right)
        except Exception as error:
            return Failed(error)
