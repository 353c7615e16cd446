"""Bandwidth rules, which compute the bandwidth of a kernel from instances: ``Gaussian(MedianDistance())``.

Rules use a sample of the instances that does not depend on the order of bags and instances or the units of features.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean
from bagwise.execution.resources import one_thread
from bagwise.kernels.formulas import Gaussian, squared_distances


def draw_instances(X, n: int, *, random_state: int = 0) -> np.ndarray:
    """Sample at most ``n`` rows of `Bags` or an array without replacement, with equal weight per bag."""
    X, _, order, keys = _random_keys(X, random_state)
    if n < len(keys):
        first = np.argpartition(keys, n)[:n]
        order, keys = order[first], keys[first]
    return X[order[np.argsort(keys)]].astype(np.float64)


def draw_bags(X, n: int, per_bag: int, *, random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sample at most ``n`` rows, and at most ``per_bag`` per bag; return the rows and the bag number of each."""
    per_bag = per_bag if isinstance(X, Bags) else n
    X, bag, order, keys = _random_keys(X, random_state)
    order = order[np.argsort(keys)]
    _, first, inverse = np.unique(bag[order], return_index=True, return_inverse=True)
    bag_number = first[inverse]  # orders the bags by their smallest key
    grouped = np.argsort(bag_number, kind="stable")
    order, bag_number = order[grouped], bag_number[grouped]
    starts = np.flatnonzero(np.diff(bag_number, prepend=-1))
    rank = np.arange(len(bag_number)) - np.repeat(starts, np.diff(starts, append=len(bag_number)))
    sampled = np.flatnonzero(rank < per_bag)[:n]
    return X[order[sampled]].astype(np.float64), bag_number[sampled]


def _random_keys(X, random_state: int):
    """Return rows, the bag of each row, the order of the rows by value, and a random key per row in that order.

    The keys are exponential, times the size of the bag. The rows with the smallest keys are then a sample without
    replacement with weights 1 / size.
    """
    X, sizes = (X.instances, X.sizes) if isinstance(X, Bags) else (np.asarray(X), None)
    X = X[:, None] if X.ndim == 1 else X
    sizes = np.array([len(X)]) if sizes is None else sizes
    bag = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(X[:, 0], kind="stable")
    if not np.diff(X[order, 0]).all():  # ties are broken by the other columns, then by the size of the bag
        order = np.lexsort((sizes[bag], *X.T[::-1]))
    keys = np.random.default_rng(random_state).exponential(size=len(X)) * sizes[bag[order]]
    return X, bag, order, keys


def smoothed(z: np.ndarray, bandwidth: float, width: float) -> np.ndarray:
    r"""Compute r(z_i, z_j) = ∫ k(z_i, t) k(t, z_j) ν(dt) for a Gaussian k of bandwidth θ and ν = N(0, width² I).

    = (1 + 2 width²/θ²)^(-d/2) exp(-‖z_i - z_j‖² / (4θ²)) exp(-‖z_i + z_j‖² / (8 (θ²/2 + width²))).
    """
    z = np.atleast_2d(z)
    near = squared_distances(z, z) / (4 * bandwidth**2)
    central = squared_distances(z, -z) / (8 * (bandwidth**2 / 2 + width**2))
    return (1 + 2 * (width / bandwidth) ** 2) ** (-z.shape[1] / 2) * np.exp(-near - central)


