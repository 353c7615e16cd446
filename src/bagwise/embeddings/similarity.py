"""Similarity of a bag to prototypes: does any of its instances look like this one?"""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags, remember_columns
from bagwise.bags.segments import row_blocks, segment_max
from bagwise.embeddings.base import Embedding
from bagwise.embeddings.feature_mean import BLOCK_ROWS, mean_of_features, pick_prototypes
from bagwise.embeddings.kernel_mean import spread_of
from bagwise.kernels import Gaussian, Kernel

POOLS = ("max", "mean")


class MinusDistance(Kernel):
    r"""s(a, b) = -‖a - b‖, so that the largest similarity is the smallest distance; it has no bandwidth.

    Examples
    --------
    >>> MinusDistance()([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
    [[-5.0]]
    """

    smooth = False

    def __init__(self):
        pass

    @property
    def positive_definite(self) -> bool:
        return False

    def _check(self) -> None:
        pass

    def _of_squared_distance(self, d2):
        return -(d2**0.5)


class Similarity(Embedding):
    r"""s(c_k, bag) = max_l k(x_l, c_k): how close the nearest instance of a bag comes to each of P prototypes c_k.

    A linear model on these columns reads "the target is high when some instance looks like c_k", which a mean cannot
    say. The maximum over more instances is larger by chance, so large bags look more similar to everything;
    ``pool="mean"`` has no such effect.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(0.5)
        MILES has exp(-r²/σ²), which is Gaussian with bandwidth σ/√2; `MinusDistance` gives distances as they are.
    prototypes : int
        P, the largest number of prototypes.
    pick : {"random", "k-means"}
        Training instances, drawn by a hash of their content; or centres of clusters of them.
    pool : {"max", "mean"}
    random_state : int

    Attributes
    ----------
    prototypes_ : array (prototypes, features), in units of ``spread_``
    spread_ : root of the total variance of the instances, by which they are divided before the kernel

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([0.0, 5.0]), np.array([1.0])])
    >>> similarity = Similarity(MinusDistance())
    >>> Z = similarity.fit_transform(bags) * similarity.spread_
    >>> prototypes = (similarity.prototypes_[:, 0] * similarity.spread_).round()
    >>> dict(zip(prototypes.tolist(), Z[1].round().tolist()))[5.0]
    -4.0

    References
    ----------
    Chen, Bi, Wang (2006), MILES: multiple-instance learning via embedded instance selection. El-Manzalawy's MILESReg in
    Weka takes it to regression with smallest distances.
    """

    def __init__(self, kernel=None, *, prototypes: int = 500, pick="random", pool="max", random_state: int = 0):
        self.kernel = kernel
        self.prototypes = prototypes
        self.pick = pick
        self.pool = pool
        self.random_state = random_state

    @property
    def is_mean(self) -> bool:
        """Whether the row of a bag is the mean of those that its instances have alone."""
        return self.pool == "mean"

    def fit(self, bags, y=None) -> Similarity:
        bags = check_bags(bags, allow_weights=self.pool == "mean")
        if self.pool not in POOLS:
            raise ValueError(f"pool must be 'max' or 'mean', not {self.pool!r}")
        self.spread_ = spread_of(bags.instances)
        chosen = pick_prototypes(bags.instances, self.prototypes, self.pick, random_state=self.random_state)
        self.prototypes_ = chosen / self.spread_
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=self.pool == "mean")
        if self.pool == "mean":
            return mean_of_features(self._similarities, bags)
        nearest = np.full((len(bags), len(self.prototypes_)), -np.inf)
        for rows, touched, own in row_blocks(bags.offsets, BLOCK_ROWS):
            values = segment_max(self._similarities(bags.instances[rows]), own)
            np.maximum(nearest[touched], values, out=nearest[touched])
        return nearest

    def _similarities(self, rows: np.ndarray) -> np.ndarray:
        kernel = Gaussian(0.5) if self.kernel is None else self.kernel
        return kernel(np.divide(rows, self.spread_, dtype=np.float64), self.prototypes_)
