"""Which members and how many folds: decided by the size of the data, never by what they are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import SelectKBest, f_regression

from bagwise.automatic.members import Member, mean_member
from bagwise.automatic.preparing import Components, ThinBags
from bagwise.bags import Bags
from bagwise.embeddings.statistics import Statistics
from bagwise.instances import OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.methods.catalogue import method
from bagwise.methods.embedded import sliced
from bagwise.methods.instance_kme import KERNELS, second_stage
from bagwise.methods.learners import default_network
from bagwise.regressors import BagPipeline

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


def count_units(bags: Bags) -> int:
    """How many groups, or bags, there are to deal to folds."""
    return len(set((bags.ids if bags.groups is None else bags.groups).tolist()))


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
