"""Monotone transforms of skewed or bounded targets, kept if they lower held-out errors in the unit of the target."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor

from bagwise.auto.cross_validation import CrossValidation, Trial
from bagwise.auto.members import Member
from bagwise.auto.time_budget import REFIT_FACTOR
from bagwise.regressors.pipeline import tail_limits

SKEWED = 1.0  # skewness above which a transform is tried; an exponential distribution has 2
MARGIN = 0.01  # targets in [0, 1] are moved inwards by this share, because the logit of 0 and of 1 is infinite
SURE = 2.0  # standard errors by which a transform must help
BUDGET_SHARE = 1 / 3  # largest share of the remaining time for a transform
# (forward, inverse) for a target of deviation one
FORMULAS = {
    "log": (np.log, np.exp),
    "logit": (lambda y: logit(MARGIN + (1 - 2 * MARGIN) * y), lambda t: (expit(t) - MARGIN) / (1 - 2 * MARGIN)),
    "asinh": (np.arcsinh, np.sinh),
}


class MonotoneTarget(TransformerMixin, BaseEstimator):
    r"""A monotone function of the target, and its inverse within the limits of the transformed training targets.

    ======  ================================================================================
    log     log(y / c), c the median: for positive targets over orders of magnitude
    asinh   asinh((y - c) / s), median and deviation: a logarithm on either side, for skewed targets of both signs
    logit   log(p / (1 - p)), p = 0.01 + 0.98 y: for targets between 0 and 1
    ======  ================================================================================

    Predictions beyond `tail_limits` of the transformed training targets are moved to the nearest limit: the inverse
    would turn a small excess into a large one.
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
        self.low_, self.high_ = tail_limits(self.transform(y))
        return self

    def transform(self, y) -> np.ndarray:
        return FORMULAS[self.formula][0]((np.asarray(y, dtype=np.float64) - self.centre_) / self.scale_)

    def inverse_transform(self, t) -> np.ndarray:
        return self.centre_ + self.scale_ * FORMULAS[self.formula][1](np.clip(t, self.low_, self.high_))


def worth_trying(y: np.ndarray) -> str | None:
    """Return the transform to try: None for targets that are neither skewed nor within [0, 1]."""
    if np.ptp(y) <= 1e-9 * np.abs(y).max():
        return None
    if y.min() >= 0 and y.max() <= 1 and np.ptp(y) > 0.5:
        return "logit"
    if abs(skew(y)) < SKEWED:
        return None
    return "log" if y.min() > 0 else "asinh"


def transformed(member: Member, formula: str) -> Member:
    """Return the member with estimators that learn a transform of the targets."""

    def learning(make):
        return lambda seed: TransformedTargetRegressor(
            make(seed), transformer=MonotoneTarget(formula), check_inverse=False
        )

    first = None if member.make_first is None else learning(member.make_first)
    return replace(member, make=learning(member.make), make_first=first)


class Choice(NamedTuple):
    """The transform to use and the trials with it, or None and the trials without; a row if one was tried."""

    formula: str | None
    trials: list[Trial]
    row: dict | None = None


def choose_transform(cv: CrossValidation, plain: list[Trial]) -> Choice:
    """Fit a few quick members once more, to transformed targets, on the same folds.

    A transform is used if it lowers the loss of the best of these members, in the unit of the target, by more than
    `SURE` standard errors of the difference, paired by bag. The search stops if it raises the loss of the first member
    by as much. It is not tried if it would take more than a third of the remaining time budget.
    """
    before, formula = _best_losses(plain, cv), worth_trying(cv.y[cv.counted])
    if before is None or formula is None:
        return Choice(None, plain)
    members = [transformed(trial.member, formula) for trial in plain]
    seconds = sum(trial.seconds_of_a_fit * (cv.rounds(trial.fits) + REFIT_FACTOR) for trial in plain)
    why = cv.budget.shortage(seconds, share=BUDGET_SHARE)
    if why and not all(map(cv.is_stored, members)):
        return Choice(None, plain, {"transform": formula, "kept": False, "why": why})
    trials = [cv.try_member(members[0])]
    gain = _gain(_best_losses(plain[:1], cv), _best_losses(trials, cv))
    if gain is None or gain[0] >= -SURE * gain[1]:
        trials += [cv.try_member(member) for member in members[1:]]
        gain = _gain(before, _best_losses(trials, cv))
    if gain is None:
        return Choice(None, plain)
    helps = len(trials) == len(plain) and gain[0] > SURE * gain[1]
    row = {"transform": formula, "gain": gain[0], "se": gain[1], "kept": helps}
    return Choice(formula, trials, row) if helps else Choice(None, plain, row)


def _gain(before: np.ndarray | None, after: np.ndarray | None) -> tuple[float, float] | None:
    """Return the mean relative fall of the losses and its standard error; None if some are unknown."""
    if before is None or after is None:
        return None
    gain = (before - after) / before.mean()
    return float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))


def _best_losses(trials: list[Trial], cv: CrossValidation) -> np.ndarray | None:
    losses = [cv.loss(trial.held_out) for trial in trials if trial.done]
    return min(losses, key=np.mean) if losses else None
