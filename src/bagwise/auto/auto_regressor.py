"""`AutoRegressor`: many methods on the same folds of bags, and a blend of those that lower the held-out error."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bagwise.auto.blend import blend
from bagwise.auto.cross_validation import (
    WHOLE,
    Choice,
    Clock,
    CrossValidation,
    Curve,
    Trial,
    choose_transform,
    learning_curve,
    refit_seconds,
    transformed,
)
from bagwise.auto.members import MEAN, PLANS, Member, count_folds, members_of, plan
from bagwise.auto.preparation import Routing, prepare
from bagwise.auto.summary import held_out_text, leaderboard_of, live_line, paragraph_of, rows_of, scores_of, summary_of
from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.arrays import as_bags
from bagwise.bags.checks import compared, without_equal_weights
from bagwise.bags.folds import Folds, following, split_bags
from bagwise.bags.shared_rows import check_separation
from bagwise.execution.resources import one_thread
from bagwise.io.table_output import Text
from bagwise.metrics import get_metric
from bagwise.regressors.pipeline import FittedDisplay

TRANSFORMED = 2  # members on which a transform of the targets is tried
PREDICTORS = ("refit", "fold-mean")


class AutoRegressor(FittedDisplay, RegressorMixin, BaseEstimator):
    r"""Try a small, diverse set of methods on folds of bags, and blend those that lower the held-out error.

    No single method wins: which one does depends on how the target arises (a mean, a shape, one key instance, noisy
    views of one thing). Every member m is fitted without each fold of bags in turn (groups stay together, in all inner
    loops as well) and predicts the fold it has not seen: a column z_m of held-out predictions. The blend is

        ŷ = Σ_m w_m z_m,   w = argmin ‖y - Z w‖²  over  w ≥ 0, Σ w = 1,

    the mean of the targets being a member, so that its weight is how far the others are shrunk. Members run in order of
    cost. A costly one that the blend of those before it would not want on the first fold is given up there; one that is
    not missed in the blend has no weight. If the blend, decided without the fold it is tried on, does not beat the
    member chosen in the same way, that one is used alone. New bags are predicted by the chosen members, fitted once
    more to all bags.

    Parameters
    ----------
    members : {"auto", "quick", "best", "additive"} or a list
        "auto" chooses by the number of bags, instances and features; "quick" leaves
        networks out; "best" tries more members, each of them on all folds; "additive" only those whose prediction of a
        bag is an exact sum over its instances (no transform of the targets then, and no limit to their range). A list
        has names ("statistics:forest") or pairs (name, unfitted estimator).
    metric : str, default "rmse"
        Name of a metric of `bagwise.evaluation.METRICS` that needs no standard deviations. It decides between the
        blend, the best member and the mean, and orders the table. Weights minimise the absolute errors for "mae" and
        "medae", the squared errors for all others.
    time_budget : float, optional
        Seconds. Two linear models always run; any other member if a fit to a few bags says that it, and a fit to all
        bags of every member that may be chosen, will be done in time. A fit is never cut off. None: all of them, and
        the same seed gives the same model on the same kind of CPU.
    folds : int, "auto", "random", "forward", "given", Validation, or list of (train, test) pairs
        How bags are held out, see `bagwise.Validation`; methods that cross-fit inside follow it. "auto" is what the
        bags declare; without a declaration 5 random folds, 3 from 10,000 bags on, and no more than there are bags
        (groups). With "forward" each window of time is predicted by models of the bags before it; the bags of the first
        window have no held-out prediction, and the others decide on weights and errors.
    repeats : int
        Number of random splits into folds. Weights are decided on the held-out predictions averaged over all
        deals; ``fold_``, ``held_out_`` and the fold models are those of the first.
    predictor : {"refit", "fold-mean"}
        What predicts new bags: the members in the blend, fitted once more to all bags; or the average of their fold
        models, which costs no fit and is a little worse, as each has seen fewer bags. A time budget that is spent makes
        it the latter.
    transforms : bool
        Whether a monotone transform of skewed or bounded targets is tried (and kept only if it helps).
    random_state : int
    n_jobs : int, optional
        Folds fitted at once. The numbers do not depend on it.
    work : str or path, optional
        A folder that keeps every finished fit of a member. A fit that was stopped goes on there and gives the same
        model; a larger ``time_budget`` tries the members that it left out, the seconds used before being counted. A
        folder of other data or of other versions is refused. None: nothing is kept.
    progress : bool
        Whether to show a live line in the terminal: members done, the best so far, seconds used and left, and what runs
        now: a member, the fits to all bags, the learning curve.

    Attributes
    ----------
    weights_ : dict, the weight of every member in the blend, 0 for those that have none
    held_out_ : the prediction of each training bag by models and a blend that were fitted without its fold; NaN for
        bags that no fold holds out (a transform of the targets is chosen once, on all folds)
    fold_ : the fold of each training bag, -1 for bags that no fold holds out
    folds_ : `Folds` with the training bags of each fold, if these are not all other bags
    imputation_ : the fitted imputation, if the training bags declared one or had missing values
    routing_ : which features never vary within a bag, and so went to the head as covariates
    trials_ : list of dict, a row per member: status, errors, paired differences, weight, seconds, or why not; see
        ``leaderboard``
    scores_ : dict, held-out errors of the blend, of the single best member chosen in the same way, and of the mean
    transform_ : name of the transform of the targets, or None
    curve_ : what half the bags and half the instances would cost, or None
    models_ : dict, the fitted models of every member in the blend that predict new bags
    fold_models_ : dict, their models without each fold, for ``predict_folds``

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.auto import AutoRegressor
    >>> bags, y = bw.datasets.make_problem("mean", 60)
    >>> model = AutoRegressor(members=["aggregated", "statistics:forest"], folds=5).fit(bags, y)
    >>> max(model.weights_, key=model.weights_.get)
    'aggregated'
    >>> model.predict(bags[:3]).shape, model.predict_folds(bags[:3]).shape
    ((3,), (5, 3))

    References
    ----------
    Wolpert (1992), Stacked generalization. Breiman (1996), Stacked regressions.
    """

    def __init__(
        self,
        members="auto",
        *,
        metric: str = "rmse",
        time_budget: float | None = None,
        folds="auto",
        repeats: int = 1,
        predictor: str = "refit",
        transforms: bool = True,
        random_state: int = 0,
        n_jobs: int | None = None,
        work=None,
        progress: bool = False,
    ):
        self.members = members
        self.metric = metric
        self.time_budget = time_budget
        self.folds = folds
        self.repeats = repeats
        self.predictor = predictor
        self.transforms = transforms
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.work = work
        self.progress = progress

    def fit(self, bags, y, sample_weight=None) -> AutoRegressor:
        """Fit to bags with one target each; ``sample_weight`` has one entry per bag."""
        self._check_parameters()
        bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
        clock, weight = Clock(self.time_budget), check_weights(sample_weight, bags)
        groups = None if bags.groups is None else len(set(bags.groups.tolist()))
        self.training_ = {
            "bags": len(bags),
            "instances": bags.n_instances,
            "features": bags.n_features,
            "groups": groups,
        }
        remember_columns(self, bags)
        bags = bags._with(missing="impute") if bags.has_missing else bags
        bags = compared(without_equal_weights(bags))
        steps, seen = prepare(bags)
        self.__dict__.pop("imputation_", None)
        self.routing_ = Routing(np.empty(0, dtype=np.int64))
        vars(self).update({f"{name}_": step for name, step in steps})
        bags = following(bags, self.folds)
        splits = self._splits(bags)
        deals = np.array([split.test for split in splits])
        bags = check_separation(bags, deals)
        cv = CrossValidation(
            bags,
            y,
            deals,
            weight,
            self.random_state,
            self.n_jobs,
            clock,
            metric=self.metric,
            race_costly=self.members != "best",
            clipped=self.members != "additive",
            kept=self._kept(bags, y, weight),
            splits=None if splits[0].is_partition else splits,
        )
        self.fold_, self.range_ = cv.fold, cv.limits()
        self.__dict__.pop("folds_", None)
        if not splits[0].is_partition:
            self.folds_ = splits[0]
        cv.start_workers()
        members = plan(seen, self.members) if self._by_plan() else members_of(self.members)
        with live_line(self.progress, len(members), cv) as show:
            trials = self._try(cv, members, show)
            self._blend(trials, cv, show)
            self.curve_ = self._curve(trials, cv, show)
        self.seconds_ = clock.passed
        return self

    def predict(self, bags) -> np.ndarray:
        """Return one prediction per bag."""
        bags = self.prepare(bags)
        return self._blended(self.models_, bags).mean(axis=0)

    def predict_members(self, bags) -> dict[str, np.ndarray]:
        """Return the predictions of each member in the blend by name; ``predict`` is their weighted sum."""
        bags = self.prepare(bags)
        with one_thread():
            return {
                name: np.mean([self._predicted(one, bags) for one in some], axis=0)
                for name, some in self.models_.items()
            }

    def predict_folds(self, bags) -> np.ndarray:
        """Return the predictions of the models fitted without each fold, (folds, bags)."""
        bags = self.prepare(bags)
        if not self.fold_models_:
            if hasattr(self, "n_folds_"):
                raise ValueError("auto fitted from a scan keeps no models of folds; fit it to bags in memory for them")
            raise ValueError(
                "the models without each fold were dropped (forget_folds, fit --no-intervals), and predict_folds "
                "needs them; fit the model again"
            )
        return self._blended(self.fold_models_, bags)

    def forget_folds(self) -> AutoRegressor:
        """Drop the models without each fold, which only intervals need, so that the model file is smaller."""
        check_is_fitted(self)
        self.fold_models_ = {}
        return self

    def summary(self) -> Text:
        """Return a text of the members tried, their errors, the choice, and what would probably help."""
        check_is_fitted(self)
        return Text(summary_of(self))

    def leaderboard(self, bags=None, y=None):
        """Return the members as a data frame, the best first, below the row of the blend.

        Columns: ``member``, ``status``, ``error`` (the metric over all held-out bags, each predicted without its
        fold), ``difference`` to that of the best member and its standard error, ``weight``, ``fit_seconds`` and
        ``predict_seconds`` over all folds, ``why`` (a member was skipped, dropped or failed), ``file_bytes`` (what its
        models take in a model file: 0 without weight, NaN where no file can hold them).

        Parameters
        ----------
        bags, y : optional
            Further bags and their targets. A column ``new_error`` is the error on them, NaN for members that are not in
            the blend and so have no model.

        Returns
        -------
        A data frame of pandas, or of polars, whichever is installed; else a dict of columns.
        """
        check_is_fitted(self)
        if (bags is None) != (y is None):
            raise ValueError("leaderboard needs bags and their targets y together, or neither")
        return leaderboard_of(self, bags, y)

    def _lines(self) -> list[str]:
        blended = sorted(self.weights_.items(), key=lambda one: -one[1])
        members = ", ".join(f"{name} {weight:.2f}" for name, weight in blended if weight > 0)
        return [*super()._lines(), f"Members: {members}; summary() and leaderboard() have them all"]

    def _error_text(self) -> str:
        return held_out_text(self)

    def paragraph(self) -> str:
        """Return one paragraph for the methods section of a paper."""
        check_is_fitted(self)
        return paragraph_of(self)

    # Fitting ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        """Return the state without the folder of finished fits, so that copies do not write to it."""
        return super().__getstate__() | {"work": None}

    def _check_parameters(self) -> None:
        if self.predictor not in PREDICTORS:
            raise ValueError(f"predictor must be 'refit' or 'fold-mean', not {self.predictor!r}")
        get_metric(self.metric, point=True)
        if self.time_budget is not None and not self.time_budget > 0:
            raise ValueError(f"time_budget must be seconds above zero, or None, not {self.time_budget!r}")
        if isinstance(self.repeats, bool) or not isinstance(self.repeats, Integral) or self.repeats < 1:
            raise ValueError(f"repeats must be a whole number above zero, not {self.repeats!r}")

    def _kept(self, bags: Bags, y: np.ndarray, weight: np.ndarray | None):
        """Return the store of finished fits, or None without a work folder."""
        if self.work is None:
            return None
        from bagwise.auto.kept_fits import KeptFits  # model files and fingerprints are imported for it

        return KeptFits(Path(self.work), bags, y, weight, self.random_state)

    def _by_plan(self) -> bool:
        return isinstance(self.members, str) and self.members in PLANS

    def _splits(self, bags: Bags) -> list[Folds]:
        """Return the folds of each repeat; given folds and folds in time do not differ between repeats."""
        plain = bags.validation is None or (bags.validation.scheme, bags.validation.folds) == ("random", "auto")
        automatic = isinstance(self.folds, str) and self.folds in ("auto", "random") and plain
        folds = count_folds(bags) if automatic else self.folds
        # Inside another method's fold, one label may be left of given folds: random folds then.
        inner = bags.fold is not None and len(set(bags.fold.tolist())) < 2
        seeds = range(self.random_state, self.random_state + self.repeats)
        splits = [split_bags(bags, folds, random_state=seed, inner=inner) for seed in seeds]
        return splits[:1] + [split for split in splits[1:] if not np.array_equal(split.test, splits[0].test)]

    def _try(self, cv: CrossValidation, members: list[Member], show) -> list[Trial]:
        """Try each member on the folds, the mean first; try a transform of the targets on the next two."""

        def run(some: list[Member], so_far: list[Trial]) -> list[Trial]:
            trials, racing = list(so_far), [member for member in some if member.costly and cv.race_costly]
            for member in some:
                if member not in racing:
                    show(member.name, trials)
                    trials.append(cv.try_member(member, reserve=refit_seconds(trials)))
            return [*trials, *cv.race(racing, trials, show)]

        trials, rest = run(members[: 1 + TRANSFORMED], []), members[1 + TRANSFORMED :]
        tried = self.transforms and self.members != "additive"
        choice = choose_transform(cv, trials[1:]) if tried else Choice(None, [], trials[1:])
        self.transform_, self.transforms_ = choice.formula, choice.rows
        if choice.formula is not None:
            rest = [transformed(member, choice.formula) for member in rest]
        return run(rest, [trials[0], *choice.trials])

    def _blend(self, trials: list[Trial], cv: CrossValidation, show) -> None:
        """Set the weights, held-out predictions and scores, and keep the models with a weight."""
        done = [trial for trial in trials if trial.done]
        if not done:
            raise ValueError(f"no member could be fitted; {trials[0].member.name} {trials[0].status}: {trials[0].why}")
        averaged, Z = (np.column_stack([getattr(t, what) for t in done]) for what in ("averaged", "held_out"))
        names = [trial.member.name for trial in done]
        at = cv.held_out
        decision = (None if cv.sample_weight is None else cv.sample_weight[at], self.metric, Z[at])
        found = blend(averaged[at], cv.y[at], cv.fold[at], *decision, names.index(MEAN) if MEAN in names else None)
        found = replace(found, held_out=_spread(found.held_out, at), single=_spread(found.single, at))
        self.weights_ = {trial.member.name: 0.0 for trial in trials} | dict(
            zip(names, found.weights.tolist(), strict=True)
        )
        self.held_out_, self.kind_ = found.held_out, found.kind
        self.trials_ = rows_of(trials, self.weights_, cv)
        self.scores_ = scores_of(names, Z, found, cv)
        chosen = [trial for trial in done if self.weights_[trial.member.name] > 0]
        self._keep(chosen, cv, lambda names: show(f"fit to all bags, {names}", trials))

    def _keep(self, chosen: list[Trial], cv: CrossValidation, show) -> None:
        """Keep the models of the members in the blend and fit them to all bags."""
        self.models_ = self.fold_models_ = {trial.member.name: trial.models for trial in chosen}
        members = [trial.member for trial in chosen]
        in_time = refit_seconds(chosen) <= cv.clock.left or cv.has_whole(members)
        self.predictor_ = self.predictor if in_time else "fold-mean"
        if self.predictor_ == "refit":
            show(", ".join(self.models_))
            with cv.at_hand(refit_seconds(chosen)):
                fits = cv.fit_whole(members)
            self.models_ = {trial.member.name: [model] for trial, model in zip(chosen, fits, strict=True)}

    def _curve(self, trials: list[Trial], cv: CrossValidation, show) -> Curve | None:
        """Return the learning curve of the quickest member that explains at least half of what the best does."""
        done = [trial for trial in trials if trial.done]
        mean, best = (fn(cv.loss(t.held_out).mean() for t in done) for fn in (max, min))
        good = [t for t in done if cv.loss(t.held_out).mean() < (mean + best) / 2]
        quickest = min(good, key=lambda trial: trial.seconds, default=None)
        if quickest is None or 2 * WHOLE * quickest.seconds > cv.clock.left:
            return None
        show(f"learning curve of {quickest.member.name}", trials)
        try:
            with cv.at_hand(2 * quickest.seconds):
                return learning_curve(cv, quickest.member, quickest.held_out)
        except Exception:  # half of the bags may be too few for it, and a hint is not worth the fit
            return None

    # Predicting -------------------------------------------------------------------------------------------------

    def prepare(self, bags) -> Bags:
        """Return the bags as the members take them, without instance weights that are equal within each bag.

        Members impute missing values themselves, each as its training bags say.
        """
        if not isinstance(bags, Bags):
            bags = as_bags(bags, missing="keep" if hasattr(self, "imputation_") else "refuse")
        check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return compared(without_equal_weights(bags))

    def _blended(self, models: dict[str, list], bags: Bags) -> np.ndarray:
        """Return the blend of the first models of all members, of the second and so on, (models per member, bags)."""
        with one_thread():
            return sum(
                self.weights_[name] * np.array([self._predicted(one, bags) for one in some])
                for name, some in models.items()
            )

    def _predicted(self, model, bags: Bags) -> np.ndarray:
        return np.clip(model.predict(bags), *self.range_)


def _spread(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the values at the positions of a mask, NaN elsewhere."""
    out = np.full(len(at), np.nan)
    out[at] = values
    return out
