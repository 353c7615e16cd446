"""What a loop over weighted instances learns from, with targets on a scale of their own, and its fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import Bags, weights_or_ones
from bagwise.bags.segments import segment_max
from bagwise.instances.out_of_fold import seeded

# Relative to the largest of the bag: instances that weigh less are left out of a fit, as are those of no weight.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Task:
    """Bags in double precision, their standardised targets, and the share of every bag in the objective.

    Shares sum to one. A prediction p of standardised targets is centre + scale · p in units of y.
    """

    bags: Bags
    y: np.ndarray
    share: np.ndarray
    centre: float
    scale: float

    @classmethod
    def of(cls, bags: Bags, y: np.ndarray, sample_weight=None) -> Task:
        share = weights_or_ones(sample_weight, bags)
        share = share / share.sum()
        centre = float(share @ y)
        spread = float(np.sqrt(share @ (y - centre) ** 2))
        scale = spread if spread > 1e-12 * np.abs(y[share > 0]).max() else 1.0  # the spread of a constant is rounding
        return cls(in_double(bags), (y - centre) / scale, share, centre, scale)

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Squared error of every instance against its bag's target."""
        return (self.bags.expand(self.y) - predictions) ** 2

    def equal_weights(self) -> np.ndarray:
        """1 / size of the bag."""
        return 1.0 / self.bags.expand(self.bags.sizes)

    def fit(self, regressor, weights: np.ndarray, *, soft: bool, random_state: int):
        """A clone of the regressor, fitted on the instances that weigh something.

        ``soft`` says that the weights of a bag mean more than a choice, so that a regressor must take them.
        """
        bags, largest = self.bags, segment_max(weights, self.bags.offsets)
        kept = (weights > NEGLIGIBLE * bags.expand(largest)) & bags.expand(self.share > 0)
        total = (weights * bags.expand(self.share))[kept]
        total = total / total.mean()
        equal = np.ptp(total) <= 1e-12
        bag_of_row = bags.expand(np.arange(len(bags)))[kept]
        regressor = seeded(clone(regressor), random_state)
        extra = _taken(regressor, sample_weight=None if equal else total, groups=bag_of_row)
        weighed = any(name.endswith("sample_weight") for name in extra)
        if not (equal or weighed) and (soft or np.ptp(self.share) > 0):
            raise ValueError(
                f"{type(regressor).__name__} takes no sample_weight, which is how instances are weighed here; "
                "use a regressor that does, or weighting=Primary(), which only selects"
            )
        return regressor.fit(bags.instances[kept], self.y[bag_of_row], **extra)


def in_double(bags: Bags) -> Bags:
    return bags if bags.dtype == np.float64 else bags.replace(bags.instances.astype(np.float64))


def _taken(regressor, **offered) -> dict:
    """Those of the offered parameters of ``fit`` that the regressor, or the last step of a pipeline, takes."""
    name, last = regressor.steps[-1] if hasattr(regressor, "steps") else ("", regressor)
    prefix = f"{name}__" if name else ""
    return {prefix + key: value for key, value in offered.items() if value is not None and has_fit_parameter(last, key)}
