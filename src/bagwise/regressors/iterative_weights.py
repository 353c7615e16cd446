"""Reweighting: fit an instance regressor, weight the instances by its predictions, and fit again (prime, pruning, em).

A weighting (`Primary`, `Pruning`, `Mixture`) yields initial weights (`starts`) and computes new weights from
predictions (`step`). The weights of a bag sum to one, and a lower objective is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression

from bagwise.bags import Bags
from bagwise.bags.segments import (
    segment_max,
    segment_mean,
    segment_median,
    segment_median_shares,
    segment_min,
    segment_softmax,
    segment_sum,
    segment_weighted_median,
)
from bagwise.bags.validation import check_options
from bagwise.execution.resources import one_thread
from bagwise.instances.out_of_fold import fit_options, seeded
from bagwise.kernels.formulas import mean_and_scale
from bagwise.regressors.pipeline import BagRegressor

ROW_BY_ROW = partial(np.einsum, "ij,j...->i...")  # a row does not depend on the others, unlike in a matrix product


class Gate(BaseEstimator):
    r"""Gate π_il = exp g(x_il) / Σ_m exp g(x_im), g linear or a network with one hidden layer of tanh units.

    Trained on soft targets γ (the responsibilities of a mixture) by L-BFGS on the penalised cross entropy, in which
    bag i has the weight a_i (Σ a_i = 1):

        minimise  - Σ_i a_i Σ_l γ_il log π_il  +  penalty/2 ‖θ‖²

    A network can separate outlying instances from the others; a linear g cannot.

    Parameters
    ----------
    hidden : int, default=0
        Number of tanh units; 0 for a linear score.
    penalty : float, default=0.01
        Penalty of the squared weights, per bag.
    iterations : int, default=20
        Steps of L-BFGS per fit.
    random_state : int, default=0
        Seed of the first weights of the network.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import Gate
    >>> bags = bw.from_arrays([np.array([[0.0], [1.0]]), np.array([[2.0], [5.0], [4.0]])])
    >>> gate = Gate().fit(bags, np.array([0.0, 1.0, 0.0, 1.0, 0.0]))
    >>> gate.probabilities(bags).argmax()
    np.int64(1)
    """

    def __init__(self, hidden: int = 0, *, penalty: float = 0.01, iterations: int = 20, random_state: int = 0):
        self.hidden = hidden
        self.penalty = penalty
        self.iterations = iterations
        self.random_state = random_state

    def fit(self, bags: Bags, responsibilities: np.ndarray, *, share=None, start=None) -> Gate:
        """Fit to responsibilities that sum to one in each bag, starting from the parameters of a fitted gate."""
        self.begin(bags)
        share = np.full(len(bags), 1.0 / len(bags)) if share is None else share
        rows, a = (bags.instances - self.centre_) / self.scale_, bags.expand(share)

        def loss(theta):
            scores, backwards = self._score(theta, rows, np.matmul)
            top = bags.expand(segment_max(scores, bags.offsets))
            log_total = bags.expand(np.log(segment_sum(np.exp(scores - top), bags.offsets))) + top
            log_pi = scores - log_total
            value = -(a * responsibilities) @ log_pi + 0.5 * self.penalty * (theta @ theta)
            return value, backwards(a * (np.exp(log_pi) - responsibilities)) + self.penalty * theta

        start = self if start is None else start
        result = minimize(loss, start.theta_, jac=True, method="L-BFGS-B", options={"maxiter": self.iterations})
        # These few steps stop before the optimum, at a point that depends on rounding, and each round of EM would
        # amplify the difference a thousandfold. So round to six decimals, which agree between CPUs.
        self.theta_ = np.round(result.x, 6)
        return self

    def begin(self, bags: Bags) -> Gate:
        """Set equal probabilities and the initial parameters of `fit`."""
        self.centre_, self.scale_ = mean_and_scale(bags.instances, constant=np.inf)  # ignore constant features
        d = bags.n_features
        inner = np.random.default_rng(self.random_state).normal(size=(d + 1) * self.hidden)
        self.theta_ = np.concatenate([inner / np.sqrt(d), np.zeros(self.hidden or d)])
        return self

    def probabilities(self, bags: Bags) -> np.ndarray:
        """Return the probability π of each instance; they sum to one in each bag."""
        rows = (bags.instances - self.centre_) / self.scale_
        return segment_softmax(self._score(self.theta_, rows)[0], bags.offsets)

    def _score(self, theta: np.ndarray, rows: np.ndarray, times=ROW_BY_ROW):
        """Return the scores, and a function from their derivatives to those of θ; ``times`` multiplies matrices."""
        if not self.hidden:
            return times(rows, theta), lambda slope: rows.T @ slope
        d, h = rows.shape[1], self.hidden
        inner, shift, outer = np.split(theta, [d * h, (d + 1) * h])
        units = np.tanh(times(rows, inner.reshape(d, h)) + shift)

        def backwards(slope):
            through = (1.0 - units * units) * slope[:, None] * outer
            return np.concatenate([(rows.T @ through).ravel(), through.sum(axis=0), slope @ units])

        return times(units, outer), backwards


NEGLIGIBLE = 1e-6  # of the largest weight of the bag: instances below it are left out of a fit


@dataclass(frozen=True)
class Task:
    """Training bags in double precision, standardised targets, and the share of each bag in the objective."""

    bags: Bags
    y: np.ndarray
    share: np.ndarray
    centre: float
    scale: float

    @classmethod
    def of(cls, bags: Bags, y: np.ndarray, weight: np.ndarray) -> Task:
        share = weight / weight.sum()
        centre = float(share @ y)
        spread = float(np.sqrt(share @ (y - centre) ** 2))
        scale = spread if spread > 1e-12 * np.abs(y[share > 0]).max() else 1.0  # the spread of a constant is rounding
        return cls(in_double(bags), (y - centre) / scale, share, centre, scale)

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return the squared error of each instance against the target of its bag."""
        return (self.bags.expand(self.y) - predictions) ** 2

    def fit(self, regressor, weights: np.ndarray, *, soft: bool, random_state: int):
        """Return a fitted clone of the regressor; it must take ``sample_weight`` if the weights are ``soft``."""
        bags, largest = self.bags, segment_max(weights, self.bags.offsets)
        used = (weights > NEGLIGIBLE * bags.expand(largest)) & bags.expand(self.share > 0)
        total = (weights * bags.expand(self.share))[used]
        total = total / total.mean()
        equal = np.ptp(total) <= 1e-12
        bag_of_row = bags.expand(np.arange(len(bags)))[used]
        regressor = seeded(clone(regressor), random_state)
        options = fit_options(regressor, sample_weight=None if equal else total, groups=bag_of_row)
        takes_weights = any(name.endswith("sample_weight") for name in options)
        if not (equal or takes_weights) and (soft or np.ptp(self.share) > 0):
            raise ValueError(
                f"{type(regressor).__name__} takes no sample_weight, but the instances are weighted. Use a "
                "regressor that takes sample_weight, or weighting=Primary(), which only selects instances."
            )
        return regressor.fit(bags.instances[used], self.y[bag_of_row], **options)


