"""Hamiltonian Monte Carlo for a smooth log density of a few hundred numbers, all chains moving together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

TARGET_ACCEPTANCE = 0.85
PATH = np.pi / 2  # a quarter of the circle on which a standard normal moves: then start and end are independent
MOST_STEPS = 64


@dataclass(frozen=True)
class Draws:
    """What a run gives.

    Attributes
    ----------
    values : array (chains, draws, numbers)
    acceptance : mean acceptance probability after warm-up
    step : length of a leapfrog step, in units of the precision given
    """

    values: np.ndarray
    acceptance: float
    step: float

    @property
    def flat(self) -> np.ndarray:
        """All draws of all chains, a row each."""
        return self.values.reshape(-1, self.values.shape[-1])


def hamiltonian(log_density, start, precision, *, chains=4, warmup=200, draws=250, random_state=0) -> Draws:
    r"""Draw from exp(log_density) by simulating the motion of a particle on the surface -log_density.

    Positions are x = start + L⁻ᵀq, LLᵀ = ``precision``, so that a density close to N(start, precision⁻¹) is close to a
    standard normal in q; then a random momentum, leapfrog steps along a path of random length about π/2, and a
    Metropolis test. The step is tuned during warm-up by dual averaging towards an acceptance of 0.85.

    Parameters
    ----------
    log_density : function (chains, numbers) -> (values, gradients)
        Vectorised over chains.
    start : array of numbers
    precision : positive definite matrix, about the negative curvature of the log density there

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.regressors.sampling import hamiltonian
    >>> run = hamiltonian(lambda x: (-0.5 * (x**2).sum(axis=1), -x), np.zeros(3), np.eye(3), draws=500)
    >>> bool(np.allclose(run.flat.var(axis=0), 1.0, atol=0.15))
    True

    References
    ----------
    Neal (2011), MCMC using Hamiltonian dynamics. Hoffman and Gelman (2014), The No-U-Turn sampler, section 3.2.
    """
    rng = np.random.default_rng(random_state)
    size = len(start)
    spread = solve_triangular(cholesky(precision, lower=True), np.eye(size), lower=True)  # L⁻¹; x - start = q L⁻¹

    def at(q):
        value, gradient = log_density(start + q @ spread)
        return value, gradient @ spread.T

    q = rng.normal(size=(chains, size)) * 0.5
    value, gradient = at(q)
    tuner, kept, rates = _StepTuner(0.5), np.empty((chains, draws, size)), []
    for i in range(warmup + draws):
        step = tuner.step if i < warmup else tuner.settled
        momentum = rng.normal(size=q.shape)
        n_steps = int(np.clip(np.ceil(PATH * rng.uniform(0.6, 1.4) / step), 1, MOST_STEPS))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a path that runs away is refused
            new, new_value, new_gradient, new_momentum = _leapfrog(at, q, momentum, gradient, step, n_steps)
            gain = new_value - value - 0.5 * (new_momentum**2 - momentum**2).sum(axis=1)
        chance = np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0))
        accept = rng.uniform(size=chains) < chance
        q, gradient = np.where(accept[:, None], new, q), np.where(accept[:, None], new_gradient, gradient)
        value = np.where(accept, new_value, value)
        if i < warmup:
            tuner.update(chance.mean())
        else:
            kept[:, i - warmup] = start + q @ spread
            rates.append(chance.mean())
    return Draws(kept, float(np.mean(rates)), float(tuner.settled))


def _leapfrog(at, q, momentum, gradient, step, n_steps):
    momentum = momentum + 0.5 * step * gradient
    for k in range(n_steps):
        q = q + step * momentum
        value, gradient = at(q)
        momentum = momentum + (0.5 if k == n_steps - 1 else 1.0) * step * gradient
    return q, value, gradient, momentum


class _StepTuner:
    """Dual averaging: the step whose acceptance is TARGET_ACCEPTANCE on average."""

    def __init__(self, step: float):
        self.centre, self.log, self.average, self.miss, self.count = np.log(10 * step), np.log(step), 0.0, 0.0, 0

    @property
    def step(self) -> float:
        return float(np.exp(self.log))

    @property
    def settled(self) -> float:
        return float(np.exp(self.average)) if self.count else self.step

    def update(self, acceptance: float) -> None:
        self.count += 1
        share = 1.0 / (self.count + 10)
        self.miss = (1 - share) * self.miss + share * (TARGET_ACCEPTANCE - acceptance)
        self.log = self.centre - np.sqrt(self.count) / 0.05 * self.miss
        weight = self.count**-0.75
        self.average = weight * self.log + (1 - weight) * self.average


def split_rhat(values: np.ndarray) -> np.ndarray:
    """Split R̂ of every number: how much wider all half-chains are together than each is; 1 when they agree.

    Examples
    --------
    >>> import numpy as np
    >>> apart = np.stack([np.zeros((50, 1)), np.ones((50, 1))]) + np.random.default_rng(0).normal(size=(2, 50, 1)) / 9
    >>> bool(split_rhat(apart)[0] > 3)
    True
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    within = np.where(within > 0, within, 1.0)
    return np.sqrt((half - 1) / half + between / within)