class Features:
    """Statistics of bags at d landmarks z; with the eigenvectors of R, a log density takes O(bags · d) operations."""

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, z: np.ndarray, bandwidth: float):
        phi = Gaussian(bandwidth)(rows, z)
        means = segment_mean(phi, offsets)
        spectrum, axes = np.linalg.eigh(smoothed(z, bandwidth, 1.0))
        sizes = np.diff(offsets)
        self.scatter = float(((phi - np.repeat(means, sizes, axis=0)) ** 2).sum())
        self.prior = (sizes[:, None] * np.maximum(spectrum, 0.0)).ravel()
        self.weight = (sizes[:, None] * (means @ axes) ** 2).ravel()
        self.total, self.spare = phi.size, phi.size - means.size  # m n, and m (n - 1), over all bags
        # J = diag(k(x, z_l)) (z - x) / θ² is square: log |det J| = Σ_l log k(x, z_l) - 2 d log θ + log |det(z - x)|.
        self.jacobian = -squared_distances(rows, z).sum() / (2 * bandwidth**2) - 2 * phi.size * np.log(bandwidth)

    def log_density(self, noise: float) -> float:
        """Return the log density without Σ log |det(z - x)|, which is constant in the parameters."""
        at = self.prior + noise
        quadratic = self.scatter / noise + (self.weight / at).sum()
        determinant = self.spare * np.log(noise) + np.log(at).sum()
        return self.jacobian - 0.5 * (self.total * np.log(2 * np.pi) + determinant + quadratic)


PER_BAG = 20  # rows per bag for the pseudolikelihood: enough for its spread, few enough to use many bags


class MedianDistance(BaseEstimator):
    r"""Bandwidth θ = scale · sqrt(median squared distance / 2): at scale 1 a typical pair has Gaussian similarity 1/e.

    Parameters
    ----------
    scale : float, default 1.0
        Factor of the rule.
    points : int, default 1000
        The median is over all pairs of this many instances, sampled with equal weight per bag.
    random_state : int, default 0

    Attributes
    ----------
    bandwidth_ : float

    Examples
    --------
    >>> import numpy as np
    >>> round(MedianDistance().fit(np.array([[0.0], [2.0], [4.0]])), 3)
    1.414
    """

    def __init__(self, scale: float = 1.0, *, points: int = 1000, random_state: int = 0):
        self.scale = scale
        self.points = points
        self.random_state = random_state

    def fit(self, X) -> float:
        """Compute the bandwidth for an array of instances or `Bags`; ``scale`` if all instances are equal."""
        rows = draw_instances(X, self.points, random_state=self.random_state)
        rows = rows - rows.mean(axis=0)
        size = np.abs(rows).max() or 1.0  # divided out first, because squares of 1e-200 underflow
        squares = pdist(rows / size, "sqeuclidean")
        # With few distinct values most pairs are equal and the median is zero, so only unequal pairs count.
        apart = squares if len(squares) and np.median(squares) > 0 else squares[squares > 0]
        self.bandwidth_ = float(self.scale * (size * np.sqrt(np.median(apart) / 2) if len(apart) else 1.0))
        return self.bandwidth_


