"""What would help, more bags or more instances: one member fitted again to half of either."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.automatic.members import Member
from bagwise.automatic.preparing import thin
from bagwise.automatic.screening import Screen, fit_member
from bagwise.bags import Bags
from bagwise.instances import bag_folds

FEWEST_BAGS = 40
SMALL = 0.05  # a rise of the error below which more of the same hardly helps


@dataclass(frozen=True)
class Curve:
    """By how much the error of a member rises, as a share of its error, with half the bags and half the instances."""

    member: str
    rise: dict[str, float]
    se: dict[str, float]

    def says(self) -> str:
        """A sentence for each. What is within two standard errors is called noise.

        Examples
        --------
        >>> Curve("aggregated", {"bags": 0.2}, {"bags": 0.04}).says()
        'More bags would probably help: with half of them the error of aggregated changed by +20 % (± 4 %).'
        """
        return " ".join(self._sentence(what) for what in self.rise)

    def _sentence(self, what: str) -> str:
        rise, se = self.rise[what], self.se[what]
        noun = "bags" if what == "bags" else "instances a bag"
        measured = f"with half of them the error of {self.member} changed by {rise:+.0%} (± {se:.0%})".replace(
            "%", " %"
        )
        if rise > 2 * se:
            return f"More {noun} would probably help: {measured}."
        if rise + 2 * se < SMALL:
            return f"More {noun} would hardly help: {measured}."
        return f"Whether more {noun} would help cannot be told: {measured}, which is within noise."


def learning_curve(screen: Screen, member: Member, held_out: np.ndarray) -> Curve | None:
    """The curve of a member whose held-out predictions with all the data are known; None for too few bags."""
    if len(screen.bags) < FEWEST_BAGS:
        return None
    halves = {"bags": _with_half_the_bags}
    if np.median(screen.bags.sizes) >= 2:
        halves["instances"] = _with_half_the_instances
    whole = screen.loss(held_out)
    level = max(float(whole.mean()), np.finfo(float).tiny)
    rise, se = {}, {}
    for what, halve in halves.items():
        worse = screen.loss(halve(screen, member)) - whole
        # d√m / √m = dm / 2m
        rise[what] = float(np.sqrt(max(level + worse.mean(), 0.0) / level) - 1.0)
        se[what] = float(worse.std() / np.sqrt(len(worse)) / (2 * level))
    return Curve(member.name, rise, se)


def _with_half_the_bags(screen: Screen, member: Member) -> np.ndarray:
    """Every fold predicted by a model of half of the other bags, of every group about half; by a hash of their ids."""
    half = bag_folds(screen.bags._with(groups=None), 2, random_state=screen.random_state) == 0
    return _cross_fit(screen, member, screen.bags, lambda k: (screen.fold != k) & half)


def _with_half_the_instances(screen: Screen, member: Member) -> np.ndarray:
    """Half of every bag, in training and in the bags predicted."""
    sizes = (screen.bags.sizes + 1) // 2
    return _cross_fit(screen, member, thin(screen.bags, sizes, screen.random_state), lambda k: screen.fold != k)


def _cross_fit(screen: Screen, member: Member, bags: Bags, seen_without) -> np.ndarray:
    out = np.empty(len(screen.y))
    for k in range(screen.fold.max() + 1):
        seen, tested = np.flatnonzero(seen_without(k)), np.flatnonzero(screen.fold == k)
        weight = None if screen.sample_weight is None else screen.sample_weight[seen]
        model = fit_member(member, bags[seen], screen.y[seen], weight, screen.random_state)
        out[tested] = model.predict(bags[tested])
    return out
