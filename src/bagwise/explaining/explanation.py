"""The answer of `explain`: numbers for every instance, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags

# What a kind is called, and the attribute that holds its numbers.
KINDS = {"contributions": "contributions", "weights": "weights", "leave-one-out": "effects"}
COLUMNS = ("instance_predictions", "contributions", "weights", "effects")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What every instance has to do with the prediction of its bag.

    Attributes
    ----------
    kind : {"contributions", "weights", "leave-one-out"}
        What ``values`` are.
    bags : Bags, those explained
    predictions : array (bags,)
    contributions : array (instances,) or None
        They sum to the prediction in every bag.
    weights : array (instances,) or None
        They are not negative and sum to one in every bag.
    instance_predictions : array (instances,) or None
        What the method predicts of the instance, in units of the target.
    effects : array (instances,) or None
        The prediction of the bag minus the prediction without the instance; 0 where ``alone``.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.explaining import explain
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> explanation = explain(bw.method("aggregated").fit(bags, y), bags)
    >>> explanation
    Explanation of 30 bags (150 instances) by contributions
    >>> list(explanation.table())
    ['bag', 'instance', 'instance_predictions', 'contributions']
    """

    kind: str
    bags: Bags
    predictions: np.ndarray
    contributions: np.ndarray | None = None
    weights: np.ndarray | None = None
    instance_predictions: np.ndarray | None = None
    effects: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        """The numbers of this kind, one per instance."""
        return getattr(self, KINDS[self.kind])

    @property
    def alone(self) -> np.ndarray:
        """Whether the instance is the only one of its bag, or the only one of weight: without it nothing is left."""
        return self.bags.shares() == 1

    def table(self) -> dict[str, np.ndarray]:
        """Equally long columns: the id of the bag, the position of the instance in it (from 0), then what is known."""
        first = self.bags.expand(self.bags.offsets[:-1])
        known = {name: getattr(self, name) for name in COLUMNS if getattr(self, name) is not None}
        return {"bag": self.bags.expand(self.bags.ids), "instance": np.arange(self.bags.n_instances) - first, **known}

    def __repr__(self) -> str:
        return f"Explanation of {len(self.bags):,} bags ({self.bags.n_instances:,} instances) by {self.kind}"
