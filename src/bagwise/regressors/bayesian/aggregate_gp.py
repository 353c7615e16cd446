"""Gaussian process of the instances, learned from aggregates of bags: means, sums, counts and rates."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import csr_array
from scipy.special import expit, logit, xlog1py, xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum
from bagwise.bags.validation import ParameterError, check_options, name_bags, warn_user
from bagwise.embeddings.feature_mean import FeatureMean, mean_of_features
from bagwise.execution.resources import one_thread
from bagwise.kernels.formulas import FourierFeatures, mean_and_scale, sample_rows
from bagwise.regressors.bayesian.evidence_ridge import Evidence, TargetScale, fit_and_score
from bagwise.regressors.pipeline import BagRegressor

GRID = {"kernel": ["gaussian", "matern32"], "bandwidth": [0.25, 0.5, 1.0, 2.0, 4.0]}
BLOCK_ROWS = 4096  # instances at a time
CACHED = 2**25  # numbers: up to so many features are kept between the steps of a fit, otherwise computed again
SEARCHED = 100_000  # instances: of more, some bags choose the setting of counts and rates
STEPS, TOLERANCE, ROUGH = 100, 1e-6, 1e-3  # of Fisher scoring, the change of f at which it ends, and in the search
FAR = 10.0  # warn of a total exposure so many times the largest of training


class Likelihood(NamedTuple):
    """Distribution of a count given the exposure of its bag and the mean of h(f) over the bag, h the canonical link."""

    link: Callable  # h(f), the value of an instance
    slope: Callable  # h'(f) from h(f), which is also the variance of the rate of a bag from its mean, per exposure
    inverse: Callable  # f, from h(f)
    log_density: Callable  # of the rate, over the exposure, up to a constant


LIKELIHOODS = {
    "poisson": Likelihood(np.exp, lambda rate: rate, np.log, lambda y, rate: xlogy(y, rate) - rate),
    "binomial": Likelihood(expit, lambda p: p * (1 - p), logit, lambda y, p: xlogy(y, p) + xlog1py(1.0 - y, -p)),
}


def exposures(bags: Bags) -> np.ndarray:
    """Return the total weight of each bag, or its size without instance weights."""
    return bags.sizes.astype(np.float64) if bags.weights is None else segment_sum(bags.weights, bags.offsets)


class ExposureMixin:
    """Mixin for bag regressors with ``aggregate`` "mean" or "sum", which checks exposures (instance weights)."""

    _reads: ClassVar = {"allow_weights": True}

    @property
    def counts_exposure(self) -> bool:
        return self.aggregate == "sum"

    def remember_exposures(self, total: np.ndarray, *, weighted: bool) -> None:
        """Store the range of the exposures of bags, and whether instances have weights."""
        self.exposure_range_in_, self.with_exposure_ = np.array([total.min(), total.max()]), weighted

    def _checked(self, bags) -> Bags:
        """Check new bags: exposures as in training, with a warning for totals that are far larger."""
        warned = bags.compared if isinstance(bags, Bags) else False
        bags = super()._checked(bags)
        if not self.counts_exposure:
            return bags
        if (bags.weights is not None) != self.with_exposure_:
            lacking = "with exposures (instance weights), and these bags have none; name their column by weights="
            needless = "without exposures (instance weights), and these bags have some; use bags.without_weights()"
            raise ParameterError("weights", f"the model was fitted {lacking if self.with_exposure_ else needless}")
        total, (low, high) = exposures(bags), self.exposure_range_in_
        if not warned and (far := total > FAR * high).any():
            warn_user(
                f"{name_bags(bags.ids, far)} a total exposure of {total[far][0]:.4g}, and those of training lie "
                f"between {low:.4g} and {high:.4g}; predictions grow in proportion to it"
            )
        return bags

    def _weights(self, bags: Bags) -> np.ndarray:
        """Return the weight of the value of each instance: its share in the bag, or its exposure in a sum."""
        if self.aggregate == "mean":
            return bags.shares()
        return np.ones(bags.n_instances) if bags.weights is None else bags.weights


class AggregateGP(ExposureMixin, BagRegressor):
    r"""Gaussian process f of the instances, learned from aggregates y_i = Σ_l a_il f(x_il) + ε_i of bags.

    f(x) = b + βᵀφ(x), β ~ N(0, ρ² I), is a Gaussian process with the kernel ρ² φ(x)·φ(x'), by random Fourier features φ
    or landmarks; b has a flat prior. The weight a_il of an instance is

    - its share in the bag, w_il / Σ_l w_il (1 / L_i without instance weights), for ``aggregate="mean"``;
    - its exposure w_il (1 without instance weights) for ``aggregate="sum"``.

    With z_i = Σ_l a_il φ(x_il) / e_i and the total e_i = Σ_l w_il of the exposures, targets are Gaussian given β:

        mean:  y_i ~ N(b + βᵀz_i, σ²)          sum:  y_i ~ N(e_i (b + βᵀz_i), σ² e_i / ē),

    where ē is the average of the e_i. The evidence p(y | ρ, σ) is in closed form (see `EvidenceRidge`), and chooses ρ,
    σ, the kernel and its bandwidth. With a likelihood of counts the value of an instance is a rate per unit of
    exposure,

        poisson:   e_i y_i ~ Poisson(Σ_l w_il exp f(x_il)),
        binomial:  e_i y_i ~ Binomial(e_i, Σ_l w_il / e_i · 1 / (1 + exp(-f(x_il)))),

    for targets that are rates; with ``aggregate="sum"`` they are the counts e_i y_i. The posterior of f is that of
    Laplace, found by Fisher scoring, each step of which is a Gaussian problem whose evidence gives ρ.

    A new bag may be any set of instances, a part of a training bag or the union of several: its prediction is the
    aggregate of `predict_instances`, and its standard deviation takes the covariance of its instances into account.

    Parameters
    ----------
    features : transformer of rows, default=FourierFeatures(256, linear=False)
        φ: `FourierFeatures`, or `NystroemFeatures` for landmarks.
    grid : dict, optional
        Lists of values for parameters of the features, among which the evidence chooses; by default two kernels with
        five bandwidths. With an empty dict, the features are used as they are.
    aggregate : {"mean", "sum"}, default="mean"
        Which aggregate of the instances' values the target is.
    likelihood : {"gaussian", "poisson", "binomial"}, default="gaussian"
        Distribution of the target given its expectation.
    random_state : int, default=0
        Seed of the default features.
    n_jobs : int, optional
        Settings tried at once.

    Attributes
    ----------
    setting_, features_ : dict, fitted transformer
        The setting chosen.
    posterior_ : Evidence
        Posterior of b and β.
    noise_std_ : float or None
        σ in units of the target, for sums that of a bag of average exposure; None for counts and rates.
    exposure_range_in_ : ndarray of shape (2,)
        The smallest and largest total exposure of a training bag.
    search_ : list of (setting, log evidence)
        All settings tried.

    Notes
    -----
    Counts need not be whole: estimated ones are accepted with a warning. Law et al. maximise a variational bound
    instead, whose covariance is much too narrow: it is that of instances which were all observed.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import AggregateGP
    >>> bags, counts, truth = bw.datasets.make_instance_map("swiss-roll", 100)
    >>> model = AggregateGP(aggregate="sum", likelihood="poisson").fit(bags, counts)
    >>> rates, std = model.predict_instances(bags, return_std=True)
    >>> bool(np.corrcoef(rates, truth)[0, 1] > 0.8)
    True

    References
    ----------
    Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018), Variational learning on aggregate outputs with
    Gaussian processes. MacKay (1992), The evidence framework applied to classification networks.
    """

    def __init__(
        self,
        features=None,
        *,
        grid: dict | None = None,
        aggregate: str = "mean",
        likelihood: str = "gaussian",
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.features = features
        self.grid = grid
        self.aggregate = aggregate
        self.likelihood = likelihood
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags, y, weight) -> None:
        self._check()
        if self.likelihood != "gaussian":
            self._fit_counts(bags, y, weight)
        else:
            jobs = (delayed(_embed)(setting, embedding, bags) for setting, embedding in self._embeddings(bags))
            self.fit_embedded(Parallel(n_jobs=self.n_jobs)(jobs), y, weight, exposures(bags))
        self.remember_exposures(exposures(bags), weighted=bags.weights is not None)

    def _fit_counts(self, bags: Bags, y: np.ndarray, weight: np.ndarray) -> None:
        total = exposures(bags)
        rates = self._rates(bags, y, total)
        counted = rates[weight > 0]
        if not (counted > 0).any():
            raise ValueError("every count is zero, so no rate can be learned; fit needs a bag with a count above zero")
        if self.likelihood == "binomial" and (counted == 1).all():
            raise ValueError("every rate is one, so nothing can be learned; fit needs a bag with a rate below one")
        self.remember_targets(rates, weight)
        chosen = _searched_bags(bags) if len(self.settings()) > 1 else np.arange(len(bags))
        problem = bags[chosen], rates[chosen], total[chosen], weight[chosen]
        settings, embeddings = zip(*self._embeddings(bags), strict=True)
        jobs = (delayed(laplace)(mean.features_, self.likelihood, *problem, tolerance=ROUGH) for mean in embeddings)
        fits = Parallel(n_jobs=self.n_jobs)(jobs)
        self.search_ = [(setting, score) for setting, (_, score) in zip(settings, fits, strict=True)]
        best = int(np.argmax([score for _, score in self.search_]))
        self.setting_, self.features_ = settings[best], embeddings[best].features_
        self.posterior_, _ = laplace(self.features_, self.likelihood, bags, rates, total, weight, start=fits[best][0])
        self.target_, self.noise_std_, self.noise_exposure_ = TargetScale(0.0, 1.0), None, 1.0

    def fit_embedded(self, embedded, y, weight: np.ndarray, exposure: np.ndarray) -> AggregateGP:
        """Fit Gaussian targets to (setting, fitted embedding, rows) for each setting; rows may be `RowBlocks`.

        ``exposure`` is the total of each bag.
        """
        self._check()
        self.noise_exposure_ = 1.0
        if self.aggregate == "sum":
            self.noise_exposure_ = float(np.average(exposure, weights=weight))
            y, weight = y / exposure, weight * exposure / self.noise_exposure_
        self.remember_targets(y, weight)
        self.target_ = TargetScale.of(y, weight)
        y, embedded = self.target_.standardised(y), list(embedded)
        fits = Parallel(n_jobs=self.n_jobs)(delayed(fit_and_score)(rows, y, weight) for _, _, rows in embedded)
        self.search_ = [(setting, fit.log_evidence()) for (setting, *_), (fit, _) in zip(embedded, fits, strict=True)]
        best = int(np.argmax([score for _, score in self.search_]))
        self.setting_, self.features_ = embedded[best][0], embedded[best][1].features_
        self.posterior_, _ = fits[best]
        self.noise_std_ = self.target_.scale * np.sqrt(self.posterior_.noise) * self.noise_exposure_
        return self

    def settings(self) -> list[dict]:
        """Return the settings to try, in order."""
        return list(ParameterGrid(GRID if self.grid is None else self.grid))

    def embedding_for(self, setting: dict) -> FeatureMean:
        """Return the mean of unfitted features with this setting."""
        default = FourierFeatures(256, linear=False, random_state=self.random_state)
        return FeatureMean(clone(default if self.features is None else self.features).set_params(**setting))

    def _embeddings(self, bags: Bags) -> list[tuple[dict, FeatureMean]]:
        """Return each setting with the mean of its fitted features; settings share the sampled rows."""
        embeddings, samples = [], {}
        for setting in self.settings():
            embedding = self.embedding_for(setting)
            embedding.features_ = features = embedding.fresh_features()
            if hasattr(features, "sampling"):
                key = features.sampling()
                if key not in samples:
                    rows = bags.instances[sample_rows(bags.instances, *key)]
                    samples[key] = *mean_and_scale(bags.instances), rows
                features.fit_moments(*samples[key])
            else:
                features.fit(bags.instances)
            embeddings.append((setting, embedding))
        return embeddings

    def predict(self, bags, return_std: bool = False, return_cov: bool = False, *, noise: bool = True):
        """Predict the target of each bag.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            New bags, with the features of the training bags.
        return_std : bool, default=False
            Whether to return the standard deviation of each target as well.
        return_cov : bool, default=False
            Whether to return the covariance of all targets instead, for sums and differences of bags.
        noise : bool, default=True
            Whether both are those of new targets, or those of the aggregates of f.

        Returns
        -------
        mean : ndarray of shape (n_bags,)
        std or covariance : ndarray of shape (n_bags,) or (n_bags, n_bags)
            Only on request.
        """
        bags = self._checked(bags)
        rows, rate, slope = self._rows(bags)
        scale = exposures(bags) if self.aggregate == "sum" else np.ones(len(bags))
        mean = self.within_limits(scale * (self.target_.mean + self.target_.scale * rate), scale)
        if not return_std and not return_cov:
            return mean
        root = (self.target_.scale * scale * slope)[:, None] * self.posterior_.covariance_root(rows)
        variance = np.einsum("ij,ij->i", root, root)
        spread = self._noise(bags, mean / scale, variance / scale**2) * scale**2 if noise else np.zeros(len(bags))
        return (mean, root @ root.T + np.diag(spread)) if return_cov else (mean, np.sqrt(variance + spread))

    def predict_instances(self, bags, return_std: bool = False):
        """Return the value of each instance (of counts, its rate per unit of exposure), and its standard deviation."""
        bags = self._checked(bags)
        mean, std = np.empty(bags.n_instances), np.empty(bags.n_instances if return_std else 0)
        for start in range(0, bags.n_instances, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            phi = self.features_.transform(bags.instances[block]).astype(np.float64)
            value, slope = self._values(phi)
            mean[block] = self.target_.mean + self.target_.scale * value
            if return_std:
                root = self.posterior_.covariance_root(phi)
                std[block] = self.target_.scale * np.abs(slope) * np.sqrt(np.einsum("ij,ij->i", root, root))
        return (mean, std) if return_std else mean

    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance to its bag: its value times its share or its exposure."""
        bags = self._checked(bags)
        scale = exposures(bags) if self.aggregate == "sum" else 1.0
        return self.limited_contributions(self._weights(bags) * self.predict_instances(bags), bags, scale)

    def _values(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return value and slope, h(f) and h'(f), of instances; standardised if Gaussian."""
        f = self.posterior_.target_mean + (phi - self.posterior_.row_mean) @ self.posterior_.coef
        if self.likelihood == "gaussian":
            return f, np.ones(len(f))
        value = LIKELIHOODS[self.likelihood].link(f)
        return value, LIKELIHOODS[self.likelihood].slope(value)

    def _rows(self, bags: Bags) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return per bag its features averaged by their slopes, its mean value and its mean slope."""
        if self.likelihood == "gaussian":
            rows = mean_of_features(self.features_.transform, bags)
            return rows, self._values(rows)[0], np.ones(len(bags))
        moments = aggregate(self.features_.transform, bags, self._values)
        return moments.rows, moments.level, moments.slope

    def _noise(self, bags: Bags, rate: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the variance of the target of each bag about its aggregate, per exposure if targets are sums."""
        if self.likelihood == "gaussian":
            total = exposures(bags) * self.noise_exposure_ if self.aggregate == "sum" else np.ones(len(bags))
            return self.noise_std_**2 / total
        spread = LIKELIHOODS[self.likelihood].slope(rate) - (variance if self.likelihood == "binomial" else 0.0)
        return np.maximum(spread, 0.0) / exposures(bags)

    def _check(self) -> None:
        check_options(self, aggregate=("mean", "sum"), likelihood=("gaussian", *LIKELIHOODS))

    @property
    def counts_exposure(self) -> bool:
        return self.aggregate == "sum" or self.likelihood != "gaussian"

    def _rates(self, bags: Bags, y: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return counts over exposures; raise an error for values that are no counts or rates."""
        noun = "count" if self.aggregate == "sum" else "rate"
        if (y < 0).any():
            raise ParameterError(
                "likelihood",
                f"{name_bags(bags.ids, y < 0)} a {noun} below zero ({y[y < 0][0]:g}), which has no {self.likelihood} "
                "likelihood; look for a fill value and leave such bags out, or use likelihood='gaussian'",
            )
        rates = y / total if self.aggregate == "sum" else y
        above = rates > 1
        if self.likelihood == "binomial" and above.any():
            count = f"a count ({y[above][0]:g}) above its total exposure ({total[above][0]:g})"
            problem = count if self.aggregate == "sum" else f"a rate above one ({y[above][0]:g})"
            raise ParameterError(
                "likelihood",
                f"{name_bags(bags.ids, above)} {problem}; a binomial likelihood counts cases among the total of the "
                "exposures: give those as instance weights, divide percentages by 100, or use likelihood='poisson'",
            )
        broken = y != np.round(y)
        if self.aggregate == "sum" and broken.any():
            warn_user(
                f"{name_bags(bags.ids, broken)} a count that is not whole ({y[broken][0]:g}); it is read as an "
                "estimated count. Where targets are rates, use aggregate='mean'"
            )
        return rates


class Aggregates(NamedTuple):
    """Sums of each bag: Σ s h(f), Σ s h'(f), and Σ s h'(f) φ over the second; s are the shares of its instances."""

    level: np.ndarray
    slope: np.ndarray
    rows: np.ndarray


def aggregate(features: Callable, bags: Bags, values: Callable, cached: list | None = None) -> Aggregates:
    """Average values and slopes of the instances over their bags; ``values`` computes both from the features.

    ``cached`` has the features of each block, if they were computed before.
    """
    share, sums = bags.shares(), None
    blocks = cached or (features(bags.instances[rows]) for rows in _blocks(bags))
    for phi, (rows, touched, offsets) in zip(blocks, row_blocks(bags.offsets, BLOCK_ROWS), strict=True):
        phi = np.asarray(phi, dtype=np.float64)
        value, slope = values(phi)
        moved = share[rows] * slope
        sums = np.zeros((len(bags), phi.shape[1] + 2)) if sums is None else sums
        sums[touched, 0] += segment_sum(share[rows] * value, offsets)
        sums[touched, 1] += segment_sum(moved, offsets)
        # A row of weights per bag, so that compiled code adds up the features without a copy of them.
        weights = csr_array((moved, np.arange(len(phi)), offsets), shape=(len(offsets) - 1, len(phi)))
        sums[touched, 2:] += weights @ phi
    level, slope = sums[:, 0], sums[:, 1]
    return Aggregates(level, slope, sums[:, 2:] / slope[:, None])


def _blocks(bags: Bags) -> Iterator[slice]:
    return (rows for rows, _, _ in row_blocks(bags.offsets, BLOCK_ROWS))


def _anderson(history: deque, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the combination of earlier points of an iteration x -> g(x) whose steps cancel best.

    Walker & Ni (2011), Anderson acceleration for fixed-point iterations.
    """
    history.append((g - x, g))
    if len(history) < 2:
        return g
    steps, ends = (np.array(rows).T for rows in zip(*history, strict=True))
    return g - np.diff(ends) @ np.linalg.lstsq(np.diff(steps), g - x, rcond=1e-10)[0]


def laplace(
    features, likelihood: str, bags: Bags, rates, total, weight, *, start: Evidence | None = None, tolerance=TOLERANCE
) -> tuple[Evidence, float]:
    """Return Laplace's approximation of the posterior of f given counts, from an earlier one, and the log evidence."""
    link, slope, inverse, log_density = LIKELIHOODS[likelihood]
    width = features.transform(bags.instances[:2]).shape[1]
    is_small = bags.n_instances * width <= CACHED
    cached = [features.transform(bags.instances[rows]) for rows in _blocks(bags)] if is_small else None
    counted = weight * total

    def look(at) -> tuple[Aggregates, float]:
        def values(phi):
            value = link(phi @ at[:-1] + at[-1])
            return value, slope(value)

        sums = aggregate(features.transform, bags, values, cached)
        density = counted @ log_density(rates, sums.level)
        return sums, float(density) if np.isfinite(sums.rows).all() else -np.inf

    def point(fit: Evidence) -> np.ndarray:
        return np.append(fit.coef, fit.target_mean - fit.row_mean @ fit.coef)

    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = inverse(np.average(rates, weights=counted))
        at = np.append(np.zeros(width), mean) if start is None else point(start)
        (now, density), history = look(at), deque(maxlen=6)
        for _ in range(STEPS):
            importance = counted * now.slope**2 / slope(now.level)
            working = now.rows @ at[:-1] + at[-1] + (rates - now.level) / now.slope
            posterior = Evidence(now.rows, working, importance, noise=1.0)
            towards, penalty = point(posterior), 0.5 / posterior.ratio
            before = density - penalty * at[:-1] @ at[:-1]
            for new in (_anderson(history, at, towards), towards, *(at + (towards - at) / 2**k for k in range(1, 20))):
                now, density = look(new)
                if density - penalty * new[:-1] @ new[:-1] > before - 1.0:  # ρ moves too: a small loss may be none
                    break
            moved = np.abs(now.rows @ (new - at)[:-1] + (new - at)[-1]).max()
            at = new
            if moved < tolerance:
                break
        else:
            if tolerance == TOLERANCE:
                warnings.warn(f"the posterior was not found in {STEPS} steps", ConvergenceWarning, stacklevel=2)
    coef, ratio = at[:-1], posterior.ratio
    log_determinant = np.log1p(ratio * posterior.spectrum).sum() + np.log(importance.sum())
    return posterior, float(density - coef @ coef / (2 * ratio) - 0.5 * log_determinant)


def _embed(setting: dict, embedding: FeatureMean, bags: Bags) -> tuple:
    with one_thread():
        return setting, embedding, mean_of_features(embedding.features_.transform, bags)


def _searched_bags(bags: Bags) -> np.ndarray:
    """Return bags with at most `SEARCHED` instances in total, evenly spread over their order; at least two."""
    if bags.n_instances <= SEARCHED:
        return np.arange(len(bags))
    order = np.argsort(np.arange(len(bags)) * 0.6180339887498949 % 1.0)  # the golden ratio: any first few are spread
    n_bags = max(2, int(np.searchsorted(np.cumsum(bags.sizes[order]), SEARCHED, side="right")))
    return np.sort(order[:n_bags])
