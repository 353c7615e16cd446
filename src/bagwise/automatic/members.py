"""Who is tried: a member is a name and a way to make an estimator; names come from the catalogue, or from the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from bagwise.bags import check_bags, check_weights, remember_columns
from bagwise.instances.out_of_fold import seeded
from bagwise.methods.catalogue import find, method

MEAN = "mean"  # the name of the member that every other has to beat


@dataclass(frozen=True)
class Member:
    """A name and a function seed -> unfitted estimator.

    A ``costly`` member has to show on the first fold that it is of use. One that is tried ``always`` does not ask
    whether the time budget allows it.
    """

    name: str
    make: Callable[[int], Any]
    costly: bool = False
    always: bool = False


class MeanTarget(RegressorMixin, BaseEstimator):
    """Predict the mean of the training targets: what every other member has to beat.

    Its weight in a blend is how far the others are shrunk towards the mean.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1)), np.ones((3, 1))])
    >>> MeanTarget().fit(bags, [1.0, 2.0]).predict(bags).tolist()
    [1.5, 1.5]
    """

    def fit(self, bags, y, sample_weight=None) -> MeanTarget:
        bags = check_bags(bags, allow_weights=True, apart=True)
        self.mean_ = float(np.average(y, weights=check_weights(sample_weight, bags)))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        return np.full(len(check_bags(bags, fitted=self, allow_weights=True, apart=True)), self.mean_)

    def contributions(self, bags) -> np.ndarray:
        """The mean, shared out among the instances of every bag."""
        return self.mean_ * check_bags(bags, fitted=self, allow_weights=True, apart=True).shares()


def mean_member() -> Member:
    return Member(MEAN, lambda random_state: MeanTarget(), always=True)


def members_of(listed) -> list[Member]:
    """Members of names ("aggregated", "statistics:forest") or pairs (name, unfitted estimator), the mean before them.

    Examples
    --------
    >>> [member.name for member in members_of(["aggregated", "statistics:forest"])]
    ['mean', 'aggregated', 'statistics:forest']
    """
    if isinstance(listed, str) or not len(listed):
        raise ValueError(f"members must be 'auto' or a list of names or (name, estimator), not {listed!r}")
    members = [mean_member(), *(_member(item) for item in listed)]
    names = [member.name for member in members]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two members are called {twice[0]!r}; give each its own name: (name, estimator)")
    return members


def _member(item) -> Member:
    if isinstance(item, Member):
        return item
    if isinstance(item, str):
        return named(item)
    if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and hasattr(item[1], "fit")):
        raise TypeError(f"a member is a name or a pair (name, estimator), not {item!r}")
    name, estimator = item
    return Member(name, lambda random_state: seeded(clone(estimator), random_state), costly=True)


def named(text: str) -> Member:
    """The member for "name" or "name:preset" of the catalogue."""
    found, _ = find(text)  # an unknown name or preset is refused now, not in a fold
    if found.needs is not None and find_spec(found.needs) is None:
        raise ImportError(f"{found.name} needs {found.needs}: pip install 'bagwise[{found.needs}]'")
    return Member(text, lambda random_state: method(text, random_state=random_state), costly=True)
