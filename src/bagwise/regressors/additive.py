"""What linear regression on a mean has for free: the prediction of a bag is a sum over its instances."""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags
from bagwise.bags.segments import segment_sum

BLOCK_BAGS = 4096  # instances at a time, each a bag of its own: 16 MB of 500 columns


class AdditiveMixin:
    r"""For regressors that are linear in a fitted ``embedding_``: what every instance adds to its bag's prediction.

    Where the row of a bag is the mean of the rows of its instances (the embedding says so by ``is_mean``), its
    prediction is the mean of one function of the instance, ŷ_i = 1/L_i Σ_l h(x_il), and h is the prediction of a
    bag of that instance alone.
    """

    @property
    def additive_(self) -> bool:
        """Whether the embedding says that it is a mean, so that predictions are sums over instances."""
        return bool(getattr(self.embedding_, "is_mean", False))

    def predict_instances(self, bags) -> np.ndarray:
        """h of every instance: what a bag of it alone is predicted to be. Memory does not grow with their number."""
        singles = check_bags(bags, allow_weights=True, apart=True).singles()
        starts = range(0, len(singles), BLOCK_BAGS)
        return np.concatenate([self.predict(singles[start : start + BLOCK_BAGS]) for start in starts])

    def contributions(self, bags) -> np.ndarray:
        """What each instance adds to its bag's prediction: its share in the bag times h, for rows that are means."""
        bags = check_bags(bags, allow_weights=True, apart=True)
        parts, whole = self.predict_instances(bags) * bags.shares(), self.predict(bags)
        if not np.allclose(segment_sum(parts, bags.offsets), whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max()):
            raise ValueError(
                f"{type(self.embedding_).__name__} is not a mean over instances, so the prediction is no sum of "
                "contributions; use a linear embedding such as KernelMean"
            )
        return parts
