"""Monotone transforms of skewed or bounded targets: tried where they might help, kept where they do on folds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor

from bagwise.auto.cross_validation import CrossValidation, Trial
from bagwise.auto.members import Member

SKEWED = 1.0  # a skewness from which a transform is tried; that of an exponential distribution is 2
SURE = 2.0  # standard errors by which it must help
MARGIN = 0.01  # targets in [0, 1] are drawn in by so much: the logit of 0 and of 1 is infinite
# (there, back) of a target of deviation one
FORMULAS = {
    "log": (np.log, np.exp),
    "logit": (lambda y: logit(MARGIN + (1 - 2 * MARGIN) * y), lambda t: (expit(t) - MARGIN) / (1 - 2 * MARGIN)),
    "asinh": (np.arcsinh, np.sinh),
}


class MonotoneTarget(TransformerMixin, BaseEstimator):
    r"""A monotone function of the target, and its inverse within the range seen in training.

    ======  ================================================================================
    log     log(y / c), c the median: for positive targets over orders of magnitude
    asinh   asinh((y - c) / s), median and deviation: a logarithm on either side, for skewed targets of both signs
    logit   log(p / (1 - p)), p = 0.01 + 0.98 y: for targets between 0 and 1
    ======  ================================================================================

    What a model predicts beyond the range of the transformed training targets is drawn back to its edge: the inverse
    would turn a small excess into a large one.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[1.0], [10.0], [1000.0]])
    >>> target = MonotoneTarget("log").fit(y)
    >>> target.inverse_transform(target.transform(y)).round(9).ravel().tolist()
    [1.0, 10.0, 1000.0]
    """

    def __init__(self, formula: str = "log"):
        self.formula = formula

    def fit(self, y, _=None) -> MonotoneTarget:
        y = np.asarray(y, dtype=np.float64)
        self.centre_, self.scale_ = 0.0, 1.0
        if self.formula == "log":
            self.scale_ = float(np.median(y))
        elif self.formula == "asinh":
            self.centre_, self.scale_ = float(np.median(y)), float(y.std()) or 1.0
        seen = self.transform(y)
        self.low_, self.high_ = float(seen.min()), float(seen.max())
        return self

    def transform(self, y) -> np.ndarray:
        return FORMULAS[self.formula][0]((np.asarray(y, dtype=np.float64) - self.centre_) / self.scale_)

    def inverse_transform(self, t) -> np.ndarray:
        return self.centre_ + self.scale_ * FORMULAS[self.formula][1](np.clip(t, self.low_, self.high_))


def worth_trying(y: np.ndarray) -> list[str]:
    """The transforms that the targets suggest: none, for targets that are neither skewed nor within [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> normal = np.random.default_rng(0).normal(size=200)
    >>> worth_trying(normal), worth_trying(np.exp(normal)), worth_trying(1 / (1 + np.exp(-normal)))
    ([], ['log'], ['logit'])
    """
    if np.ptp(y) <= 1e-9 * np.abs(y).max():
        return []
    if y.min() >= 0 and y.max() <= 1 and np.ptp(y) > 0.5:
        return ["logit"]
    if abs(skew(y)) < SKEWED:
        return []
    return ["log"] if y.min() > 0 else ["asinh"]


def transformed(member: Member, formula: str) -> Member:
    """The same member, learning a transform of the targets."""

    def learning(make):
        def made(random_state: int):
            target = MonotoneTarget(formula)
            return TransformedTargetRegressor(make(random_state), transformer=target, check_inverse=False)

        return made

    first = None if member.make_first is None else learning(member.make_first)
    return replace(member, make=learning(member.make), make_first=first)


@dataclass(frozen=True)
class Choice:
    """The transform to use (None: none), a row for each that was tried, and the trials with it."""

    formula: str | None
    rows: list[dict]
    trials: list[Trial]


def choose_transform(cv: CrossValidation, plain: list[Trial]) -> Choice:
    """Fit a few quick members once more, to transformed targets, on the same folds.

    A transform is kept if it lowers the squared (absolute) error, in the unit of the target, of the best of them by
    more than `SURE` standard errors of the difference, paired by bag.
    """
    choice, before = Choice(None, [], plain), _best_losses(plain, cv)
    for formula in worth_trying(cv.y[cv.counted]) if before is not None else []:
        trials = [cv.try_member(transformed(trial.member, formula)) for trial in plain]
        after = _best_losses(trials, cv)
        if after is not None:
            gain = (before - after) / before.mean()
            mean, error = float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))
            kept = mean > SURE * error
            rows = [*choice.rows, {"transform": formula, "gain": mean, "se": error, "kept": kept}]
            choice = Choice(formula, rows, trials) if kept else replace(choice, rows=rows)
    return choice


def _best_losses(trials: list[Trial], cv: CrossValidation) -> np.ndarray | None:
    losses = [cv.loss(trial.held_out) for trial in trials if trial.done]
    return min(losses, key=np.mean) if losses else None
