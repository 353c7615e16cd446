"""Which members and how many folds: decided by the size of the data, never by what they are.

Who is tried: a member is a name and a way to make an estimator; names come from the catalogue, or from the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import SelectKBest, f_regression

from bagwise.auto.preparation import Components, ThinBags
from bagwise.bags import Bags, check_bags, check_weights, remember_columns
from bagwise.bags.folds import count_units
from bagwise.embeddings.summaries import Statistics
from bagwise.instances import OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.methods.catalogue import NamedMethod, method
from bagwise.methods.distributions import sliced
from bagwise.methods.instance_kme import KERNELS, default_network, second_stage
from bagwise.regressors import BagPipeline

MEAN = "mean"  # the name of the member that every other has to beat


@dataclass(frozen=True)
class Member(NamedMethod):
    """A name and a function seed -> unfitted estimator.

    A ``costly`` member has to show on the first fold that it is of use. One that is tried ``always`` does not ask
    whether the time budget allows it.
    """

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
    Member.refuse_twins(members, "member")
    return members


def _member(item) -> Member:
    if isinstance(item, Member):
        return item
    own = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and hasattr(item[1], "fit")
    if not (own or isinstance(item, str)):
        raise TypeError(f"a member is a name or a pair (name, estimator), not {item!r}")
    return Member.of(item, costly=True)


FEW_BAGS = 30  # below, networks and a long list of members would learn the noise
WIDE, COMPONENTS = 300, 100  # above so many features, networks on long tables see so many principal components
LONG, FEWEST_SEEN = 200_000, 20  # above so many instances, networks see some of every bag in training, 20 or more
VERY_LONG = 10**7  # above so many, so do methods that pass over them once
SLICES = 2 * 10**8  # numbers to be sorted for sliced Wasserstein distances
CELLS = 5 * 10**6  # instances times features of a long table
NUMBERS = 5 * 10**7  # in the rows of all bags, 400 MB: statistics and slices have fewer columns beyond it
STATISTICS = 7  # columns for a feature
BUSY_COLUMNS = 1000  # of statistics that boosted trees see: those that go with the target most
TRIED_COLUMNS = 150  # at a split of a forest, at most
LEAF_BAGS = 4000  # a forest has one bag more in every leaf for so many bags: its trees stay small


def count_folds(bags: Bags) -> int:
    """10, 5 or 3: models that see most of the bags where those are few, few fits where they are many."""
    folds = 10 if FEW_BAGS <= len(bags) < 300 else 5 if len(bags) < 10_000 else 3
    return max(2, min(folds, count_units(bags)))


def plan(bags: Bags) -> list[Member]:
    """The members for these bags, quick ones first; the mean is the first of all."""
    menu = Menu(len(bags), bags.n_instances, bags.n_features, count_units(bags))
    members = [mean_member(), *menu.quick()]
    return members if len(bags) < FEW_BAGS else [*members, *menu.costly()]


@dataclass(frozen=True)
class Menu:
    """Members for so many bags, instances and features, and so many groups (or bags) to deal to folds."""

    bags: int
    instances: int
    features: int
    units: int

    def quick(self) -> list[Member]:
        found = [
            Member("aggregated", lambda seed: method("aggregated", random_state=seed), always=True),
            Member("statistics:linear", self.linear, always=True),
            Member("statistics:forest", self.forest),
        ]
        if self.bags < FEW_BAGS:
            return found
        return [*found, Member("input-kme", self.input_kme), Member("sliced-wasserstein", self.sliced)]

    def costly(self) -> list[Member]:
        found = {
            "statistics": self.boosting,
            "instance-kme:ridge": self.instance_kme_ridge,
            "em": lambda seed: self._seen_by_networks(method("em", random_state=seed), seed),
            "shrinkage:between": self.shrinkage,
            "instance-kme": self.instance_kme,
        }
        if find_spec("torch") is not None:
            found["attention"] = lambda seed: self._seen_by_networks(method("attention", random_state=seed), seed)
        return [Member(name, make, costly=True) for name, make in found.items()]

    # The members ----------------------------------------------------------------------------------------------------

    def linear(self, seed: int):
        return self._narrow(method("statistics", preset="linear", random_state=seed), seed)

    def forest(self, seed: int):
        """Extremely randomised trees on the statistics of a bag."""
        n, leaf = 100 if self.bags < FEW_BAGS else 200, 1 + self.bags // LEAF_BAGS
        tried = min(0.1, TRIED_COLUMNS / (STATISTICS * self.features))
        trees = ExtraTreesRegressor(n, max_features=tried, min_samples_leaf=leaf, random_state=seed)
        return self._narrow(BagPipeline([("embedding", Statistics()), ("head", trees)]), seed)

    def boosting(self, seed: int):
        """Boosted trees on the statistics that go with the target most: with thousands, a split takes too long."""
        model = method("statistics", random_state=seed)
        if STATISTICS * self.features <= BUSY_COLUMNS:
            return model
        embedding, head = (step for _, step in model.steps)
        chosen = SelectKBest(f_regression, k=BUSY_COLUMNS)
        return self._narrow(BagPipeline([("embedding", embedding), ("columns", chosen), ("head", head)]), seed)

    def input_kme(self, seed: int):
        return self._short(method("input-kme", random_state=seed), seed)

    def sliced(self, seed: int):
        """Sliced Wasserstein distances, in fewer directions for many bags or instances."""
        directions = min(200, max(25, min(NUMBERS // (20 * self.bags), SLICES // self.instances)))
        return self._short(sliced(directions=directions, random_state=seed), seed)

    def shrinkage(self, seed: int):
        return self._short(method("shrinkage", preset="between", random_state=seed), seed)

    def instance_kme_ridge(self, seed: int):
        """instance-kme with a ridge on random features of the instance for its networks."""
        return self._second_stage(RandomFeatureRidge(random_state=seed), seed)

    def instance_kme(self, seed: int):
        """instance-kme with five inner folds for ten: half the networks. Of few groups, each is a fold."""
        folds = 5 if self.units >= 10 else "auto"
        return self._second_stage(default_network(random_state=seed), seed, folds=folds)

    def _second_stage(self, learner, seed: int, folds="auto"):
        head, judge = second_stage(KERNELS), second_stage(KERNELS[:5:2])
        stage = OutOfFold(learner, folds=folds, judge=judge, random_state=seed)
        return self._seen_by_networks(BagPipeline([("instances", stage), ("head", head)]), seed)

    # What goes before them ------------------------------------------------------------------------------------------

    def _narrow(self, model, seed: int):
        """Principal components first, where statistics of all features would not fit into memory."""
        if self.bags * STATISTICS * self.features <= NUMBERS:
            return model
        return BagPipeline([("components", Components(COMPONENTS, random_state=seed)), ("model", model)])

    def _short(self, model, seed: int):
        """Fewer instances of every bag in training, where they are very many."""
        if self.instances <= VERY_LONG:
            return model
        return BagPipeline([("some", self._some(VERY_LONG, seed)), ("model", model)])

    def _seen_by_networks(self, model, seed: int):
        """Fewer instances and fewer features for what passes over them many times."""
        steps = [("model", model)]
        if self.features > WIDE and self.features * min(self.instances, LONG) > CELLS:
            steps.insert(0, ("components", Components(COMPONENTS, random_state=seed)))
        if self.instances > LONG:
            steps.insert(0, ("some", self._some(LONG, seed)))
        return BagPipeline(steps) if len(steps) > 1 else model

    def _some(self, instances: int, seed: int) -> ThinBags:
        return ThinBags(max(FEWEST_SEEN, instances // self.bags), random_state=seed)
