"""Quantiles as coordinates: rows whose Euclidean distance is the Wasserstein distance of the bags."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.segments import segment_cumsum, segment_search
from bagwise.embeddings.base import Embedding

ROUNDING = 1e-9  # of the weight of a bag: a sum that should meet a probability meets it
BLOCK_VALUES = 2**22  # projections held at a time: 32 MB


class QuantileRows(Embedding):
    r"""The quantiles of a bag of scalars: ‖z_i - z_j‖² is the squared Wasserstein distance W_2² of bags i and j.

    On the line, W_2² = ∫ (Q_i(p) - Q_j(p))² dp with Q the quantile function. It is taken at n midpoints,

        z_i = [Q_i(1/2n), Q_i(3/2n), ..., Q_i((2n-1)/2n)] / √n.

    Q is the inverse of the empirical distribution, a step function, with no interpolation: so the distance is exact for
    bags whose sizes divide n, and a bag has the same row as itself twice over.

    Parameters
    ----------
    n : int
        Number of quantiles.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([3.0, 1.0]), np.array([2.0, 6.0])])
    >>> Z = QuantileRows(2).fit_transform(bags)
    >>> float(((Z[0] - Z[1]) ** 2).sum()).__round__(12)  # ((1 - 2)² + (3 - 6)²) / 2
    5.0

    References
    ----------
    Kolouri, Zou, Rohde (2016), Sliced Wasserstein kernels for probability distributions.
    """

    def __init__(self, n: int = 100):
        self.n = n

    def fit(self, bags, y=None) -> QuantileRows:
        bags = check_bags(bags, allow_weights=True)
        _check_count(self.n, "n")
        if bags.n_features != 1:
            raise ValueError(f"QuantileRows is for one feature, not {bags.n_features}; use SlicedQuantiles")
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return step_quantiles(bags.instances.T, bags, self.n)[:, 0] / np.sqrt(self.n)


class SlicedQuantiles(Embedding):
    r"""Quantiles of the instances projected onto random directions: distances are sliced Wasserstein distances.

    With M directions θ on the unit sphere and N quantiles each, SW_2² = 1/M Σ_θ W_2²(θ·P, θ·Q) = ‖z_P - z_Q‖². A
    second kernel on the rows, ``SecondKernel(SlicedQuantiles(), Gaussian(b))``, is exp(-γ SW_2²); with
    ``distance="l1"`` it is exp(-γ SW_1).

    Parameters
    ----------
    directions, quantiles : int
        M and N; a row has M·N columns. For one feature there is one direction, and the distance is W_2.
    random_state : int

    Attributes
    ----------
    directions_ : array (features, directions) of unit length

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((3, 2)), np.array([[3.0, 4.0]])])
    >>> Z = SlicedQuantiles(directions=2000, quantiles=2).fit_transform(bags)
    >>> round(float(((Z[0] - Z[1]) ** 2).sum()))  # the mean of (θ·x)² is ‖x‖² / 2 = 12.5
    12

    References
    ----------
    Meunier, Pontil, Ciliberto (2022), Distribution regression with sliced Wasserstein kernels.
    """

    def __init__(self, directions: int = 100, quantiles: int = 100, *, random_state: int = 0):
        self.directions = directions
        self.quantiles = quantiles
        self.random_state = random_state

    def fit(self, bags, y=None) -> SlicedQuantiles:
        bags = check_bags(bags, allow_weights=True)
        _check_count(self.directions, "directions")
        _check_count(self.quantiles, "quantiles")
        draws = np.random.default_rng(self.random_state).normal(size=(self.directions, bags.n_features)).T
        draws = np.ones((1, 1)) if bags.n_features == 1 else draws
        self.directions_ = draws / np.sqrt((draws**2).sum(axis=0))
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        n_directions = self.directions_.shape[1]
        rows = np.empty((len(bags), n_directions, self.quantiles))
        step = max(1, BLOCK_VALUES // bags.n_instances)
        for start in range(0, n_directions, step):
            some = slice(start, start + step)
            projected = self.directions_[:, some].T @ bags.instances.T
            rows[:, some] = step_quantiles(projected, bags, self.quantiles)
        return rows.reshape(len(bags), -1) / np.sqrt(n_directions * self.quantiles)


def step_quantiles(values: np.ndarray, bags: Bags, n: int) -> np.ndarray:
    """Q((k + 1/2) / n) of every bag, for several lines of values (lines, instances): (bags, lines, n).

    Q(p) is the smallest value with at least p of the (weight of the) bag at or below it. Without weights bags of one
    size are sorted together, as one array.
    """
    out = np.empty((len(bags), len(values), n))
    if bags.weights is not None:
        bag_of_row, share = bags.expand(np.arange(len(bags))), bags.shares()
        wanted = np.tile((np.arange(n) + 0.5) / n - ROUNDING, (len(bags), 1))
        for j, line in enumerate(values):
            order = np.lexsort((line, bag_of_row))
            at = segment_search(segment_cumsum(share[order], bags.offsets), bags.offsets, wanted)
            out[:, j] = line[order][np.minimum(at, bags.offsets[1:, None] - 1)]
        return out
    for size in np.unique(bags.sizes):
        which = np.flatnonzero(bags.sizes == size)
        ordered = np.sort(values[:, bags.offsets[which][:, None] + np.arange(size)], axis=-1)
        # the smallest value with at least (k + 1/2)/n of the bag at or below it, in whole numbers
        at = -(-(2 * np.arange(n) + 1) * size // (2 * n)) - 1
        out[which] = ordered[:, :, at].swapaxes(0, 1)
    return out


def _check_count(value, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number above zero, not {value!r}")
