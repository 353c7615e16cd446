"""Bayesian distribution regression in full: the bag-size aware model with its weights drawn, not fitted."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from bagwise.bags import check_bags, check_fit, remember_columns, weights_or_ones
from bagwise.regressors.sampling import hamiltonian, split_rhat
from bagwise.regressors.shrinkage import Shrinkage
from bagwise.regressors.shrinkage_loss import FLOOR, fisher
from bagwise.regressors.shrinkage_model import predictive
from bagwise.threads import one_thread


class SampledShrinkage(RegressorMixin, BaseEstimator):
    r"""The model of `Shrinkage`, averaged over its posterior instead of taken at its best.

    y_i | w, b, σ² ~ N(b + wᵀm_i, wᵀC_i w + σ²), m_i and C_i (diagonal) the posterior mean and covariance of the
    coordinates of bag i given its size, with

    w ~ N(0, κ² I),   b ~ N(0, 2²),   κ and σ² half-normal N⁺(0, 2²),   targets and coordinates of mean square 1.

    Hamiltonian Monte Carlo draws (w, b, log κ, log σ²) from the posterior, preconditioned by the Fisher information at
    the fit of `Shrinkage`, which also gives embedding, η and coordinates. The mean of a bag is linear and its variance
    quadratic in the draws, so predictions need only the first two moments of the draws:

    E[y] = E[b] + E[w]ᵀm,   var[y] = E[σ²] + Σ_j C_jj E[w_j²] + (m, 1)ᵀ cov(w, b) (m, 1).

    Parameters
    ----------
    shrinkage : Shrinkage, default Shrinkage()
    chains, warmup, draws : int
        Chains, and draws of each before and after its step is tuned.
    random_state : int
        For the chains; the same seed gives the same draws.

    Attributes
    ----------
    shrinkage_ : the fitted `Shrinkage`
    draws_ : array (chains, draws, coordinates + 3), of (w, b, log κ, log σ²)
    rhat_ : split R̂ of each; the largest should be below 1.05
    acceptance_ : mean acceptance probability

    Notes
    -----
    The source samples with Stan's NUTS, 4 chains of 200 iterations, with α ~ N(0, κ²) at the landmarks. Here w is
    normal, which is α ~ N(0, κ² R⁻¹), the prior that the penalty αᵀRα of `Shrinkage` stands for; for R = the kernel it
    makes αᵀμ a draw from the Gaussian process of the kernel. As there, ``σ²`` enters as a variance.

    The chains move in the coordinates of `Shrinkage`, eigenvectors of a nearly singular matrix, which another CPU may
    turn where eigenvalues are close. The draws are then others from the same posterior, and predictions differ by the
    noise of sampling: by 1e-10 to 4e-3 standard deviations of y between kernels of OpenBLAS, on three sets of 60 bags.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import LandmarkMean
    >>> from bagwise.regressors import SampledShrinkage, Shrinkage
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, size=60)
    >>> bags = bw.from_arrays([rng.normal(scale=s, size=rng.choice([5, 60])) for s in y])
    >>> model = SampledShrinkage(Shrinkage(LandmarkMean(landmarks=8), penalties=(1.0,))).fit(bags, y)
    >>> mean, std = model.predict(bags, return_std=True)
    >>> bool(model.rhat_.max() < 1.05 and (std > model.shrinkage_.noise_std_ / 2).all())
    True

    References
    ----------
    Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian approaches to distribution regression, section 4.
    """

    def __init__(self, shrinkage=None, *, chains: int = 4, warmup: int = 200, draws: int = 250, random_state: int = 0):
        self.shrinkage = shrinkage
        self.chains = chains
        self.warmup = warmup
        self.draws = draws
        self.random_state = random_state

    def fit(self, bags, y, sample_weight=None) -> SampledShrinkage:
        bags, y = check_fit(bags, y, allow_weights=True)
        self._check()
        weight = weights_or_ones(sample_weight, bags)
        self.shrinkage_ = clone(self.shrinkage if self.shrinkage is not None else Shrinkage()).fit(bags, y, weight)
        self.target_ = self.shrinkage_.target_
        posterior = Posterior(*self.shrinkage_.embed(bags), self.target_.standardised(y), weight)
        start = posterior.start(self.shrinkage_)
        with one_thread():
            run = hamiltonian(
                posterior,
                start,
                posterior.information(start),
                chains=self.chains,
                warmup=self.warmup,
                draws=self.draws,
                random_state=self.random_state,
            )
        self.draws_, self.acceptance_, self.rhat_ = run.values, run.acceptance, split_rhat(run.values)
        linear = run.flat[:, :-2]  # (w, b)
        self.weights_, self.intercept_ = linear.mean(axis=0)[:-1], float(linear[:, -1].mean())
        self.covariance_, self.square_ = np.cov(linear.T), (linear[:, :-1] ** 2).mean(axis=0)
        self.variance_ = float(np.exp(run.flat[:, -1]).mean()) + FLOOR
        remember_columns(self, bags)
        return self

    def predict(self, bags, return_std: bool = False):
        """Predictive mean of every bag, and its standard deviation if asked for."""
        bags = check_bags(bags, fitted=self, allow_weights=True)
        given = (*self.shrinkage_.embed(bags), self.weights_, self.intercept_, self.variance_, self.covariance_)
        return self.target_.restored(*predictive(*given, self.square_), return_std)

    def _check(self) -> None:
        for name, least in (("chains", 1), ("warmup", 1), ("draws", 4)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


class Posterior:
    """log p(w, b, log κ, log σ² | y) up to a constant and its gradient, for several vectors (rows) at once."""

    WIDTH = 2.0  # of the priors on b, κ and σ²

    def __init__(self, mean: np.ndarray, variance: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None):
        self.mean, self.variance, self.y = mean, variance, y
        self.weight = np.ones(len(y)) if weight is None else weight

    def __call__(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w, b, (log_kappa, log_noise) = vectors[:, :-3], vectors[:, -3], vectors[:, -2:].T
        kappa, sigma2 = np.exp(log_kappa), np.exp(log_noise)
        m, v = self.mean @ w.T + b, self.variance @ (w**2).T + sigma2 + FLOOR  # (bags, vectors)
        error = self.y[:, None] - m
        a = self.weight[:, None] / v
        by_m, by_v = a * error, 0.5 * a * (error**2 / v - 1.0)
        square, n = (w**2).sum(axis=1), w.shape[1]
        likelihood = -0.5 * self.weight @ (np.log(v) + error**2 / v)
        prior = -0.5 * square / kappa**2 - n * log_kappa - 0.5 * (b**2 + kappa**2 + sigma2**2) / self.WIDTH**2
        gradient = np.empty_like(vectors)
        gradient[:, :-3] = by_m.T @ self.mean + 2.0 * w * (by_v.T @ self.variance) - w / kappa[:, None] ** 2
        gradient[:, -3] = by_m.sum(axis=0) - b / self.WIDTH**2
        gradient[:, -2] = square / kappa**2 - n - (kappa / self.WIDTH) ** 2 + 1.0
        gradient[:, -1] = sigma2 * by_v.sum(axis=0) - (sigma2 / self.WIDTH) ** 2 + 1.0
        return likelihood + prior + log_kappa + log_noise, gradient  # the logs last: dκ = κ d log κ

    def start(self, fitted: Shrinkage) -> np.ndarray:
        """The fit, and the κ that its weights and their uncertainty suggest."""
        kappa = 1.0 / np.sqrt(fitted.penalty_)
        vector = np.concatenate([fitted.weights_, [fitted.intercept_, np.log(kappa), np.log(fitted.variance_)]])
        spread = np.diag(np.linalg.inv(self.information(vector)))[:-3]
        vector[-2] = 0.5 * np.log(np.mean(fitted.weights_**2 + spread))
        return vector

    def information(self, vector: np.ndarray) -> np.ndarray:
        """Fisher information of the vector plus the precision of the priors."""
        w, sigma2, kappa = vector[:-3], np.exp(vector[-1]), np.exp(vector[-2])
        v = self.variance @ w**2 + sigma2 + FLOOR
        none = np.zeros(len(v))
        by_m = np.column_stack([self.mean, none + 1.0, none, none])
        by_v = np.column_stack([2.0 * w * self.variance, none, none, none + sigma2])
        prior = np.concatenate([np.full(len(w), kappa**-2), [self.WIDTH**-2, 2.0 * len(w) + 1.0, 1.0]])
        return fisher(by_m, by_v, v, prior, self.weight)
