"""Regression that knows how little a small bag says: the embedding of a bag is shrunk by its size."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import ParameterGrid

from bagwise.bags import check_bags, check_fit, remember_columns, weights_or_ones
from bagwise.embeddings import LandmarkMean
from bagwise.regressors.predictive import TargetScale, few_folds, negative_log_likelihood, weighed_folds
from bagwise.regressors.shrinkage_loss import path, unpacked
from bagwise.regressors.shrinkage_model import PRIORS, Coordinates, predictive, prior_covariance, shrink
from bagwise.threads import one_thread

PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)


class Shrinkage(RegressorMixin, BaseEstimator):
    r"""y = b + αᵀμ + ε, where the embedding μ of a bag of N instances is known only as well as N allows.

    μ ~ N(m0, ηR) a priori, and the empirical embedding is μ̂ ~ N(μ, Σ/N); so, given the bag, μ has mean
    M = R(R + Σ/N)⁻¹(μ̂ - m0) + m0 (R including η) and covariance C = R - R(R + Σ/N)⁻¹R, and

    y | bag ~ N(b + αᵀM, αᵀCα + σ²).

    A small bag is drawn to the average embedding m0, and its prediction is less certain. α, b, σ² and η minimise the
    negative log likelihood plus ½ penalty αᵀRα, all bag sizes being diagonal at once (see `shrinkage_model`); the
    penalty, and parameters of the embedding (``grid``), are chosen by the likelihood of held-out bags, groups together.
    The uncertainty of α and b, by the Fisher information of the loss, is part of the standard deviation. With bag
    weights, of mean one, the log likelihood of bag i counts w_i times, in the fit and among held-out bags. With
    instance weights N is the effective size of the bag.

    Parameters
    ----------
    embedding : LandmarkMean, default LandmarkMean()
    prior : {"kernel", "nonstationary", "between"}
        R: the kernel at the landmarks; the kernel smoothed by a normal density as wide as the instances, for which
        embeddings are in the space of the kernel ("shrinkageC" of the source; Gaussian kernel only); or the covariance
        between the bags seen, estimated by moments, plus a little of the kernel (ours; best with hundreds of bags).
    penalties : sequence of float
        Heaviest first is fastest. In units in which targets and coordinates have mean square 1.
    grid : dict of parameter name of the embedding -> list of values, optional
    folds : int
        Folds of bags for the choice among settings and penalties.
    random_state : int
        For the folds; the embedding has its own.
    n_jobs : int, optional
        Settings tried at once.

    Attributes
    ----------
    embedding_, coordinates_ : fitted, of the best setting
    setting_, penalty_ : the choice
    weights_, intercept_, variance_, eta_ : w = V⁻¹α, b, σ² and η, targets standardised
    covariance_ : of (w, b)
    noise_std_ : σ, in units of the target
    search_ : list of (setting, penalty, mean negative log likelihood of held-out bags, targets standardised)

    Notes
    -----
    m0 is the average of the training rows, Σ the covariance inside bags, averaged. Ours differs from the source: L-BFGS
    to the optimum with a penalty chosen on held-out bags, instead of Adam stopped early; no constant is added to Σ; the
    source takes α and b for known when it predicts.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
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

    def fit(self, bags, y, sample_weight=None) -> Shrinkage:
        bags, y = check_fit(bags, y, allow_weights=True)
        penalties, weight = self._check(), weights_or_ones(sample_weight, bags)
        self.target_ = TargetScale.of(y, weight)
        y = self.target_.standardised(y)
        settings = list(ParameterGrid(self.grid or {}))
        choice = len(settings) * len(penalties) > 1
        fold = few_folds(bags, self.folds, self.random_state) if choice else None
        jobs = (delayed(self._try)(setting, penalties, bags, y, weight, fold) for setting in settings)
        tried = Parallel(n_jobs=self.n_jobs)(jobs)
        scores = np.array([score for *_, score in tried])
        best, which = np.unravel_index(np.argmin(scores), scores.shape)
        self.setting_, self.penalty_ = settings[best], float(penalties[which])
        self.search_ = [(s, float(p), scores[i, j]) for i, s in enumerate(settings) for j, p in enumerate(penalties)]
        self.embedding_, self.coordinates_, z, _ = tried[best]
        noise = self.coordinates_.noise_of(bags.effective_sizes())
        with one_thread():
            found, self.covariance_ = list(path(z, noise, y, penalties[: which + 1], 1e-10, weight))[-1]
        self.weights_, self.intercept_, self.variance_, self.eta_ = unpacked(found)
        self.noise_std_ = float(self.target_.scale * np.sqrt(self.variance_))
        remember_columns(self, bags)
        return self

    def predict(self, bags, return_std: bool = False):
        """Predictive mean of every bag, and its standard deviation if asked for."""
        bags = check_bags(bags, fitted=self, allow_weights=True)
        given = (*self.embed(bags), self.weights_, self.intercept_, self.variance_, self.covariance_)
        return self.target_.restored(*predictive(*given), return_std)

    def embed(self, bags) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the coordinates of every bag's embedding."""
        z = self.coordinates_(self.embedding_.transform(bags))
        return shrink(z, self.coordinates_.noise_of(bags.effective_sizes()), self.eta_)

    def _check(self) -> np.ndarray:
        if self.prior not in PRIORS:
            raise ValueError(f"prior must be one of {', '.join(map(repr, PRIORS))}, not {self.prior!r}")
        penalties = np.atleast_1d(np.asarray(self.penalties, dtype=np.float64))
        if penalties.size == 0 or not (penalties > 0).all():
            raise ValueError(f"penalties must be above zero, not {self.penalties!r}")
        return penalties

    def _try(self, setting, penalties, bags, y, weight, fold):
        """Embed, diagonalise, and score every penalty on held-out bags."""
        embedding = clone(self.embedding if self.embedding is not None else LandmarkMean()).set_params(**setting)
        with one_thread():
            means = embedding.fit_transform(bags)
            sizes = bags.effective_sizes()
            prior = prior_covariance(self.prior, embedding, means, sizes)
            coordinates = Coordinates.of(prior, embedding.noise_, means, sizes)
            z, noise = coordinates(means), coordinates.noise_of(sizes)
            if fold is None:
                return embedding, coordinates, z, np.zeros(len(penalties))
            return embedding, coordinates, z, _held_out_scores(z, noise, y, weight, fold, penalties)


def _held_out_scores(z, noise, y, weight, fold, penalties) -> np.ndarray:
    """Mean negative log likelihood of bags, each predicted without its fold, for every penalty."""
    scores = np.zeros(len(penalties))
    for train, test in weighed_folds(fold, weight):
        fits = path(z[train], noise[train], y[train], penalties, weight=weight[train])
        for i, (found, covariance) in enumerate(fits):
            *given, eta = unpacked(found)
            mean, variance = predictive(*shrink(z[test], noise[test], eta), *given, covariance)
            scores[i] += weight[test] @ negative_log_likelihood(y[test], mean, np.sqrt(variance))
    return scores / weight.sum()
