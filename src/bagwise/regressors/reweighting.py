"""Fit an instance regressor, weigh the instances by its predictions, fit again: prime, pruning and em are one loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression

from bagwise.bags import check_bags, check_fit, remember_columns
from bagwise.bags.segments import segment_max, segment_mean, segment_median, segment_sum
from bagwise.regressors.mixture import Mixture
from bagwise.regressors.task import Task, in_double
from bagwise.regressors.weighted_median import segment_median_shares, segment_weighted_median
from bagwise.regressors.weightings import Step
from bagwise.threads import one_thread

RULES = ("mean", "median", "prime")


def _is_gated(self) -> bool:
    return getattr(self.weighting, "mixing", None) == "gated"


class Reweighting(RegressorMixin, BaseEstimator):
    r"""Alternate between fitting a regressor on weighted instances and weighing the instances by its predictions.

    Every instance carries its bag's target, but not every instance deserves it. From weights 1/L_i,

        f ← fit on (x_il, y_i) with weights γ_il;    γ ← weighting(f, y)

    until the objective of the weighting falls by less than ``tolerance``; the best f of all rounds and starts is kept.
    Which method this is depends on the weighting: `Primary` (prime-MIR), `Pruning` (pruning-MIR), `Mixture` (EM-MIR).

    Every bag counts the same (or by ``sample_weight``), whatever its size. Targets are standardised inside, so
    variances, tolerances and penalties are in units of the spread of y. The regressor is fitted afresh in each round,
    on the instances whose weight is not zero; one that takes no ``sample_weight`` can only select (`Primary`).

    Parameters
    ----------
    regressor : scikit-learn regressor, default LinearRegression
    weighting : Primary, Pruning or Mixture, default Mixture()
    rule : {"median", "mean", "prime"}
        How the predictions of a new bag's instances become one. A gated mixture says which instance of a new bag is
        likely the primary one: there "mean" and "median" are weighted by π, and "prime" is f at the largest π. The
        other weightings do not, and have no "prime".
    rounds : int
        At most so many fits per start.
    tolerance : float
    random_state : int
        For the starts, and for a regressor that has no seed of its own.

    Attributes
    ----------
    regressor_ : fitted, for standardised targets
    weights_ : the weight of every training instance when ``regressor_`` was fitted; they sum to one in every bag
    objective_ : array, the objective after each round of the best start; the last may be worse, and was not kept
    variance_, gate_ : of a mixture (s² in units of the variance of y), else None

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import Primary, Reweighting
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4, 2))                     # the first instance of every bag makes the target
    >>> bags, y = bw.from_arrays(list(X)), X[:, 0] @ [1.0, -2.0]
    >>> model = Reweighting(weighting=Primary(restarts=5)).fit(bags, y)
    >>> float(model.weights_.reshape(60, 4)[:, 0].mean().round(2))
    1.0

    Notes
    -----
    With a network for the regressor or a gate for the mixture, the fits of a run follow each other, and networks learn
    in single precision: a difference in the last digit of a weight, as between CPUs, may come out in the seventh digit
    of a prediction. The same seed on the same machine gives the same digits.

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

    def fit(self, bags, y, sample_weight=None) -> Reweighting:
        self._check()
        bags, y = check_fit(bags, y)
        task = Task.of(bags, y, sample_weight)
        weighting = clone(self.weighting) if self.weighting is not None else Mixture()
        with one_thread():
            starts = weighting.starts(task, np.random.default_rng(self.random_state))
            runs = [self._run(task, weighting, weights) for weights in starts]
        best, self.objective_ = min(runs, key=lambda run: run[0].step.objective)
        self.regressor_, self.weights_ = best.regressor, best.weights
        self.variance_, self.gate_ = best.step.variance, best.step.gate
        self.centre_, self.scale_ = task.centre, task.scale
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        self._check()
        predictions = self.predict_instances(bags)
        if self.gate_ is None:
            return (segment_median if self.rule == "median" else segment_mean)(predictions, bags.offsets)
        chances = self.gate_.chances(in_double(bags))
        if self.rule == "median":
            return segment_weighted_median(predictions, chances, bags.offsets)
        if self.rule == "prime":
            first = (chances == bags.expand(segment_max(chances, bags.offsets))).astype(np.float64)
            chances = first / bags.expand(segment_sum(first, bags.offsets))  # equal chances share
        return segment_sum(chances * predictions, bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """f of every instance, in units of y."""
        bags = check_bags(bags, fitted=self)
        predictions = self.regressor_.predict(in_double(bags).instances)
        return self.centre_ + self.scale_ * np.asarray(predictions, dtype=np.float64)

    def instance_weights(self, bags) -> np.ndarray:
        """With a gate π, the chance of every instance to be the one its bag's target belongs to.

        Without, the weight it has in the prediction of its bag: that of a mean, or of the middle one or two.
        """
        bags = check_bags(bags, fitted=self)
        if self.gate_ is not None:
            return self.gate_.chances(in_double(bags))
        if self.rule == "mean":
            return bags.shares()
        return segment_median_shares(self.predict_instances(bags), bags.shares(), bags.offsets)

    def _check(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be 'median', 'mean' or 'prime', not {self.rule!r}")
        if self.rule == "prime" and not _is_gated(self):
            raise ValueError(
                "rule='prime' needs a weighting that says which instance of a new bag is the primary one: "
                "use weighting=Mixture('gated'), or rule='median' or 'mean'"
            )
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {self.rounds!r}")

    def _run(self, task: Task, weighting, weights) -> tuple[_Fitted, np.ndarray]:
        """The loop, from one start: the best fit, and the path of the objective."""
        plain = LinearRegression() if self.regressor is None else self.regressor
        best, step, path = None, None, []
        while len(path) < self.rounds:
            regressor = task.fit(plain, weights, soft=weighting.soft, random_state=self.random_state)
            step = weighting.step(task, np.asarray(regressor.predict(task.bags.instances)), weights, step)
            path.append(step.objective)
            fall = np.inf if best is None else best.step.objective - step.objective
            if fall > 0:
                best = _Fitted(regressor, weights, step)
            if fall <= self.tolerance:
                break
            weights = step.weights
        return best, np.array(path)


@dataclass(frozen=True)
class _Fitted:
    regressor: object
    weights: np.ndarray
    step: Step
