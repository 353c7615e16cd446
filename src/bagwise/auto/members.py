"""Members of `AutoRegressor`: names with functions that create estimators, from the catalogue or from the user.

Members and the number of folds depend only on the preset and on the size of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import SelectKBest, f_regression

from bagwise.auto.large_data import MANY_BAGS, Components, ScreenedRidge, ThinBags
from bagwise.bags import Bags, check_bags, check_weights, remember_columns
from bagwise.bags.folds import count_units
from bagwise.embeddings.summaries import Statistics
from bagwise.methods.catalogue import NamedMethod, method
from bagwise.methods.distributions import sliced
from bagwise.regressors import BagPipeline

MEAN = "mean"  # name of the baseline member


@dataclass(frozen=True)
class Member(NamedMethod):
    """A name and a function seed -> unfitted estimator.

    A ``costly`` member continues after the first fold only if it improves the blend there. If ``always`` is true, the
    time budget does not apply. ``make_first`` creates a cheaper estimator for the first fold (fewer networks).
    """

    costly: bool = False
    always: bool = False
    make_first: Callable[[int], Any] | None = None


class MeanTarget(RegressorMixin, BaseEstimator):
    """Predict the mean of the training targets. Its weight in a blend shrinks the other members towards the mean."""

    def fit(self, bags, y, sample_weight=None) -> MeanTarget:
        bags = check_bags(bags, fitting=self, allow_weights=True, apart=True)
        self.mean_ = float(np.average(y, weights=check_weights(sample_weight, bags)))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        return np.full(len(check_bags(bags, fitted=self, allow_weights=True, apart=True)), self.mean_)

    def contributions(self, bags) -> np.ndarray:
        """Return the mean times the share of each instance in its bag."""
        return self.mean_ * check_bags(bags, fitted=self, allow_weights=True, apart=True).shares()


def mean_member() -> Member:
    return Member(MEAN, lambda random_state: MeanTarget(), always=True)


def members_of(listed) -> list[Member]:
    """Return the mean, then members of names ("statistics:forest") or pairs (name, unfitted estimator)."""
    if listed is None or isinstance(listed, str) or not len(listed):
        plans = ", ".join(map(repr, PLANS))
        raise ValueError(f"members must be {plans}, or a list of names or (name, estimator), not {listed!r}")
    members = [mean_member()]
    for item in listed:
        is_pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and hasattr(item[1], "fit")
        if not isinstance(item, Member | str) and not is_pair:
            raise TypeError(f"a member is a name or a pair (name, estimator), not {item!r}")
        members.append(item if isinstance(item, Member) else Member.of(item, costly=True))
    Member.check_unique_names(members, "member")
    return members


FEW_BAGS = 30  # with fewer bags, networks and a long list of members would overfit
WIDE, COMPONENTS = 300, 100  # above 300 features, networks on long tables use 100 principal components
LONG, FEWEST_PER_BAG = 200_000, 20  # above this number of instances, networks train on a sample of each bag, 20 or more
VERY_LONG = 10**7  # above this number of instances, all other methods also train on a sample
SLICES = 2 * 10**8  # largest number of values to sort for sliced Wasserstein distances
CELLS = 5 * 10**6  # instances times features above which a table is long
NUMBERS = 5 * 10**7  # largest number of values in the embeddings of all bags (400 MB); more columns are reduced
STATISTICS = 7  # columns per feature
BUSY_COLUMNS = 1000  # largest number of statistics for boosted trees: those most correlated with the target
TRIED_COLUMNS = 150  # largest number of columns tried at a split of a forest
FIRST_NETWORKS = 2  # networks of attention on the first fold
LEAF_BAGS = 4000  # the smallest leaf of a forest grows by one bag per this number of bags, to keep trees small
# Above these numbers of bags and statistics, a forest tries half as many columns, and leaves have two bags or more. It
# takes less than two thirds of the time, with the same errors within noise.
BUSY_BAGS, BUSY_NUMBERS = 1000, 10**6


def count_folds(bags: Bags) -> int:
    """Return the number of folds: 5, or 3 from 10,000 bags on, and no more than there are bags (groups)."""
    return max(2, min(5 if len(bags) < 10_000 else 3, count_units(bags)))


def plan(bags: Bags, name: str = "auto") -> list[Member]:
    """Return the members of a plan (see `AutoRegressor`) for these bags in order of cost, the mean first."""
    menu = Menu(len(bags), bags.n_instances, bags.n_features, count_units(bags))
    if name == "additive":
        return [mean_member(), *menu.additive()]
    members = [mean_member(), *menu.quick()]
    if name == "quick" or len(bags) < FEW_BAGS:
        return members
    return [*members, *menu.costly(), *(menu.more() if name == "best" else [])]


PLANS = ("auto", "quick", "best", "additive")


@dataclass(frozen=True)
class Menu:
    """Members for data with the given numbers of bags, instances, features, and groups (or bags) that form folds."""

    bags: int
    instances: int
    features: int
    units: int

    def quick(self) -> list[Member]:
        members = [
            Member.of("aggregated", always=True),
            Member("statistics:linear", self.linear, always=True),
            Member("statistics:forest", self.forest),
        ]
        if self.bags < FEW_BAGS:
            return members
        return [*members, Member("sliced-wasserstein", self.sliced), Member("input-kme", self.input_kme)]

    def costly(self) -> list[Member]:
        makers = {
            "statistics": self.boosting,
            "instance-kme": lambda seed: self._second_stage("default", seed),
            "em": self._by_networks("em"),
            "shrinkage:between": lambda seed: self._short(method("shrinkage:between", random_state=seed), seed),
        }
        attention, first = self._by_networks("attention"), self._by_networks("attention", restarts=FIRST_NETWORKS)
        return [
            *(Member(name, make, costly=True) for name, make in makers.items()),
            Member("attention", attention, costly=True, make_first=first),
        ]

    def more(self) -> list[Member]:
        """Return the further members of the plan "best"."""
        return [Member(name, self._by_networks(name), costly=True) for name in ("quantile", "attention:moments")]

    def additive(self) -> list[Member]:
        members = [Member.of("aggregated", always=True)]
        if self.bags < FEW_BAGS:
            return members
        name = "input-kme:linear"
        kernel_mean = Member(name, lambda seed: self._short(method(name, random_state=seed), seed))
        second = Member("instance-kme:additive", lambda seed: self._second_stage("additive", seed), costly=True)
        return [*members, kernel_mean, second]

    # The members ----------------------------------------------------------------------------------------------------

    def linear(self, seed: int):
        return self._narrow(method("statistics:linear", random_state=seed), seed)

    def forest(self, seed: int):
        """Return extremely randomised trees on the statistics of a bag."""
        columns, n = STATISTICS * self.features, 100 if self.bags < FEW_BAGS else 200
        busy = self.bags > BUSY_BAGS and self.bags * columns > BUSY_NUMBERS
        leaf = max(2 if busy else 1, 1 + self.bags // LEAF_BAGS)
        tried = min(0.1, TRIED_COLUMNS / columns / (2 if busy else 1))
        trees = ExtraTreesRegressor(n, max_features=tried, min_samples_leaf=leaf, random_state=seed)
        return self._narrow(BagPipeline([("embedding", Statistics(missing="keep")), ("head", trees)]), seed)

    def boosting(self, seed: int):
        """Return boosted trees on statistics; if more than 1,000, on those most correlated with the target."""
        model = method("statistics", random_state=seed)
        if STATISTICS * self.features <= BUSY_COLUMNS:
            return model
        embedding, head = (step for _, step in model.steps)
        chosen = SelectKBest(f_regression, k=BUSY_COLUMNS)
        return self._narrow(BagPipeline([("embedding", embedding), ("columns", chosen), ("head", head)]), seed)

    def input_kme(self, seed: int):
        return self._short(self._screened(method("input-kme", random_state=seed)), seed)

    def sliced(self, seed: int):
        """Return sliced Wasserstein distances, in fewer directions for many bags or instances."""
        directions = min(200, max(25, min(NUMBERS // (20 * self.bags), SLICES // self.instances)))
        return self._short(self._screened(sliced(directions=directions, random_state=seed)), seed)

    def _by_networks(self, name: str, **parameters) -> Callable[[int], Any]:
        return lambda seed: self._seen_by_networks(method(name, random_state=seed).set_params(**parameters), seed)

    def _second_stage(self, preset: str, seed: int):
        """Return instance-kme with five inner folds instead of ten, or one fold per group if there are few groups."""
        model, folds = method("instance-kme", preset=preset, random_state=seed), 5 if self.units >= 10 else "auto"
        learners = [f"instances__{name}__folds" for name, _ in model[0].learners]
        return self._seen_by_networks(model.set_params(**dict.fromkeys(learners, folds)), seed)

    # Steps before them ---------------------------------------------------------------------------------------------

    def _narrow(self, model, seed: int):
        """Put principal components first where statistics of all features would not fit into memory."""
        if self.bags * STATISTICS * self.features <= NUMBERS:
            return model
        return BagPipeline([("components", Components(COMPONENTS, random_state=seed)), ("model", model)])

    def _short(self, model, seed: int):
        """Train on fewer instances of each bag where there are very many."""
        if self.instances <= VERY_LONG:
            return model
        return BagPipeline([("some", self._some(VERY_LONG, seed)), ("model", model)])

    def _screened(self, model):
        """Compare the settings of the ridge on a subset first if there are many bags."""
        if self.bags <= MANY_BAGS:
            return model
        return model.set_params(head=ScreenedRidge(**model.named_steps["head"].get_params(deep=False)))

    def _seen_by_networks(self, model, seed: int):
        """Train networks on fewer instances and features where there are very many."""
        steps = [("model", model)]
        if self.features > WIDE and self.features * min(self.instances, LONG) > CELLS:
            steps.insert(0, ("components", Components(COMPONENTS, random_state=seed)))
        if self.instances > LONG:
            steps.insert(0, ("some", self._some(LONG, seed)))
        return BagPipeline(steps) if len(steps) > 1 else model

    def _some(self, instances: int, seed: int) -> ThinBags:
        return ThinBags(max(FEWEST_PER_BAG, instances // self.bags), random_state=seed)
