"""Adding in a fixed order: by pairs, pairs of pairs, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
