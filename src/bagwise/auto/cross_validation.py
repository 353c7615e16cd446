"""Cross-validation of members on the same folds of bags: held-out predictions, models, seconds; or why there are none.

Members run one after the other, in order of cost. A costly one is fitted without the first fold and goes on only if the
blend of those before it would want it there (`CrossValidation.useless`). A learning curve says what more bags, or more
instances, would bring: one member fitted again to half of either. A transform of the targets is kept if it helps on the
same folds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.utils.validation import has_fit_parameter

from bagwise.auto.blend import losses
from bagwise.auto.members import Member
from bagwise.auto.preparation import MonotoneTarget, thin, worth_trying
from bagwise.bags import Bags, bag_folds
from bagwise.execution.threads import one_thread
from bagwise.regressors.prediction_blend import blend_weights

if TYPE_CHECKING:
    from bagwise.auto.kept_fits import KeptFits

PROBE = 8  # one bag in so many is fitted to guess how long a member takes
FEWEST = 16  # bags to judge anything by
FEWEST_SECONDS = 0.1  # of the budget: with less, not even a fit to a few bags of a costly member is begun
SURE = 2.0  # standard errors by which a transform of the targets must help
BEYOND = 0.1  # predictions stay within the range of the training targets, widened by this share of it


@dataclass
class Trial:
    """What became of a member. One that was "skipped", "failed" or "dropped" has a reason; else all is filled in.

    ``held_out`` are the predictions in the first deal of folds, ``averaged`` their mean over all deals (the same array
    if there is one). Seconds are those of fits and of predictions, without the start of workers.
    """

    member: Member
    status: str = "tried"
    why: str = ""
    held_out: np.ndarray | None = None
    averaged: np.ndarray | None = None
    models: list = field(default_factory=list)
    fits: int = 0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0

    @property
    def done(self) -> bool:
        return self.held_out is not None

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.predict_seconds

    @property
    def seconds_of_a_fit(self) -> float:
        return self.fit_seconds / max(self.fits, 1)


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

    def advance(self, passed: float) -> None:
        """Work that is read and not done again took its time before: the clock shows what it showed then, or more."""
        self.started = min(self.started, time.perf_counter() - passed)


@dataclass(frozen=True)
class CrossValidation:
    """The data, their folds (one row of ``deals`` for each repeat), the metric, and who may work at once."""

    bags: Bags
    y: np.ndarray
    deals: np.ndarray
    sample_weight: np.ndarray | None
    random_state: int
    n_jobs: int | None
    clock: Clock
    metric: str = "rmse"
    race: bool = True
    clipped: bool = True
    kept: KeptFits | None = None

    @property
    def fold(self) -> np.ndarray:
        return self.deals[0]

    @property
    def folds(self) -> int:
        return int(self.fold.max()) + 1

    @property
    def counted(self) -> np.ndarray:
        """Which bags count: those of weight zero have no part in anything."""
        return np.ones(len(self.y), dtype=bool) if self.sample_weight is None else self.sample_weight > 0

    @property
    def weight(self) -> np.ndarray:
        """The weights of the bags that count; their mean is one."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight[self.counted]

    def limits(self, seen: np.ndarray | None = None) -> tuple[float, float]:
        """The range of the targets (of some bags), a little widened: what lies far beyond is a model gone astray."""
        if not self.clipped:
            return -np.inf, np.inf
        y = self.y[self.counted if seen is None else self.counted & seen]
        beyond = BEYOND * np.ptp(y)
        return float(y.min() - beyond), float(y.max() + beyond)

    def loss(self, predictions: np.ndarray) -> np.ndarray:
        """Squared (absolute) errors of the bags that count, times their weights."""
        return losses(predictions, self.y, self.metric)[self.counted] * self.weight

    def error(self, predictions: np.ndarray) -> float:
        """The metric over all bags that count."""
        mean = float(self.loss(predictions).mean())
        return mean if self.metric == "mae" else float(np.sqrt(mean))

    def start_workers(self) -> None:
        """Start the worker processes, which import what they need: no member is charged for that."""
        number = effective_n_jobs(self.n_jobs)
        if number > 1:
            self._parallel(delayed(_ready)(k) for k in range(number))

    def try_member(self, member: Member, rivals: Sequence[Trial] = (), reserve: float = 0.0) -> Trial:
        """Held-out predictions of a member; or the reason why there are none. A member that fails spoils nothing.

        ``reserve`` are seconds of the budget that must be left for the fits of others to all bags.
        """
        trial = Trial(member)
        try:
            trial.status, trial.why = self._cross_fit(trial, [rival for rival in rivals if rival.done], reserve)
        except ConnectionError:  # a cluster is gone, for which no member is to blame
            raise
        except Exception as error:  # whatever it is, the others go on
            trial.status, trial.why = "failed", (str(error).splitlines() or [type(error).__name__])[0][:120]
        return trial

    def fit_whole(self, members: Sequence[Member]) -> list:
        """The members fitted to all bags."""
        none = np.zeros(len(self.y), dtype=bool)
        return [model for model, *_ in self._fits([(member, none, False) for member in members])]

    def _cross_fit(self, trial: Trial, rivals: list[Trial], reserve: float) -> tuple[str, str]:
        """Fill in the trial, and tell what became of it: status and reason."""
        member = trial.member
        if why := self._too_long(member, reserve):
            return "skipped", why
        pairs = [(deal, k) for deal in range(len(self.deals)) for k in range(self.folds)]
        predictions = np.full(self.deals.shape, np.nan)
        if member.costly and self.race and rivals:
            self._fit_pairs(trial, pairs[:1], predictions, first=True)
            if why := self.useless(predictions[0], rivals):
                return "dropped", why
            if member.make_first is None:
                del pairs[0]
                if why := self._too_long(member, reserve, each=trial.seconds, fits=len(pairs) + 1):
                    return "skipped", why
            else:
                trial.models.clear()
        self._fit_pairs(trial, pairs, predictions)
        trial.held_out = predictions[0]
        trial.averaged = predictions.mean(axis=0) if len(predictions) > 1 else predictions[0]
        return "tried", ""

    def _fit_pairs(self, trial: Trial, pairs: list[tuple[int, int]], predictions: np.ndarray, first=False) -> None:
        """Fit without fold k of a deal, for every pair (deal, k), and predict that fold."""
        fits = self._fits([(trial.member, self.deals[deal] == k, first) for deal, k in pairs])
        for (deal, k), (model, found, fit_seconds, predict_seconds) in zip(pairs, fits, strict=True):
            trial.fits, trial.fit_seconds = trial.fits + 1, trial.fit_seconds + fit_seconds
            trial.predict_seconds += predict_seconds
            if not np.isfinite(found).all():
                raise ValueError("a prediction is not finite")
            at = self.deals[deal] == k
            predictions[deal, at] = np.clip(found, *self.limits(~at))
            if deal == 0:  # the models of further deals serve the weights alone
                trial.models.append(model)

    def useless(self, predictions: np.ndarray, rivals: list[Trial]) -> str:
        r"""Why not to go on with a member of which some held-out predictions are known (others NaN), or "".

        Let b be the blend of the rivals, z the member, r = y - b and d = z - b. The blend (1 - a) b + a z has the least
        squared error at a = ⟨r, d⟩ / ⟨d, d⟩, the slope of a regression through zero. The member is wanted if a is
        above zero. To ask for more, such as a standard error, gives up good members: one fold says little of them.
        """
        at = self.counted & np.isfinite(predictions)
        if at.sum() < FEWEST:
            return ""
        Z = np.column_stack([rival.averaged for rival in rivals])
        blended = Z @ blend_weights(Z[self.counted], self.y[self.counted], self.weight, self.metric)
        weight = (
            np.ones(at.sum()) if self.sample_weight is None else self.sample_weight[at] / self.sample_weight[at].mean()
        )
        rest, step = (self.y - blended)[at], (predictions - blended)[at]
        total = (weight * step**2).sum()
        if total > 0:
            slope = (weight * rest * step).sum() / total
            if slope > 0:
                return ""
        own, other = (losses(values, self.y, self.metric)[at] * weight for values in (predictions, blended))
        own, other = (value.mean() if self.metric == "mae" else np.sqrt(value.mean()) for value in (own, other))
        name = self.metric.upper()
        return f"of no use on the first fold: {name} {own:.4g} there, {other:.4g} for the blend of those before it"

    def has_whole(self, members: Sequence[Member]) -> bool:
        """Whether fits of the members to all bags are kept."""
        none = np.zeros(len(self.y), dtype=bool)
        return self.kept is not None and all(self.kept.has(self.kept.key(member, none)) for member in members)

    def _is_kept(self, member: Member, *, begun: bool) -> bool:
        """Whether the first fit of a member is kept, or all of them if it is begun: they were let in before."""
        if self.kept is None:
            return False
        kept, folds = self.kept, [deal == k for deal in self.deals for k in range(self.folds)]
        if begun:
            return all(kept.has(kept.key(member, held_out)) for held_out in folds)
        return any(kept.has(kept.key(member, folds[0], first)) for first in (False, True))

    def _fits(self, tasks: list[tuple[Member, np.ndarray, bool]]) -> list[tuple]:
        """The fit of every (member, bags to leave out, first): those that are kept are read, others run and kept."""
        options = self.sample_weight, self.random_state

        def run(some):
            return self._parallel(
                delayed(fit_without)(member, self.bags, self.y, held_out, *options, first)
                for member, held_out, first in some
            )

        if self.kept is None:
            return run(tasks)
        keys = [self.kept.key(*task) for task in tasks]
        found = {key: fit for key in keys if (fit := self.kept.read_fit(key)) is not None}
        for *_, elapsed in found.values():
            self.clock.advance(elapsed)
        left = [(key, task) for key, task in zip(keys, tasks, strict=True) if key not in found]
        step = effective_n_jobs(self.n_jobs)
        for at in range(0, len(left), step):  # few at a time: whatever is finished is kept
            some = left[at : at + step]
            for (key, _), fit in zip(some, run([task for _, task in some]), strict=True):
                self.kept.write_fit(key, fit, self.clock.passed)
                found[key] = fit
        return [found[key][:4] for key in keys]

    def _parallel(self, tasks) -> list:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="joblib")  # that a worker was replaced, which changes nothing
            return Parallel(n_jobs=self.n_jobs)(tasks)

    def _too_long(self, member: Member, reserve: float, each: float | None = None, fits: int | None = None) -> str:
        """Why the member is not tried: it lacks a package, or does not fit into what is left of the budget.

        ``each`` are the seconds of one fit. If they are not known, a fit to a few bags tells.
        """
        if member.lacks or self.clock.budget is None or member.always or self._is_kept(member, begun=each is not None):
            return member.lacks
        if self.clock.left <= reserve:
            return "no time was left"
        if each is None:
            if member.costly and self.clock.left - reserve <= FEWEST_SECONDS * self.clock.budget:
                return "no time was left to see how long it takes"
            each, fits = self._guess_seconds(member), self.deals.shape[0] * self.folds + 1
        # The last of them is the fit to all bags, for which nobody shares the work.
        guess = each * (np.ceil((fits - 1) / min(self.folds, effective_n_jobs(self.n_jobs))) + 1)
        left = max(self.clock.left - reserve, 0.0)
        return f"about {guess:.0f} s, and {left:.0f} s were left" if guess > left else ""

    def _guess_seconds(self, member: Member) -> float:
        """Seconds of a fit without a fold, from a fit to a few bags: at least linear in the bags."""
        order = np.argsort(self.fold, kind="stable")  # some bags of every fold, and so of several groups
        some = np.sort(order[:: min(PROBE, max(1, len(order) // FEWEST))])
        started = time.perf_counter()
        weight = None if self.sample_weight is None else self.sample_weight[some]
        with parallel_config(backend="sequential"):  # as in a worker
            fit_member(member, self.bags[some], self.y[some], weight, self.random_state)
        return (time.perf_counter() - started) * len(order) / len(some) * (1 - 1 / self.folds)


def fit_without(
    member: Member, bags: Bags, y, held_out: np.ndarray, sample_weight, random_state: int, first=False
) -> tuple:
    """The member fitted without some bags, its predictions of those, and the seconds that either took."""
    started, some = time.perf_counter(), held_out.any()
    if some:
        weight = None if sample_weight is None else sample_weight[~held_out]
        model = fit_member(member, bags[~held_out], y[~held_out], weight, random_state, first=first)
    else:
        model = fit_member(member, bags, y, sample_weight, random_state, first=first)
    fitted = time.perf_counter()
    with one_thread():
        predictions = model.predict(bags[held_out]) if some else np.empty(0)
    return model, predictions, fitted - started, time.perf_counter() - fitted


def fit_member(member: Member, bags: Bags, y, sample_weight, random_state: int, *, first: bool = False):
    """A fitted model of the member, in one thread: the same numbers in this process and in a worker.

    Bags of weight zero are left out. Warnings are not passed on: what the member is worth is seen on held-out bags.
    """
    make = member.make_first if first and member.make_first is not None else member.make
    model, weights = make(random_state), {}
    if sample_weight is not None:
        counted = sample_weight > 0
        bags, y, weights = bags[counted], y[counted], {"sample_weight": sample_weight[counted]}
        _refuse_weights(model.regressor if isinstance(model, TransformedTargetRegressor) else model)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(bags, y, **weights)


def _refuse_weights(model) -> None:
    """A vote hands weights on, though its signature does not tell."""
    if not isinstance(model, VotingRegressor) and not has_fit_parameter(model, "sample_weight"):
        raise ValueError("takes no sample_weight")


def _ready(number: int) -> int:
    """What a worker does first; this module is imported for it."""
    return number


FEWEST_BAGS = 40
SMALL = 0.05  # a rise of the error below which more of the same hardly helps


@dataclass(frozen=True)
class Curve:
    """By how much the error of a member rises, as a share of its error, with half the bags and half the instances."""

    member: str
    rise: dict[str, float]
    se: dict[str, float]

    def sentences(self) -> str:
        """A sentence for each. What is within two standard errors is called noise.

        Examples
        --------
        >>> Curve("aggregated", {"bags": 0.2}, {"bags": 0.04}).sentences()
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


def learning_curve(cv: CrossValidation, member: Member, held_out: np.ndarray) -> Curve | None:
    """The curve of a member whose held-out predictions with all the data are known; None for too few bags."""
    if len(cv.bags) < FEWEST_BAGS:
        return None
    halves = {"bags": _with_half_the_bags}
    if np.median(cv.bags.sizes) >= 2:
        halves["instances"] = _with_half_the_instances
    whole = cv.loss(held_out)
    level = max(float(whole.mean()), np.finfo(float).tiny)
    rise, se = {}, {}
    for what, halve in halves.items():
        worse = cv.loss(halve(cv, member)) - whole
        ratio, error = max(level + worse.mean(), 0.0) / level, worse.std() / np.sqrt(len(worse)) / level
        # d√m / √m = dm / 2m
        rise[what], se[what] = (ratio - 1.0, error) if cv.metric == "mae" else (np.sqrt(ratio) - 1.0, error / 2)
    return Curve(member.name, *({what: float(v) for what, v in part.items()} for part in (rise, se)))


def _with_half_the_bags(cv: CrossValidation, member: Member) -> np.ndarray:
    """Every fold predicted by a model of half of the other bags, of every group about half; by a hash of their ids."""
    half = bag_folds(cv.bags._with(groups=None), 2, random_state=cv.random_state) == 0
    return _cross_fit(cv, member, cv.bags, lambda k: (cv.fold != k) & half)


def _with_half_the_instances(cv: CrossValidation, member: Member) -> np.ndarray:
    """Half of every bag, in training and in the bags predicted."""
    sizes = (cv.bags.sizes + 1) // 2
    return _cross_fit(cv, member, thin(cv.bags, sizes, cv.random_state), lambda k: cv.fold != k)


def _cross_fit(cv: CrossValidation, member: Member, bags: Bags, seen_without) -> np.ndarray:
    out = np.empty(len(cv.y))
    for k in range(cv.fold.max() + 1):
        seen, tested = np.flatnonzero(seen_without(k)), np.flatnonzero(cv.fold == k)
        weight = None if cv.sample_weight is None else cv.sample_weight[seen]
        model = fit_member(member, bags[seen], cv.y[seen], weight, cv.random_state)
        out[tested] = model.predict(bags[tested])
    return out


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
