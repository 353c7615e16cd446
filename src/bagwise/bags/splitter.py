"""`BagKFold`, the splitter for scikit-learn; a separate module, so that `folds` does not import scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags.container import Bags
from bagwise.bags.folds import split_bags


class BagKFold(BaseEstimator):
    """Splitter of bags for the ``cv=`` of scikit-learn; bags of one group stay together.

    Parameters
    ----------
    folds : int, "auto", "each", "random", "forward", "given", Validation, or list of (train, test) pairs, default 5
        A number keeps the scheme that the bags declare; see `Validation`.
    random_state : int, default 0
        Seed of the random folds, which also depend on the ids of the bags.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> [len(test) for _, test in bw.BagKFold(3).split(bags)]
    [2, 2, 2]
    """

    def __init__(self, folds: Any = 5, *, random_state: int = 0):
        self.folds = folds
        self.random_state = random_state

    def split(self, bags, y=None, groups=None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the positions of the training bags and of the test bags of each fold.

        Parameters
        ----------
        bags : Bags
        y : ignored
        groups : one label per bag, optional
            Replaces the groups of the bags.
        """
        if not isinstance(bags, Bags):
            raise TypeError(f"BagKFold splits Bags, not {type(bags).__name__}; build them with bagwise.load")
        if groups is not None:
            bags = bags._with(groups=np.asarray(groups))
        yield from split_bags(bags, self.folds, random_state=self.random_state).pairs()

    def get_n_splits(self, bags=None, y=None, groups=None) -> int:
        """Return the number of folds; unless ``folds`` is a number, it depends on the bags."""
        if isinstance(self.folds, int):
            return self.folds
        if bags is None:
            raise ValueError(
                f"The number of splits of folds={self.folds!r} depends on the bags; pass them: get_n_splits(bags)"
            )
        return len(split_bags(bags, self.folds, random_state=self.random_state))
