"""Bayesian distribution regression in full: the bag-size aware model, its weights drawn by Hamiltonian Monte Carlo."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag, polar
from sklearn.base import clone

from bagwise.bags.checks import compared
from bagwise.bags.validation import whole_number
from bagwise.execution.resources import one_thread
from bagwise.regressors.bayesian.evidence_ridge import PredictiveRegressor
from bagwise.regressors.bayesian.shrinkage import FLOOR, Shrinkage, fisher, predictive

TARGET_ACCEPTANCE = 0.85
PATH = np.pi / 2  # a quarter of the circle on which a standard normal moves: then start and end are independent
FIRST_STEP, MOST_STEPS = 0.5, 64


def hamiltonian(
    log_density, start, precision, *, frame=None, chains=4, warmup=200, draws=250, random_state=0
) -> tuple[np.ndarray, float]:
    r"""Draw from exp(log_density) by simulating the motion of a particle on the surface -log_density.

    Return the draws, (chains, draws, numbers), and the mean acceptance probability after warm-up.

    ``log_density`` maps points (chains, numbers) to values and gradients. Positions are x = start + P^(-1/2) q, with P
    the ``precision``, so that a density close to N(start, P⁻¹) is close to a standard normal in q. Each draw has a
    random momentum, leapfrog steps along a path of random length about π/2, and a Metropolis test. The step is tuned in
    the first three quarters of the warm-up by dual averaging.

    Rounding must not decide what is drawn. With equal random numbers and steps, chains that start a little apart come
    together; while steps are tuned they part. So the chains then begin anew, with a power of two for a step. And if x
    and the ``frame``, along whose rows normal numbers are drawn, are turned together, all draws turn with them.

    Neal (2011), MCMC using Hamiltonian dynamics. Hoffman and Gelman (2014), The No-U-Turn sampler, section 3.2.
    """
    rng = np.random.default_rng(random_state)
    size = len(start)
    frame = np.eye(size) if frame is None else frame
    curvature, directions = np.linalg.eigh(precision)
    spread = (directions / np.sqrt(curvature)) @ directions.T

    def at(q):
        value, gradient = log_density(start + q @ spread)
        return value, gradient @ spread

    q = rng.normal(size=(chains, len(frame))) @ frame * 0.5
    value, gradient = at(q)
    begin, tuning = (q, value, gradient), warmup - warmup // 4
    step, miss, average = FIRST_STEP, 0.0, 0.0
    values, rates = np.empty((chains, draws, size)), []
    for i in range(warmup + draws):
        if i == tuning:
            (q, value, gradient), step = begin, 2.0 ** np.round(average / np.log(2.0))
        momentum = rng.normal(size=(chains, len(frame))) @ frame
        n_steps = int(np.clip(np.ceil(PATH * rng.uniform(0.6, 1.4) / step), 1, MOST_STEPS))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a path that runs away is refused
            new, new_value, new_gradient, new_momentum = _leapfrog(at, q, momentum, gradient, step, n_steps)
            gain = new_value - value - 0.5 * (new_momentum**2 - momentum**2).sum(axis=1)
        chance = np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0))
        accept = rng.uniform(size=chains) < chance
        q, gradient = np.where(accept[:, None], new, q), np.where(accept[:, None], new_gradient, gradient)
        value = np.where(accept, new_value, value)
        if i < tuning:  # dual averaging
            share, weight = 1.0 / (i + 11), (i + 1) ** -0.75
            miss = (1 - share) * miss + share * (TARGET_ACCEPTANCE - chance.mean())
            log_step = np.log(FIRST_STEP) - np.sqrt(i + 1) / 0.05 * miss
            step, average = np.exp(log_step), weight * log_step + (1 - weight) * average
        elif i >= warmup:
            values[:, i - warmup] = start + q @ spread
            rates.append(chance.mean())
    return values, float(np.mean(rates))


def _leapfrog(at, q, momentum, gradient, step, n_steps):
    momentum = momentum + 0.5 * step * gradient
    for k in range(n_steps):
        q = q + step * momentum
        value, gradient = at(q)
        momentum = momentum + (0.5 if k == n_steps - 1 else 1.0) * step * gradient
    return q, value, gradient, momentum


def split_rhat(values: np.ndarray) -> np.ndarray:
    """Return split R̂ of each number: the spread of all half-chains relative to that of each; 1 if they agree."""
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    within = np.where(within > 0, within, 1.0)
    return np.sqrt((half - 1) / half + between / within)


class SampledShrinkage(PredictiveRegressor):
    r"""`Shrinkage` averaged over the posterior of its weights.

    y_i | w, b, σ² ~ N(b + wᵀm_i, wᵀC_i w + σ²), m_i and C_i (diagonal) the posterior mean and covariance of the
    coordinates of bag i given its size, with

    w ~ N(0, κ² I),   b ~ N(0, 2²),   κ and σ² half-normal N⁺(0, 2²),   targets and coordinates of mean square 1.

    Hamiltonian Monte Carlo draws (w, b, log κ, log σ²) from the posterior, preconditioned by the Fisher information at
    the fit of `Shrinkage`, which also gives embedding, η and coordinates. Predictions need only two moments of the
    draws:

    E[y] = E[b] + E[w]ᵀm,   var[y] = E[σ²] + Σ_j C_jj E[w_j²] + (m, 1)ᵀ cov(w, b) (m, 1).

    Parameters
    ----------
    shrinkage : Shrinkage, default=Shrinkage()
        The model whose weights are drawn.
    chains : int, default=4
        Number of chains.
    warmup, draws : int, default=200, 250
        Draws of each chain before and after its step is tuned.
    random_state : int, default=0
        Seed of the chains; the same seed gives the same draws.

    Attributes
    ----------
    shrinkage_ : Shrinkage
        The fitted model.
    draws_ : ndarray of shape (chains, draws, coordinates + 3)
        Draws of (w, b, log κ, log σ²).
    rhat_ : ndarray of shape (coordinates + 3,)
        Split R̂ of each; the largest should be below 1.05.
    acceptance_ : float
        Mean acceptance probability.

    Notes
    -----
    The source samples with Stan's NUTS, with α ~ N(0, κ²) at the landmarks. Here w is normal, which is
    α ~ N(0, κ² R⁻¹), the prior that the penalty αᵀRα of `Shrinkage` stands for. As there, ``σ²`` enters as a variance.

    Another CPU gives the same predictions to 1e-7 standard deviations of y, or to the noise of sampling (about 1e-2)
    where rounding moves the tuned step to another power of two.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.embeddings import LandmarkMean
    >>> from bagwise.regressors import SampledShrinkage, Shrinkage
    >>> bags, y = bw.datasets.make_gaussian(60, instances=5)
    >>> model = SampledShrinkage(Shrinkage(LandmarkMean(landmarks=8), penalties=(1.0,))).fit(bags, y)
    >>> bool(model.rhat_.max() < 1.05)
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

    def _fit(self, bags, y, weight) -> None:
        for name, least in (("chains", 1), ("warmup", 1), ("draws", 4)):
            whole_number(getattr(self, name), name, least=least)
        shrinkage = clone(self.shrinkage if self.shrinkage is not None else Shrinkage())
        self.shrinkage_ = shrinkage.fit(compared(bags), y, weight)
        self.target_ = self.shrinkage_.target_
        posterior = Posterior(*self.shrinkage_.embed(bags), self.target_.standardised(y), weight)
        start = posterior.start(self.shrinkage_)
        frame = block_diag(polar(self.shrinkage_.coordinates_.axes)[0], np.eye(3))  # normal numbers at the landmarks
        options = {name: getattr(self, name) for name in ("chains", "warmup", "draws", "random_state")}
        with one_thread():
            draws, self.acceptance_ = hamiltonian(
                posterior, start, posterior.information(start), frame=frame, **options
            )
        self.draws_, self.rhat_ = draws, split_rhat(draws)
        flat = draws.reshape(-1, draws.shape[-1])
        linear = flat[:, :-2]  # (w, b)
        self.weights_, self.intercept_ = linear.mean(axis=0)[:-1], float(linear[:, -1].mean())
        self.covariance_, self.square_ = np.cov(linear.T), (linear[:, :-1] ** 2).mean(axis=0)
        self.variance_ = float(np.exp(flat[:, -1]).mean()) + FLOOR

    def _moments(self, bags):
        line = self.weights_, self.intercept_, self.variance_, self.covariance_
        return predictive(*self.shrinkage_.embed(bags), *line, self.square_)


