"""Bag-size aware regression: the embedding of a bag is shrunk the more, the fewer instances it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from bagwise.bags.checks import without_equal_weights
from bagwise.bags.validation import check_options
from bagwise.embeddings import LandmarkMean
from bagwise.execution.resources import one_thread
from bagwise.kernels import Gaussian
from bagwise.kernels.bandwidths import smoothed
from bagwise.regressors.bayesian.evidence_ridge import (
    PredictiveRegressor,
    TargetScale,
    few_folds,
    negative_log_likelihood,
    weighed_folds,
)
from bagwise.regressors.pipeline import EmbeddingGrid
from bagwise.regressors.ridge_path import checked_penalties

PRIORS = ("kernel", "nonstationary", "between")
SMALLEST = 1e-10  # of the largest eigenvalue of R: what is smaller the prior rules out


def prior_covariance(kind: str, embedding, means: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return R up to a factor: the kernel at the landmarks, its smoothed version, or the covariance between bags."""
    u, kernel = embedding.landmarks_, embedding.kernel_
    if kind == "kernel":
        return kernel(u, u)
    if kind == "nonstationary":
        if not isinstance(kernel, Gaussian):
            raise ValueError(f"prior='nonstationary' is for the Gaussian kernel, not {type(kernel).__name__}")
        return smoothed(u, kernel.bandwidth, 1.0 / embedding.unit_)  # instances spread by 1 / unit_ in every feature
    between, floor = between_covariance(means, sizes, embedding.noise_), kernel(u, u)
    # The fewer the bags, the less their covariance is to be trusted, and directions in which they do not seem to differ
    # must stay in play.
    share = 0.1 * len(u) / len(means)
    return between + share * (np.trace(between) or np.trace(floor)) / np.trace(floor) * floor