def in_double(bags: Bags) -> Bags:
    return bags if bags.dtype == np.float64 else bags.replace(bags.instances.astype(np.float64))


@dataclass(frozen=True)
class Step:
    """Result of one step: the objective, the weights for the next fit, and the state that the next step needs."""

    objective: float
    weights: np.ndarray
    largest: int = 0
    variance: float | None = None
    gate: Gate | None = None


class Primary(BaseEstimator):
    """Weighting of the best predicted instance of each bag: min_f Σ_i min_l (y_i - f(x_il))².

    Choose the best predicted instance of each bag (ties share), fit on those, and repeat; the objective can only fall.
    It has many local minima, so the loop starts from instance-MIR and from ``restarts`` random hyperplanes.

    Parameters
    ----------
    restarts : int, default=10
        Number of random hyperplanes, with standard normal slopes on standardised features.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.regressors import Reweighting, Primary
    >>> bags, y = bw.datasets.make_problem("prime", 40)
    >>> Reweighting(weighting=Primary(restarts=2)).fit(bags, y).predict(bags).shape
    (40,)
    """

    soft = False

    def __init__(self, *, restarts: int = 10):
        self.restarts = restarts

    def starts(self, task: Task, random: np.random.Generator):
        yield task.bags.shares()
        X = task.bags.instances
        deviation = X.std(axis=0)
        for _ in range(self.restarts):
            slopes = random.normal(size=X.shape[1]) / np.sqrt(X.shape[1])
            plane = ((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)) @ slopes
            yield best_of_bag(task.bags, -task.errors(plane))

    def step(self, task: Task, predictions, weights, last) -> Step:
        errors = task.errors(predictions)
        objective = task.share @ segment_min(errors, task.bags.offsets)
        return Step(float(objective), best_of_bag(task.bags, -errors))