class Posterior:
    """Log posterior of (w, b, log κ, log σ²) up to a constant, and its gradient, for several vectors (rows) at once."""

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
        """Return the fitted vector, with κ estimated from its weights and their uncertainty."""
        kappa = 1.0 / np.sqrt(fitted.penalty_)
        vector = np.concatenate([fitted.weights_, [fitted.intercept_, np.log(kappa), np.log(fitted.variance_)]])
        spread = np.diag(np.linalg.inv(self.information(vector)))[:-3]
        vector[-2] = 0.5 * np.log(np.mean(fitted.weights_**2 + spread))
        return vector

    def information(self, vector: np.ndarray) -> np.ndarray:
        """Return the Fisher information of the vector plus the precision of the priors."""
        w, sigma2, kappa = vector[:-3], np.exp(vector[-1]), np.exp(vector[-2])
        v = self.variance @ w**2 + sigma2 + FLOOR
        none = np.zeros(len(v))
        by_m = np.column_stack([self.mean, none + 1.0, none, none])
        by_v = np.column_stack([2.0 * w * self.variance, none, none, none + sigma2])
        prior = np.concatenate([np.full(len(w), kappa**-2), [self.WIDTH**-2, 2.0 * len(w) + 1.0, 1.0]])
        return fisher(by_m, by_v, v, prior, self.weight)