class MarginalPseudolikelihood(BaseEstimator):
    r"""Bandwidth of the Gaussian kernel that maximises the likelihood of the instances, without the targets.

    The embedding μ of a bag has a Gaussian process prior, and the features φ(x) = [k(x, z_1) .. k(x, z_m)] of its n
    instances scatter about it: μ(z) ~ N(0, R), φ(x_l) | μ ~ N(μ(z), τ² I). With μ integrated out, the log density of
    the instances of a bag is

    -½ [ mn log 2π + m(n-1) log τ² + log det(nR + τ²I) + Σ_l ‖φ_l - φ̄‖²/τ² + n φ̄ᵀ(nR + τ²I)⁻¹φ̄ ] + Σ_l log γ(x_l),

    where γ(x) = sqrt(det JᵀJ), J = dφ/dx, is the change of variables from x to φ(x). The log densities of the bags
    are summed; an array is one bag. R holds r(z_i, z_j) = ∫ k(z_i, t) k(t, z_j) ν(dt), ν a normal density as wide as
    the instances. θ and τ² maximise the sum.

    Parameters
    ----------
    points : int, default 400
        Number of instances used, up to 20 per bag.
    sets : int, default 20
        Number of sets of landmarks z over which the log density is averaged; less if there are few points.
    random_state : int, default 0

    Attributes
    ----------
    bandwidth_ : float
    noise_ : float
        τ², in units of k(x, x) = 1; NaN if the fallback `MedianDistance` was used.

    Notes
    -----
    With all observations as landmarks, as in the paper, the density has no maximum over θ and τ²: for more landmarks
    than the d features, it grows as the kernel widens and τ shrinks with the features. So landmarks form sets of d, for
    which the Jacobian is square and the density is one of x. Instances that span fewer dimensions than they have
    columns are rotated into their span. With fewer than 2(d + 1) points, the rule is `MedianDistance`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 1))
    >>> rule = MarginalPseudolikelihood()
    >>> round(rule.fit(X), 1), round(rule.fit(1e6 * X), -5)
    (1.1, 1100000.0)

    References
    ----------
    Flaxman, Sejdinovic, Cunningham, Filippi (2016), Bayesian learning of kernel embeddings.
    """

    def __init__(self, *, points: int = 400, sets: int = 20, random_state: int = 0):
        self.points = points
        self.sets = sets
        self.random_state = random_state

    def fit(self, X) -> float:
        """Compute the bandwidth for an array of instances or `Bags`."""
        rows, bag = draw_bags(X, self.points, PER_BAG, random_state=self.random_state)
        rows, unit = _in_their_span(rows)
        n, d = rows.shape
        if d == 0 or n < 2 * (d + 1):
            self.bandwidth_, self.noise_ = MedianDistance(random_state=self.random_state).fit(X), np.nan
            return self.bandwidth_
        order = np.random.default_rng(self.random_state).permutation(n)
        count = max(1, min(self.sets, n // (2 * d)))
        parts = []  # other rows, the offsets of their bags, and the landmarks
        for chosen in order[: count * d].reshape(count, d):
            remaining = np.setdiff1d(np.arange(n), chosen)
            offsets = np.concatenate([[0], np.flatnonzero(np.diff(bag[remaining])) + 1, [len(remaining)]])
            parts.append((rows[remaining], offsets, rows[chosen]))

        def largest_density(log_bandwidth: float) -> tuple[float, float]:
            """Return the maximum of the average log density over the common noise τ², and log τ²."""
            all_features = [Features(*part, np.exp(log_bandwidth)) for part in parts]
            return _maximise(
                lambda log_noise: sum(features.log_density(np.exp(log_noise)) for features in all_features) / count,
                -30.0,
                2.0,
            )

        with one_thread():  # the matrices are d x d, too small for threads
            grid = np.log(MedianDistance().fit(rows)) + np.linspace(-2.5, 2.5, 16)
            best, step = max(grid, key=lambda at: largest_density(at)[0]), grid[1] - grid[0]
            _, log_bandwidth = _maximise(lambda at: largest_density(at)[0], best - step, best + step, xatol=1e-3)
            self.noise_ = float(np.exp(largest_density(log_bandwidth)[1]))
        self.bandwidth_ = float(unit * np.exp(log_bandwidth))
        return self.bandwidth_


def _maximise(function, low: float, high: float, **options) -> tuple[float, float]:
    """Return the maximum of a function between two ends, and where it is."""
    minimum = minimize_scalar(lambda at: -function(at), bounds=(low, high), method="bounded", options=options)
    return -float(minimum.fun), float(minimum.x)


def _in_their_span(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Return whitened rows in the dimensions that they span, and the spread by which they were divided."""
    rows = rows - rows.mean(axis=0)
    size = np.abs(rows).max() or 1.0
    U, s, _ = np.linalg.svd(rows / size, full_matrices=False)
    keep = s > s.max(initial=0.0) * 1e-9
    spread = np.sqrt((s[keep] ** 2).sum() / (len(rows) * max(keep.sum(), 1))) or 1.0
    return U[:, keep] * s[keep] / spread, size * spread