def between_covariance(means: np.ndarray, sizes: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the covariance of the true embeddings: that of the empirical ones minus their sampling noise.

    Bags have the weight N/(N + N0), N0 the size at which noise and signal are equal. The estimate is unbiased for any
    weights, and its negative eigenvalues are set to zero.
    """
    equal = np.full(len(sizes), 1.0 / len(sizes))
    raw = np.trace(_between(means, sizes, noise, equal))
    weights = sizes / (sizes + np.trace(noise) / raw) if raw > 0 else sizes.astype(float)
    values, axes = np.linalg.eigh(_between(means, sizes, noise, weights / weights.sum()))
    return (axes * np.maximum(values, 0.0)) @ axes.T


def _between(means, sizes, noise, weights):
    centred = means - weights @ means
    # E[Σ w (μ̂ - m)(μ̂ - m)ᵀ] = T (1 - Σ w²) + Σ · Σ_i w_i (1 - w_i)/N_i
    observed = (centred.T * weights) @ centred - noise * (weights * (1 - weights) / sizes).sum()
    return observed / (1 - (weights**2).sum())


@dataclass(frozen=True)
class Coordinates:
    """Coordinates z = Vᵀ(μ̂ - m0) with VᵀRV = I and VᵀΣV = diag(d): d is the noise of an instance in each coordinate.

    Of the coordinates t = Vᵀ(μ - m0) of the true embedding, independent from one to the next,

        t_j ~ N(0, η),    z_j | t_j ~ N(t_j, d_j/N),    t_j | z_j ~ N(g_j z_j, g_j d_j/N),    g_j = η / (η + d_j/N),

    so one decomposition gives the posterior for all N, and y = b + wᵀt + ε the target of `Shrinkage`.
    """

    centre: np.ndarray
    axes: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, prior: np.ndarray, noise: np.ndarray, means: np.ndarray, sizes: np.ndarray) -> Coordinates:
        """Compute V from R and Σ, scaled so that the coordinates have mean square 1 over bags weighted by N."""
        values, vectors = np.linalg.eigh(prior)
        keep = values > SMALLEST * values[-1]
        whiten = vectors[:, keep] / np.sqrt(values[keep])
        spectrum, rotation = np.linalg.eigh(whiten.T @ noise @ whiten)
        axes, centre = whiten @ rotation, means.mean(axis=0)
        # The sign of an eigenvector is an accident of the library; a sampler would draw other numbers for the other.
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
        square = np.average(((means - centre) @ axes) ** 2, axis=0, weights=sizes).mean()
        square = square if square > 0 else 1.0
        return cls(centre, axes / np.sqrt(square), np.maximum(spectrum, 0.0) / square)

    def __call__(self, means: np.ndarray) -> np.ndarray:
        # einsum, not BLAS: a row must not depend on how many other rows there are.
        return np.einsum("ij,jk->ik", means - self.centre, self.axes)

    def noise_of(self, sizes: np.ndarray) -> np.ndarray:
        """Return d/N, one row per bag."""
        return self.noise / sizes[:, None]


def shrink(z: np.ndarray, noise: np.ndarray, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean g z and variance g d/N of the true coordinates of each bag; ``noise`` is d/N."""
    g = eta / (eta + noise)
    return g * z, g * noise


def predictive(mean: np.ndarray, variance: np.ndarray, w, b, noise, covariance, square=None):
    """Return mean and variance of targets from mean and variance of the coordinates of their bags (rows).

    ``w``, ``b``, ``noise``: mean weights, intercept, σ²; ``covariance`` is that of (w, b), ``square`` the mean of w².
    """
    rows = np.column_stack([mean, np.ones(len(mean))])
    unsure = np.einsum("ij,ij->i", np.einsum("ij,jk->ik", rows, covariance), rows)
    spread = np.einsum("ij,j->i", variance, w**2 if square is None else square)
    return np.einsum("ij,j->i", mean, w) + b, noise + spread + unsure


ROUNDS = 20
FLOOR = 1e-8  # part of every variance: no target is known better than to 1e-4 of its standard deviation


class Loss:
    r"""Loss ½ Σ_i [log v_i + (y_i - m_i)²/v_i] + ½ penalty ‖w‖² of the vector (w, b, log σ², log η), and its gradient.

    m = b + Σ_j w_j g_j z_j and v = σ² + Σ_j w_j² g_j d_j/N are mean and variance of the target given the bag; ‖w‖² is
    αᵀRα for the weights α = Vw of the landmarks. Wide priors on log σ² and log η keep both finite.
    """

    CENTRES, WIDTH = np.array([-1.0, 0.0]), 3.0

    def __init__(self, z: np.ndarray, noise: np.ndarray, y: np.ndarray, penalty: float, weight=None):
        self.z, self.noise, self.y, self.penalty = z, noise, y, penalty
        self.weight = np.ones(len(y)) if weight is None else weight

    def start(self) -> np.ndarray:
        return np.concatenate([np.zeros(self.z.shape[1]), [0.0], self.CENTRES])

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        w, b, sigma2, eta = unpacked(vector)
        mean, variance = shrink(self.z, self.noise, eta)
        m, v = mean @ w + b, variance @ w**2 + sigma2
        error = self.y - m
        a = self.weight / v
        to_m, to_v = -a * error, 0.5 * a * (1.0 - error**2 / v)  # derivatives of the loss by m and by v
        m_by_eta, v_by_eta = by_log_eta(mean, variance, w, eta)
        prior = (vector[-2:] - self.CENTRES) / self.WIDTH
        value = 0.5 * (self.weight @ np.log(v) - error @ to_m + self.penalty * w @ w + prior @ prior)
        to_w = to_m @ mean + 2.0 * w * (to_v @ variance) + self.penalty * w
        to_logs = [(sigma2 - FLOOR) * to_v.sum(), to_m @ m_by_eta + to_v @ v_by_eta] + prior / self.WIDTH
        return value, np.concatenate([to_w, [to_m.sum()], to_logs])

    def information(self, vector: np.ndarray) -> np.ndarray:
        """Return the Fisher information of the vector plus penalty and priors, about the curvature of the loss."""
        w, _, sigma2, eta = unpacked(vector)
        mean, variance = shrink(self.z, self.noise, eta)
        v, none = variance @ w**2 + sigma2, np.zeros(len(self.y))
        m_by_eta, v_by_eta = by_log_eta(mean, variance, w, eta)
        by_m = [mean, none + 1.0, none, m_by_eta]
        by_v = [2.0 * w * variance, none, none + sigma2 - FLOOR, v_by_eta]
        prior = np.concatenate([np.full(len(w), self.penalty), [1e-6], np.full(2, self.WIDTH**-2)])
        return fisher(np.column_stack(by_m), np.column_stack(by_v), v, prior, self.weight)


def by_log_eta(mean, variance, w, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives of wᵀmean and (w²)ᵀvariance of each bag, as dg/d log η = g (1 - g) = g variance / η."""
    return (mean * variance) @ w / eta, variance**2 @ w**2 / eta


def unpacked(vector: np.ndarray) -> tuple[np.ndarray, float, float, float]:
    """Return w, b, σ² (with its floor) and η, limited so that a line search cannot overflow."""
    sigma2, eta = np.exp(np.clip(vector[-2:], -30.0, 30.0))
    return vector[:-3], float(vector[-3]), float(sigma2) + FLOOR, float(eta)


def fisher(by_m: np.ndarray, by_v: np.ndarray, v: np.ndarray, prior: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the information Σ_i w_i (∇m∇mᵀ/v + ½ ∇v∇vᵀ/v²) + diag(prior), with a row of ∇m and ∇v per bag."""
    information = (by_m.T * (weight / v)) @ by_m + 0.5 * (by_v.T * (weight / v**2)) @ by_v + np.diag(prior)
    return information + 1e-9 * np.diag(np.diag(information))  # positive definite whatever was rounded away


def minimum(loss: Loss, start: np.ndarray, tolerance: float) -> np.ndarray:
    """Minimise the loss by L-BFGS in coordinates in which the information is the identity, updated on the way."""
    options = {"maxiter": 20, "ftol": tolerance}
    vector = start
    for _ in range(ROUNDS):
        lower = cholesky(loss.information(vector), lower=True)
        spread = solve_triangular(lower, np.eye(len(vector)), lower=True)

        def from_here(q, at=vector, spread=spread):
            value, gradient = loss(at + q @ spread)
            return value, spread @ gradient

        result = minimize(from_here, np.zeros(len(vector)), jac=True, method="L-BFGS-B", options=options)
        vector = vector + result.x @ spread
        if result.success:
            break
    return vector


def path(z, noise, y, penalties, tolerance=1e-7, weight=None):
    """Yield, for each penalty, the minimum (w, b, log σ², log η) and the covariance of (w, b) by its information."""
    vector = None
    for penalty in penalties:
        loss = Loss(z, noise, y, penalty, weight)
        vector = minimum(loss, loss.start() if vector is None else vector, tolerance)
        yield vector, np.linalg.inv(loss.information(vector))[:-2, :-2]


PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)


class Shrinkage(EmbeddingGrid, PredictiveRegressor):
    r"""Regression y = b + αᵀμ + ε on embeddings μ that are shrunk by the size N of the bag.

    μ ~ N(m0, ηR) a priori, and the empirical embedding is μ̂ ~ N(μ, Σ/N); so, given the bag, μ has mean
    M = R(R + Σ/N)⁻¹(μ̂ - m0) + m0 (R including η) and covariance C = R - R(R + Σ/N)⁻¹R, and

    y | bag ~ N(b + αᵀM, αᵀCα + σ²).

    A small bag is shrunk towards the average embedding m0, and its prediction is less certain. α, b, σ² and η minimise
    the negative log likelihood plus ½ penalty αᵀRα. The uncertainty of α and b, by the Fisher information of the loss,
    is part of the standard deviation. With bag weights, of mean one, the log likelihood of bag i counts w_i times. With
    instance weights N is the effective size of the bag.

    Parameters
    ----------
    embedding : LandmarkMean, default=LandmarkMean()
        Transformer of bags to mean similarities to landmarks.
    prior : {"kernel", "nonstationary", "between"}, default="kernel"
        R: the kernel at the landmarks; the kernel smoothed by a normal density as wide as the instances ("shrinkageC"
        of the source; Gaussian kernel only); or the covariance between the training bags, estimated by moments, plus a
        little of the kernel (ours; best with hundreds of bags).
    penalties : sequence of float, default=(1000.0, 100.0, 10.0, 1.0, 0.1)
        Candidates, heaviest first, in units in which targets and coordinates have mean square 1.
    grid : dict, optional
        Lists of values for parameters of the embedding; the likelihood of held-out bags (groups) chooses among them and
        the penalties.
    folds : int, default=5
        Folds of bags for that choice.
    random_state : int, default=0
        Seed of the folds; the embedding has its own.
    n_jobs : int, optional
        Settings tried at once.

    Attributes
    ----------
    setting_, penalty_, embedding_, coordinates_ : dict, float, fitted embedding, `Coordinates`
        The setting and penalty chosen.
    weights_, intercept_, variance_, eta_, covariance_ : ndarray, float, float, float, ndarray
        w = V⁻¹α, b, σ², η, and the covariance of (w, b), targets standardised.
    noise_std_ : float
        σ, in units of the target.
    search_ : list of (setting, penalty, score)
        Mean negative log likelihood of held-out bags, targets standardised.

    Notes
    -----
    m0 is the average of the training rows, Σ the average covariance inside bags. The source stops Adam early, where
    L-BFGS runs to the optimum here, adds a constant to Σ, and ignores the uncertainty of α and b.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import LandmarkMean
    >>> from bagwise.regressors import Shrinkage
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, size=80)
    >>> bags = bw.from_arrays([rng.normal(scale=s, size=rng.choice([2, 60])) for s in y])
    >>> mean, std = Shrinkage(LandmarkMean(landmarks=10)).fit(bags, y).predict(bags, return_std=True)
    >>> bool(std[bags.sizes == 2].mean() > 1.5 * std[bags.sizes == 60].mean())
    True

    References
    ----------
    Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian approaches to distribution regression, sections 3 and 4.
    """

    _embedding: ClassVar = LandmarkMean

    def __init__(
        self,
        embedding=None,
        *,
        prior: str = "kernel",
        penalties=PENALTIES,
        grid=None,
        folds: int = 5,
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.embedding = embedding
        self.prior = prior
        self.penalties = penalties
        self.grid = grid
        self.folds = folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags, y, weight) -> None:
        bags = without_equal_weights(bags)  # their rounding would change the coordinates
        check_options(self, prior=PRIORS)
        penalties = checked_penalties(self.penalties)
        self.target_ = TargetScale.of(y, weight)
        y = self.target_.standardised(y)
        settings = self.settings()
        choice = len(settings) * len(penalties) > 1
        fold = few_folds(bags, self.folds, self.random_state) if choice else None
        jobs = (delayed(self._try)(setting, penalties, bags, y, weight, fold) for setting in settings)
        fits = Parallel(n_jobs=self.n_jobs)(jobs)
        scores = np.array([score for *_, score in fits])
        best, which = np.unravel_index(np.argmin(scores), scores.shape)
        self.setting_, self.penalty_ = settings[best], float(penalties[which])
        self.search_ = [(s, float(p), scores[i, j]) for i, s in enumerate(settings) for j, p in enumerate(penalties)]
        self.embedding_, self.coordinates_, z, _ = fits[best]
        noise = self.coordinates_.noise_of(bags.effective_sizes())
        with one_thread():
            vector, self.covariance_ = list(path(z, noise, y, penalties[: which + 1], 1e-10, weight))[-1]
        self.weights_, self.intercept_, self.variance_, self.eta_ = unpacked(vector)
        self.noise_std_ = float(self.target_.scale * np.sqrt(self.variance_))

    def _moments(self, bags):
        return predictive(*self.embed(bags), self.weights_, self.intercept_, self.variance_, self.covariance_)

    def embed(self, bags) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior mean and variance of the coordinates of the embedding of each bag."""
        bags = without_equal_weights(bags)
        z = self.coordinates_(self.embedding_.transform(bags))
        return shrink(z, self.coordinates_.noise_of(bags.effective_sizes()), self.eta_)

    def _try(self, setting, penalties, bags, y, weight, fold):
        """Embed, diagonalise, and score every penalty on held-out bags."""
        embedding = self.embedding_for(setting)
        with one_thread():
            means = embedding.fit_transform(bags)
            sizes = bags.effective_sizes()
            prior = prior_covariance(self.prior, embedding, means, sizes)
            coordinates = Coordinates.of(prior, embedding.noise_, means, sizes)
            z, noise = coordinates(means), coordinates.noise_of(sizes)
            scores = np.zeros(len(penalties))
            for train, test in () if fold is None else weighed_folds(fold, weight):
                fits = path(z[train], noise[train], y[train], penalties, weight=weight[train])
                for i, (vector, covariance) in enumerate(fits):
                    *line, eta = unpacked(vector)  # w, b and σ²
                    mean, variance = predictive(*shrink(z[test], noise[test], eta), *line, covariance)
                    scores[i] += weight[test] @ negative_log_likelihood(y[test], mean, np.sqrt(variance))
        return embedding, coordinates, z, scores / weight.sum()
