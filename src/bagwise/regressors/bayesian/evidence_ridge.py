"""Bayesian linear regression on an embedding, and what the Bayesian regressors share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq, minimize_scalar

from bagwise.bags import Bags, bag_folds
from bagwise.bags.folds import count_units
from bagwise.embeddings import LandmarkMean
from bagwise.execution.resources import one_thread
from bagwise.regressors.pipeline import AdditiveMixin, BagRegressor, EmbeddingGrid
from bagwise.regressors.row_blocks import RowBlocks, RowSums, row_blocks

ROUNDING = 4 * np.finfo(np.float64).eps  # relative to the largest target: smaller differences are rounding


@dataclass(frozen=True)
class TargetScale:
    """Targets in standard deviations from their mean; ``scale`` is 0 when they do not vary beyond rounding."""

    mean: float
    scale: float

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray | None = None) -> TargetScale:
        y, weight = (y, None) if weight is None else (y[weight > 0], weight[weight > 0])
        mean = float(np.average(y, weights=weight))
        scale = float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))
        return cls(mean, scale if np.ptp(y) > ROUNDING * np.abs(y).max() else 0.0)

    def standardised(self, y: np.ndarray) -> np.ndarray:
        return (y - self.mean) / self.scale if self.scale else np.zeros(len(y))

    def restored(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation in units of the targets."""
        return self.mean + self.scale * mean, self.scale * np.sqrt(variance)


