"""What would help, more bags or more instances: one member fitted again to half of either.

Every member on the same folds of bags: held-out predictions, fold models, seconds; or why there are none.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.utils.validation import has_fit_parameter

from bagwise.auto.blend import blend_weights
from bagwise.auto.members import Member
from bagwise.auto.preparation import thin
from bagwise.bags import Bags, bag_folds
from bagwise.execution.threads import one_thread

PROBE = 8  # one bag in so many is fitted to guess how long a member takes
FEWEST = 16  # bags to judge anything by
CLEARLY = 2.0  # standard errors
BEYOND = 0.1  # predictions stay within the range of the training targets, widened by this share of it


@dataclass
class Trial:
    """What became of a member. One that was "skipped", "failed" or "dropped" has a reason; else all is filled in."""

    member: Member
    status: str = "tried"
    why: str = ""
    held_out: np.ndarray | None = None
    models: list = field(default_factory=list)
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        return self.held_out is not None


class Clock:
    """How long it has been, and how much of the budget is left."""

    def __init__(self, budget: float | None):
        self.budget, self.started = budget, time.perf_counter()

    @property
    def passed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        return np.inf if self.budget is None else self.budget - self.passed


@dataclass(frozen=True)
class Screen:
    """The data, their folds, and who may work at once: `try_member` fits a member without each fold in turn."""

    bags: Bags
    y: np.ndarray
    fold: np.ndarray
    sample_weight: np.ndarray | None
    random_state: int
    n_jobs: int | None
    clock: Clock

    @property
    def counted(self) -> np.ndarray:
        """Which bags count: those of weight zero have no say in anything."""
        return np.ones(len(self.y), dtype=bool) if self.sample_weight is None else self.sample_weight > 0

    @property
    def weight(self) -> np.ndarray:
        """The weights of the bags that count; their mean is one."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight[self.counted]

    def limits(self, without: int | None = None) -> tuple[float, float]:
        """The range of the targets (without those of a fold), a little widened: what lies far beyond is a model gone
        astray on an odd bag."""
        y = self.y[self.counted & (self.fold != without)]
        beyond = BEYOND * np.ptp(y)
        return float(y.min() - beyond), float(y.max() + beyond)

    def loss(self, predictions: np.ndarray) -> np.ndarray:
        """Squared errors of the bags that count, times their weights."""
        return ((predictions - self.y) ** 2)[self.counted] * self.weight

    def try_member(self, member: Member, rivals: Sequence[Trial] = ()) -> Trial:
        """Held-out predictions of a member; or the reason why there are none. A member that fails spoils nothing."""
        started = time.perf_counter()
        trial = Trial(member)
        try:
            trial.status, trial.why = self._cross_fit(trial, [rival for rival in rivals if rival.done])
        except ConnectionError:  # a cluster is gone, for which no member is to blame
            raise
        except Exception as error:  # whatever it is, the others go on
            trial.status, trial.why = "failed", _first_line(error)
        trial.seconds = time.perf_counter() - started
        return trial

    def fit_whole(self, members: Sequence[Member]) -> list:
        """The members fitted to all bags."""
        data = self.bags, self.y, self.sample_weight, self.random_state
        return Parallel(n_jobs=self.n_jobs)(delayed(fit_member)(member, *data) for member in members)

    def _cross_fit(self, trial: Trial, rivals: list[Trial]) -> tuple[str, str]:
        """Fill in the trial, and say what became of it. The first fold tells if a costly member is worth the others."""
        if why := self._too_long(trial.member):
            return "skipped", why
        first = self._fits(trial.member, [0]) if trial.member.costly else []
        if first and rivals and (why := self._hopeless(first[0][1], rivals)):
            return "dropped", why
        fits = first + self._fits(trial.member, range(len(first), self.fold.max() + 1))
        trial.held_out, trial.models = np.empty(len(self.y)), [model for model, _ in fits]
        for k, (_, predictions) in enumerate(fits):
            trial.held_out[self.fold == k] = predictions
        return "tried", ""

    def _fits(self, member: Member, folds) -> list[tuple]:
        data = self.bags, self.y, self.fold
        options = self.sample_weight, self.random_state
        fits = Parallel(n_jobs=self.n_jobs)(delayed(fit_without)(member, *data, k, *options) for k in folds)
        if not all(np.isfinite(predictions).all() for _, predictions in fits):
            raise ValueError("a prediction is not finite")
        return [(model, np.clip(found, *self.limits(without=k))) for k, (model, found) in zip(folds, fits, strict=True)]

    def _hopeless(self, predictions: np.ndarray, rivals: list[Trial]) -> str:
        """Why not to go on after the first fold; empty if the member may be of use.

        It is not if its error is clearly above that of the best rival, paired by bag, and if a blend would not want it
        even on this fold, with weights learned there.
        """
        own = self.fold == 0
        at, counted = own & self.counted, self.counted[own]
        Z = np.column_stack([*(rival.held_out[at] for rival in rivals), predictions[counted]])
        weight = np.ones(len(Z)) if self.sample_weight is None else self.sample_weight[at]
        loss = weight[:, None] * (Z - self.y[at][:, None]) ** 2 / weight.mean()
        best = int(np.argmin(loss[:, :-1].mean(axis=0)))
        worse = loss[:, -1] - loss[:, best]
        clearly = len(worse) >= FEWEST and worse.mean() > CLEARLY * worse.std() / np.sqrt(len(worse))
        if not clearly or blend_weights(Z, self.y[at], weight)[-1] > 0:
            return ""
        errors = np.sqrt(loss.mean(axis=0))
        return f"no use on the first fold: RMSE {errors[-1]:.4g}, {errors[best]:.4g} for {rivals[best].member.name}"

    def _too_long(self, member: Member) -> str:
        """Why the member does not fit into what is left of the budget; empty if it does."""
        if self.clock.budget is None or member.always:
            return ""
        if self.clock.left <= 0:
            return "no time was left"
        guess = self._guess_seconds(member)
        left = max(self.clock.left, 0.0)
        return f"about {guess:.0f} s, and {left:.0f} s were left" if guess > left else ""

    def _guess_seconds(self, member: Member) -> float:
        """Seconds of all folds, from a fit to a few bags: at least linear in the bags."""
        order = np.argsort(self.fold, kind="stable")  # some bags of every fold, and so of several groups
        some = np.sort(order[:: min(PROBE, max(1, len(order) // FEWEST))])
        started = time.perf_counter()
        weight = None if self.sample_weight is None else self.sample_weight[some]
        with parallel_config(backend="sequential"):  # as in a worker
            fit_member(member, self.bags[some], self.y[some], weight, self.random_state)
        folds = self.fold.max() + 1
        each = (time.perf_counter() - started) * len(order) / len(some) * (1 - 1 / folds)
        return each * folds / min(folds, effective_n_jobs(self.n_jobs))


def fit_without(member: Member, bags: Bags, y, fold, k: int, sample_weight, random_state: int):
    """The member fitted without fold k, and its predictions of that fold."""
    seen = fold != k
    weight = None if sample_weight is None else sample_weight[seen]
    model = fit_member(member, bags[seen], y[seen], weight, random_state)
    with one_thread():
        return model, model.predict(bags[~seen])


def fit_member(member: Member, bags: Bags, y, sample_weight, random_state: int):
    """A fitted model of the member, in one thread: the same numbers in this process and in a worker.

    Bags of weight zero are left out. Warnings are not passed on: what the member is worth is seen on held-out bags.
    """
    model, weights = member.make(random_state), {}
    if sample_weight is not None:
        counted = sample_weight > 0
        bags, y, weights = bags[counted], y[counted], {"sample_weight": sample_weight[counted]}
        _refuse_weights(model.regressor if isinstance(model, TransformedTargetRegressor) else model)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(bags, y, **weights)


def _refuse_weights(model) -> None:
    """A vote hands weights on, though its signature does not say so."""
    if not isinstance(model, VotingRegressor) and not has_fit_parameter(model, "sample_weight"):
        raise ValueError("takes no sample_weight")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


FEWEST_BAGS = 40
SMALL = 0.05  # a rise of the error below which more of the same hardly helps


@dataclass(frozen=True)
class Curve:
    """By how much the error of a member rises, as a share of its error, with half the bags and half the instances."""

    member: str
    rise: dict[str, float]
    se: dict[str, float]

    def says(self) -> str:
        """A sentence for each. What is within two standard errors is called noise.

        Examples
        --------
        >>> Curve("aggregated", {"bags": 0.2}, {"bags": 0.04}).says()
        'More bags would probably help: with half of them the error of aggregated changed by +20 % (± 4 %).'
        """
        return " ".join(self._sentence(what) for what in self.rise)

    def _sentence(self, what: str) -> str:
        rise, se = self.rise[what], self.se[what]
        noun = "bags" if what == "bags" else "instances a bag"
        measured = f"with half of them the error of {self.member} changed by {rise:+.0%} (± {se:.0%})".replace(
            "%", " %"
        )
        if rise > 2 * se:
            return f"More {noun} would probably help: {measured}."
        if rise + 2 * se < SMALL:
            return f"More {noun} would hardly help: {measured}."
        return f"Whether more {noun} would help cannot be told: {measured}, which is within noise."


def learning_curve(screen: Screen, member: Member, held_out: np.ndarray) -> Curve | None:
    """The curve of a member whose held-out predictions with all the data are known; None for too few bags."""
    if len(screen.bags) < FEWEST_BAGS:
        return None
    halves = {"bags": _with_half_the_bags}
    if np.median(screen.bags.sizes) >= 2:
        halves["instances"] = _with_half_the_instances
    whole = screen.loss(held_out)
    level = max(float(whole.mean()), np.finfo(float).tiny)
    rise, se = {}, {}
    for what, halve in halves.items():
        worse = screen.loss(halve(screen, member)) - whole
        # d√m / √m = dm / 2m
        rise[what] = float(np.sqrt(max(level + worse.mean(), 0.0) / level) - 1.0)
        se[what] = float(worse.std() / np.sqrt(len(worse)) / (2 * level))
    return Curve(member.name, rise, se)


def _with_half_the_bags(screen: Screen, member: Member) -> np.ndarray:
    """Every fold predicted by a model of half of the other bags, of every group about half; by a hash of their ids."""
    half = bag_folds(screen.bags._with(groups=None), 2, random_state=screen.random_state) == 0
    return _cross_fit(screen, member, screen.bags, lambda k: (screen.fold != k) & half)


def _with_half_the_instances(screen: Screen, member: Member) -> np.ndarray:
    """Half of every bag, in training and in the bags predicted."""
    sizes = (screen.bags.sizes + 1) // 2
    return _cross_fit(screen, member, thin(screen.bags, sizes, screen.random_state), lambda k: screen.fold != k)


def _cross_fit(screen: Screen, member: Member, bags: Bags, seen_without) -> np.ndarray:
    out = np.empty(len(screen.y))
    for k in range(screen.fold.max() + 1):
        seen, tested = np.flatnonzero(seen_without(k)), np.flatnonzero(screen.fold == k)
        weight = None if screen.sample_weight is None else screen.sample_weight[seen]
        model = fit_member(member, bags[seen], screen.y[seen], weight, screen.random_state)
        out[tested] = model.predict(bags[tested])
    return out