class Pruning(BaseEstimator):
    """Weighting that drops in each round the instances predicted farthest from the median of their bag.

    In each round the largest bag keeps n ← ⌊(1 - rate) n⌋ instances, and each other bag the same fraction of its
    instances, at least one. The objective is the mean squared error of the medians of the remaining instances; when it
    no longer falls, the loop ends and goes back one round. The remaining instances of a bag have equal weights, as the
    resampling of the "balanced" version has on average.

    Parameters
    ----------
    rate : float, default=0.05
        The share of the largest bag that is dropped in a round, between 0 and 1.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.regressors import Reweighting, Pruning
    >>> bags, y = bw.datasets.make_problem("prime", 40)
    >>> Reweighting(weighting=Pruning(rate=0.1)).fit(bags, y).predict(bags).shape
    (40,)
    """

    soft = True

    def __init__(self, *, rate: float = 0.05):
        self.rate = rate

    def starts(self, task: Task, random: np.random.Generator):
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"rate must lie between 0 and 1, not {self.rate!r}")
        yield task.bags.shares()

    def step(self, task: Task, predictions, weights, last) -> Step:
        remaining = weights > 0
        counts = segment_sum(remaining.astype(np.int64), task.bags.offsets)
        medians = segment_median(predictions[remaining], np.concatenate([[0], np.cumsum(counts)]))
        objective = task.share @ (task.y - medians) ** 2
        distance = np.where(remaining, np.abs(predictions - task.bags.expand(medians)), np.inf)
        sizes = task.bags.sizes
        largest = int(np.floor((1.0 - self.rate) * (sizes.max() if last is None else last.largest)))
        near = smallest(task.bags, distance, np.minimum(np.maximum(1, sizes * largest // sizes.max()), counts))
        return Step(float(objective), near / task.bags.expand(segment_sum(near, task.bags.offsets)), largest)


def best_of_bag(bags: Bags, values: np.ndarray) -> np.ndarray:
    """Return weights that are one at the largest value of each bag, shared by ties, and zero elsewhere."""
    best = (values == bags.expand(segment_max(values, bags.offsets))).astype(np.float64)
    return best / bags.expand(segment_sum(best, bags.offsets))


def smallest(bags: Bags, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return 1 for the ``counts`` smallest values of each bag and those that tie with the last, 0 for the rest."""
    ordered = values[np.lexsort((values, bags.expand(np.arange(len(bags)))))]
    limit = ordered[bags.offsets[:-1] + counts - 1]
    return (values <= bags.expand(limit + 1e-9 * np.abs(limit) + 1e-12)).astype(np.float64)


class Mixture(BaseEstimator):
    r"""Mixture over a latent primary instance per bag: p(y_i) = Σ_l π_il N(y_i; f(x_il), s²), fitted by EM.

    E: γ_il = π_il N(y_i; f(x_il), s²) / Σ_m π_im N(y_i; f(x_im), s²).
    M: f by least squares weighted with γ, s² ← Σ_il γ_il (y_i - f(x_il))² / B, the gate by soft cross entropy with γ.
    The objective is minus the mean log likelihood, plus the penalty of the gate. s² → 0 is prime-MIR from its first
    start; s² → ∞ is instance-MIR with weights 1/L_i. The gate, the start (instance-MIR) and the floor are our choices.

    Parameters
    ----------
    mixing : {"uniform", "gated"}, default="uniform"
        π_il = 1/L_i, or the softmax over the bag of a learned score of the instance.
    gate : Gate, default=Gate(8)
        The score, for gated mixing.
    variance : float, optional
        s² in units of the variance of y, held fixed; estimated by default.
    floor : float, default=1e-6
        The least s², in the same units; without it the likelihood of an exact fit is unbounded.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.regressors import Reweighting, Mixture
    >>> bags, y = bw.datasets.make_problem("prime", 40)
    >>> Reweighting(weighting=Mixture()).fit(bags, y).predict(bags).shape
    (40,)
    """

    soft = True

    def __init__(
        self, mixing: str = "uniform", *, gate: Gate | None = None, variance: float | None = None, floor: float = 1e-6
    ):
        self.mixing = mixing
        self.gate = gate
        self.variance = variance
        self.floor = floor

    def starts(self, task: Task, random: np.random.Generator):
        check_options(self, mixing=("uniform", "gated"))
        yield task.bags.shares()

    def step(self, task: Task, predictions, weights, last) -> Step:
        bags, errors = task.bags, task.errors(predictions)
        variance = self.variance or max(self.floor, float(bags.expand(task.share) @ (weights * errors)))
        gate = self._fit_gate(task, weights, last)
        prior = task.bags.shares() if gate is None else gate.probabilities(bags)
        with np.errstate(divide="ignore"):  # a probability can underflow to zero
            joint = np.log(prior) - 0.5 * (errors / variance + np.log(2.0 * np.pi * variance))
        top = segment_max(joint, bags.offsets)
        likelihood = np.exp(joint - bags.expand(top))
        total = segment_sum(likelihood, bags.offsets)
        penalty = 0.0 if gate is None else 0.5 * gate.penalty * float(gate.theta_ @ gate.theta_)
        objective = -task.share @ (top + np.log(total)) + penalty
        return Step(float(objective), likelihood / bags.expand(total), variance=variance, gate=gate)

    def _fit_gate(self, task: Task, weights, last) -> Gate | None:
        if self.mixing == "uniform":
            return None
        gate = clone(self.gate) if self.gate is not None else Gate(8)
        if last is None:
            return gate.begin(task.bags)  # fitting to equal weights would shrink the network to zero
        return gate.fit(task.bags, weights, share=task.share, start=last.gate)


class Reweighting(BagRegressor):
    r"""Regressor on weighted instances, alternating with weighting the instances by its predictions.

    Each instance has the target of its bag, but not every instance is informative. Starting from weights 1/L_i, repeat

        f ← fit on (x_il, y_i) with weights γ_il;    γ ← weighting(f, y)

    until the objective of the weighting falls by less than ``tolerance``; the best f of all rounds and starts is kept.
    The weighting decides the method: `Primary` (prime-MIR), `Pruning` (pruning-MIR), `Mixture` (EM-MIR).

    Each bag counts the same (or by ``sample_weight``), whatever its size. Targets are standardised, so variances,
    tolerances and penalties are in units of the spread of y.

    Parameters
    ----------
    regressor : regressor, default=LinearRegression()
        scikit-learn regressor of instances; without ``sample_weight`` it can be used only with `Primary`.
    weighting : Primary, Pruning or Mixture, default=Mixture()
        How predictions become weights.
    rule : {"median", "mean", "prime"}, default="median"
        How the predictions of a new bag's instances become one. With a gated mixture "mean" and "median" are weighted
        by π, and there is also "prime", f at the largest π.
    rounds : int, default=100
        Maximum number of fits per start.
    tolerance : float, default=1e-6
        Stop when the objective falls by less.
    random_state : int, default=0
        Seed of the starts, and of a regressor that has no seed of its own.

    Attributes
    ----------
    regressor_, weights_ : fitted regressor, ndarray of shape (n_instances,)
        The regressor of standardised targets, and the weights of its fit, which sum to one in each bag.
    objective_ : ndarray
        The objective after each round of the best start; the last may be worse, and its fit is then not used.
    variance_, gate_ : float, Gate
        s² in units of the variance of y, and the gate, of a mixture; else None.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import Primary, Reweighting
    >>> X = np.random.default_rng(0).normal(size=(60, 4, 2))
    >>> bags, y = bw.from_arrays(list(X)), X[:, 0] @ [1.0, -2.0]  # the first instance makes the target
    >>> model = Reweighting(weighting=Primary(restarts=5)).fit(bags, y)
    >>> float(model.weights_.reshape(60, 4)[:, 0].mean().round(2))
    1.0

    Notes
    -----
    Networks learn in single precision, and rounds amplify rounding: on another kind of CPU, predictions of `em` and
    `pruning` with networks may differ by 0.05 standard deviations of y in the median (80 bags of pixels, compiled
    kernels without AVX), and by 0.6 and 0.2 at most. On the same kind of CPU the same seed gives the same digits.

    References
    ----------
    Ray and Page (2001), Multiple instance regression. Wang, Radosavljevic, Han, Obradovic, Vucetic (2008), Aerosol
    optical depth prediction from satellite observations by multiple instance regression. Wang, Lan, Vucetic (2012),
    Mixture model for multiple instance regression and applications in remote sensing.
    """

    def __init__(
        self,
        regressor=None,
        *,
        weighting=None,
        rule: str = "median",
        rounds: int = 100,
        tolerance: float = 1e-6,
        random_state: int = 0,
    ):
        self.regressor = regressor
        self.weighting = weighting
        self.rule = rule
        self.rounds = rounds
        self.tolerance = tolerance
        self.random_state = random_state

    def _fit(self, bags, y, weight) -> None:
        self._check_options()
        task = Task.of(bags, y, weight)
        weighting = clone(self.weighting) if self.weighting is not None else Mixture()
        with one_thread():
            starts = weighting.starts(task, np.random.default_rng(self.random_state))
            runs = [self._run(task, weighting, weights) for weights in starts]
        self.regressor_, self.weights_, best, self.objective_ = min(runs, key=lambda run: run[2].objective)
        self.variance_, self.gate_ = best.variance, best.gate
        self.centre_, self.scale_ = task.centre, task.scale

    def _checked(self, bags) -> Bags:
        return in_double(super()._checked(bags))

    def _predict(self, bags) -> np.ndarray:
        self._check_options()
        predictions = self.predict_instances(bags)
        if self.gate_ is None:
            return (segment_median if self.rule == "median" else segment_mean)(predictions, bags.offsets)
        probability = self.gate_.probabilities(bags)
        if self.rule == "median":
            return segment_weighted_median(predictions, probability, bags.offsets)
        if self.rule == "prime":
            probability = best_of_bag(bags, probability)
        return segment_sum(probability * predictions, bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """Return f of each instance, in units of y."""
        predictions = self.regressor_.predict(self._checked(bags).instances)
        return self.centre_ + self.scale_ * np.asarray(predictions, dtype=np.float64)

    def instance_weights(self, bags) -> np.ndarray:
        """Return π of each instance if there is a gate, otherwise its weight in the prediction of its bag."""
        bags = self._checked(bags)
        if self.gate_ is not None:
            return self.gate_.probabilities(bags)
        if self.rule == "mean":
            return bags.shares()
        return segment_median_shares(self.predict_instances(bags), bags.shares(), bags.offsets)

    def _check_options(self) -> None:
        check_options(self, rule=("median", "mean", "prime"))
        if self.rule == "prime" and getattr(self.weighting, "mixing", None) != "gated":
            raise ValueError(
                "rule='prime' needs a weighting that says which instance of a new bag is the primary one: "
                "use weighting=Mixture('gated'), or rule='median' or 'mean'"
            )
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {self.rounds!r}")

    def _run(self, task: Task, weighting, weights) -> tuple:
        """Iterate from one start; return regressor, weights and step of the best round, and the objective per round."""
        unfitted = LinearRegression() if self.regressor is None else self.regressor
        best, step, path = None, None, []
        while len(path) < self.rounds:
            regressor = task.fit(unfitted, weights, soft=weighting.soft, random_state=self.random_state)
            step = weighting.step(task, np.asarray(regressor.predict(task.bags.instances)), weights, step)
            path.append(step.objective)
            decrease = np.inf if best is None else best[2].objective - step.objective
            if decrease > 0:
                best = regressor, weights, step
            if decrease <= self.tolerance:
                break
            weights = step.weights
        return *best, np.array(path)