class PredictiveRegressor(BagRegressor):
    """Base of regressors with a standard deviation for each prediction.

    A subclass has ``target_``, a `TargetScale`, and ``_moments(bags)``, mean and variance of standardised targets.
    """

    _reads: ClassVar = {"allow_weights": True}

    def predict(self, bags, return_std: bool = False):
        """Predict the target of each bag.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            New bags, with the features of the training bags.
        return_std : bool, default=False
            Whether to return the standard deviation of each target as well.

        Returns
        -------
        mean : ndarray of shape (n_bags,)
        std : ndarray of shape (n_bags,)
            Only if ``return_std``.
        """
        if not return_std:
            return super().predict(bags)
        bags = self._checked(bags)
        mean, std = self.target_.restored(*self._moments(bags))
        return self.within_limits(mean), std

    def _predict(self, bags) -> np.ndarray:
        return self.target_.restored(*self._moments(bags))[0]

    def _moments(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


def negative_log_likelihood(y, mean, std) -> np.ndarray:
    """Return -log N(y; mean, std²) for each bag."""
    y, mean, std = (np.asarray(a, dtype=np.float64) for a in (y, mean, std))
    return 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * ((y - mean) / std) ** 2


def few_folds(bags: Bags, folds: int, random_state: int) -> np.ndarray:
    """Return the fold of each bag, of ``folds`` folds or, if there are fewer bags (groups), one fold for each."""
    return bag_folds(bags, min(folds, max(count_units(bags), 2)), random_state=random_state)


def weighed_folds(fold: np.ndarray, weight: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield masks of the training and held-out bags, for each fold in which both have weights above zero."""
    for k in range(fold.max() + 1):
        if weight[fold != k].any() and weight[fold == k].any():
            yield fold != k, fold == k


# log of the ratio ρ² tr(Z Zᵀ) / (B σ²): from all noise to none
LOG_RATIOS = np.linspace(-10.0, 40.0, 51)


class EvidenceRidge(EmbeddingGrid, AdditiveMixin, PredictiveRegressor):
    r"""y_i = b + βᵀ z_i + ε, β ~ N(0, ρ² I), ε ~ N(0, σ²), with ρ and σ where the evidence is largest.

    z_i is the row of bag i, b has a flat prior. The evidence p(y | ρ, σ) = N(y; 0, ρ² Z Zᵀ + σ² I), rows and targets
    centred, is diagonal in the basis of the singular vectors of Z = U S Vᵀ: with γ = ρ²/σ² and c = Uᵀy,

    -2 log p = (B-1) log σ² + Σ_j log(1 + γ s_j²) + [Σ_j c_j² / (1 + γ s_j²) + ‖y - Uc‖²] / σ² + constant,

    so σ² is closed given γ, and γ is searched on a line. A new row z has mean b + βᵀz and variance
    σ² (1 + 1/B + Σ_j (v_j·z)² γ / (1 + γ s_j²)).

    With bag weights w, of mean one, bag i has the noise variance σ²/w_i, and held-out bags count w_i times. Predictions
    are for a bag of weight one.

    Parameters
    ----------
    embedding : embedding, default=LandmarkMean()
        Transformer of bags to rows of features.
    grid : dict, optional
        Lists of values for parameters of the embedding, chosen by the likelihood of held-out bags (groups).
    folds : int, default=10
        Folds of bags for that choice.
    random_state : int, default=0
        Seed of the folds; the embedding has its own.
    n_jobs : int, optional
        Settings tried at once.

    Attributes
    ----------
    setting_, embedding_ : dict, fitted embedding
        The setting chosen.
    posterior_ : Evidence
        Posterior of b and β.
    noise_std_ : float
        σ, in units of the target.
    search_ : list of (setting, score)
        Mean negative log likelihood of held-out bags, targets standardised.

    Notes
    -----
    The source maximises the evidence by Adam, without an intercept. Where the evidence cannot separate signal from
    noise (two bags), a wide prior on the log of their ratio, N(0, 20²), decides.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import EvidenceRidge
    >>> bags, y = bw.datasets.make_gaussian(60, instances=5)
    >>> mean, std = EvidenceRidge().fit(bags[:50], y[:50]).predict(bags[50:], return_std=True)
    >>> bool(np.mean(np.abs(mean - y[50:]) < 2 * std) > 0.7)
    True

    References
    ----------
    Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian approaches to distribution regression, section 3.
    """

    _embedding: ClassVar = LandmarkMean

    def __init__(self, embedding=None, *, grid=None, folds: int = 10, random_state: int = 0, n_jobs=None):
        self.embedding = embedding
        self.grid = grid
        self.folds = folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags, y, weight) -> None:
        fold = few_folds(bags, self.folds, self.random_state) if len(self.settings()) > 1 else None
        jobs = (delayed(self._embed)(setting, bags, y) for setting in self.settings())
        self.fit_embedded(Parallel(n_jobs=self.n_jobs)(jobs), y, weight, fold)

    def fit_embedded(self, embedded, y, weight: np.ndarray, fold: np.ndarray | None) -> EvidenceRidge:
        """Fit to (setting, fitted embedding, rows) for each setting; rows may be `RowBlocks`."""
        self.remember_targets(y, weight)
        self.target_ = TargetScale.of(y, weight)
        y, embedded = self.target_.standardised(y), list(embedded)
        if getattr(embedded[0][1], "columns", "features") != "features":
            raise ValueError("EvidenceRidge needs an embedding with features for columns, not similarities to bags")
        fits = Parallel(n_jobs=self.n_jobs)(delayed(fit_and_score)(rows, y, weight, fold) for _, _, rows in embedded)
        self.search_ = [(setting, score) for (setting, *_), (_, score) in zip(embedded, fits, strict=True)]
        best = int(np.argmin([score for _, score in self.search_]))
        self.setting_, self.embedding_, _ = embedded[best]
        self.posterior_ = fits[best][0]
        self.noise_std_ = self.target_.scale * np.sqrt(self.posterior_.noise)
        return self

    def _moments(self, bags):
        return self.posterior_(self.embedding_.transform(bags))

    def _embed(self, setting, bags, y) -> tuple:
        embedding = self.embedding_for(setting)
        with one_thread():
            return setting, embedding, embedding.fit_transform(bags, y)


def fit_and_score(rows, y, weight, fold=None) -> tuple[Evidence, float]:
    """Return the posterior, and the mean negative log likelihood of held-out bags (0 without folds)."""
    total = 0.0
    with one_thread():
        for train, test in () if fold is None else weighed_folds(fold, weight):
            posterior, targets, shares = Evidence(rows[train], y[train], weight[train]), y[test], weight[test]
            for block, part in row_blocks(rows[test]):
                mean, variance = posterior(part)
                total += shares[block] @ negative_log_likelihood(targets[block], mean, np.sqrt(variance))
        return Evidence(rows, y, weight), total / weight.sum()


class Evidence:
    """Posterior of β and b at the ρ and σ of largest evidence; calling it returns mean and variance of new rows.

    If ``noise``, the σ² of a bag of weight one, is passed, the evidence decides on ρ alone.
    """

    def __init__(self, Z, y: np.ndarray, weight: np.ndarray | None = None, *, noise: float | None = None):
        weight = np.ones(len(y)) if weight is None else weight
        sums = Z.sums(y, weight) if isinstance(Z, RowBlocks) else RowSums.of(Z, y, weight)
        (*mean, self.target_mean), R = sums.centred()
        self.row_mean, rows, centred, n = np.array(mean), R[:, :-1], R[:, -1], sums.n
        size = np.linalg.norm(sums.uncentred()[:, :-1])
        # All right singular vectors: where the training rows do not vary, a new row keeps its prior variance.
        U, s, self.axes = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1])
        k = len(s)
        s = np.where(s > 1e-14 * size, s, 0.0)  # rows that differ by rounding alone are equal
        self.spectrum = np.concatenate([s**2, np.zeros(len(self.axes) - k)])
        along = U[:, :k].T @ centred
        self._rest = max(float(centred @ centred - along @ along), 0.0)
        self._along, self._n, self._total = along, n, float(weight.sum())
        self._unit = n / (self.spectrum.sum() or 1.0)
        self._fixed_noise = noise
        self.ratio = self._unit * np.exp(self._search())  # γ = ρ²/σ²
        self.noise = self._noise(self.ratio)
        self.coef = (self.ratio * s / (1 + self.ratio * s**2) * along) @ self.axes[:k]
        self.spread = self.ratio / (1 + self.ratio * self.spectrum)

    def __call__(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Z = Z - self.row_mean
        # einsum, not BLAS: a row must not depend on how many other rows there are.
        along = np.einsum("ij,kj->ik", Z, self.axes)
        variance = self.noise * (1 + 1 / self._total + np.einsum("ij,j->i", along**2, self.spread))
        return self.target_mean + np.einsum("ij,j->i", Z, self.coef), variance

    def covariance_root(self, Z: np.ndarray) -> np.ndarray:
        """Return R, where R Rᵀ is the posterior covariance of b + βᵀz for the rows z, without target noise."""
        along = (Z - self.row_mean) @ self.axes.T * np.sqrt(self.noise * self.spread)
        return np.column_stack([along, np.full(len(Z), np.sqrt(self.noise / self._total))])

    def log_evidence(self, log_ratio: float | None = None) -> float:
        """Return log p(y | γ) at the best σ² for this γ, with centred targets and rows (flat prior on b)."""
        gamma = self.ratio if log_ratio is None else self._unit * np.exp(log_ratio)
        noise, fit = self._noise(gamma), np.log1p(gamma * self.spectrum).sum()
        misfit = self._n - 1 if self._fixed_noise is None else self._quadratic(gamma) / noise
        return -0.5 * ((self._n - 1) * np.log(2 * np.pi * noise) + misfit + fit)

    def _noise(self, gamma: float) -> float:
        if self._fixed_noise is not None:
            return self._fixed_noise
        return self._quadratic(gamma) / max(self._n - 1, 1) + 1e-12  # the least, of an exact fit

    def _quadratic(self, gamma: float) -> float:
        """Return yᵀ (I + γ Z Zᵀ)⁻¹ y for the centred targets and rows."""
        return float((self._along**2 / (1 + gamma * self.spectrum[: len(self._along)])).sum()) + self._rest

    def _search(self) -> float:
        def cost(log_ratio: float) -> float:
            return -self.log_evidence(log_ratio) + 0.5 * (log_ratio / 20) ** 2

        best = LOG_RATIOS[int(np.argmin([cost(at) for at in LOG_RATIOS]))]
        if self._slope(best - 1) < 0 < self._slope(best + 1):
            # The root of the slope, because the cost is flat at its minimum, which would give half of the digits.
            return float(brentq(self._slope, best - 1, best + 1, xtol=1e-13))
        return float(minimize_scalar(cost, bounds=(best - 1, best + 1), method="bounded").x)

    def _slope(self, log_ratio: float) -> float:
        """Return the derivative of the cost."""
        k, gamma = len(self._along), self._unit * np.exp(log_ratio)
        explained = gamma * self.spectrum / (1 + gamma * self.spectrum)
        shrunk = (self._along**2 * explained[:k] / (1 + gamma * self.spectrum[:k])).sum()
        factor = 1.0 if self._fixed_noise is not None else min(self._n - 1, 1)
        return 0.5 * (explained.sum() - factor * shrunk / self._noise(gamma)) + log_ratio / 400
