"""`AutoRegressor`: fit several methods on the same folds of bags, and blend those that lower the held-out error."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from numbers import Real
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bagwise.auto.blend import blend
from bagwise.auto.cross_validation import CrossValidation, Trial, refit_seconds
from bagwise.auto.learning_curve import Curve, learning_curve
from bagwise.auto.members import MEAN, PLANS, Member, count_folds, members_of, plan
from bagwise.auto.summary import leaderboard_of, live_line, paragraph_of, rows_of, scores_of, summary_of
from bagwise.auto.target_transforms import Choice, choose_transform, transformed
from bagwise.auto.time_budget import REFIT_FACTOR, TimeBudget
from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.arrays import as_bags
from bagwise.bags.checks import compared, without_equal_weights
from bagwise.bags.folds import Folds, following, split_bags
from bagwise.bags.imputation import Imputation
from bagwise.bags.shared_rows import check_separation
from bagwise.bags.validation import check_options, whole_number
from bagwise.execution.resources import one_thread
from bagwise.io.table_output import Text
from bagwise.metrics import get_metric
from bagwise.regressors.pipeline import BagModel

TRANSFORMED = 2  # members on which a transform of the targets is tried


class AutoRegressor(BagModel, RegressorMixin, BaseEstimator):
    r"""Try a small, diverse set of methods on folds of bags, and blend those that lower the held-out error.

    Each member m is fitted without each fold of bags in turn (groups stay together, in all inner loops as well) and
    predicts that fold, which gives a column z_m of held-out predictions. The blend is

        ŷ = Σ_m w_m z_m,   w = argmin ‖y - Z w‖²  over  w ≥ 0, Σ w = 1,

    where one member is the mean of the targets. Costly members without weight in the best blend of the first fold are
    dropped. A member gets no weight if the held-out error is no larger without it. The blend and the best member are
    compared on predictions of each fold by weights chosen on the other folds; if the blend is not better, the best
    member is used alone.

    Parameters
    ----------
    members : {"auto", "quick", "best", "additive"} or a list, default "auto"
        "auto" chooses by the number of bags, instances and features; "quick" leaves networks out; "best" tries more
        members, each of them on all folds; "additive" only those whose prediction of a bag is an exact sum over its
        instances (then no transform of the targets, and no limit to predictions). A list has names
        ("statistics:forest") or pairs (name, unfitted estimator).
    metric : str, default "rmse"
        Name of a metric of `bagwise.evaluation.METRICS` that needs no standard deviations. It decides between the
        blend, the best member and the mean. Weights minimise absolute errors for "mae" and "medae", else squared ones.
    time_budget : float, optional
        Time limit of `fit`, in seconds. Two linear models always run. Any other member runs if a fit on a few bags, or
        its first fold, shows that all its fits will finish in time. A running fit is never stopped. None: no limit.
    folds : int, "auto", "random", "forward", "given", Validation, or list of (train, test) pairs
        How bags are held out, see `bagwise.Validation`; methods that cross-fit inside follow it. "auto" is what the
        bags declare, else 5 random folds, 3 from 10,000 bags on. With "forward", bags of the first window of time have
        no held-out prediction.
    repeats : int, default 1
        Number of random splits into folds, over which held-out predictions are averaged before weights are decided.
        ``fold_``, ``held_out_`` and the fold models are those of the first.
    predictor : {"refit", "fold-mean"}, default "refit"
        How new bags are predicted: by the chosen members, fitted once more on all bags, or by the average of their fold
        models, which needs no further fit and is slightly worse. If the time budget is spent, "fold-mean" is used.
    transforms : bool, default True
        Whether to try a monotone transform of skewed or bounded targets (used only if it helps).
    random_state : int, default 0
        The same seed gives the same model on the same kind of CPU, unless a time budget stops the search.
    n_jobs : int, optional
        Number of folds fitted at a time. Predictions do not depend on it.
    work : str or path, optional
        A folder that stores each finished fit of a member. An interrupted fit continues from it and gives the same
        model; with a larger ``time_budget``, skipped members are tried. The time of earlier runs counts towards the
        budget. A folder of other data or other versions raises an error.
    progress : bool, default False
        Whether to show a progress line: finished members, the best so far, seconds, and the current step.

    Attributes
    ----------
    weights_ : dict, the weight of each member in the blend
    held_out_ : the prediction of each training bag by models and a blend that were fitted without its fold; NaN for
        bags that no fold holds out (a transform of the targets is chosen once, on all folds)
    fold_ : the fold of each training bag, -1 for bags that no fold holds out
    folds_ : `Folds` with the training bags of each fold, if these are not all other bags
    imputation_ : the fitted imputation, if the training bags declared one or had missing values
    trials_ : list of dict, a row per member, as in ``leaderboard``
    scores_ : dict, held-out errors of the blend, of the single best member chosen in the same way, and of the mean
    transform_ : name of the transform of the targets, or None
    curve_ : the rise of the error with half the bags and with half the instances, or None
    models_, fold_models_ : dicts, the fitted models of each member of the blend that predict new bags, and those
        without each fold; the latter is empty in a model loaded from a file, unless it is inside `Intervals`

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
        budget = TimeBudget(self.time_budget)
        bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
        weight = check_weights(sample_weight, bags)
        groups = None if bags.groups is None else len(set(bags.groups.tolist()))
        size = {"bags": len(bags), "instances": bags.n_instances, "features": bags.n_features}
        self.training_ = size | {"groups": groups}
        remember_columns(self, bags)
        bags = bags._with(missing="impute") if bags.has_missing else bags
        bags = compared(without_equal_weights(bags))
        for name in ("imputation_", "folds_"):
            vars(self).pop(name, None)
        if bags.missing == "impute":
            self.imputation_ = Imputation().fit(bags)
        bags = following(bags, self.folds)
        splits = self._splits(bags)
        bags = check_separation(bags, np.array([split.test for split in splits]))
        if not splits[0].is_partition:
            self.folds_ = splits[0]
        stored = None
        if self.work is not None:
            from bagwise.auto.stored_fits import StoredFits  # here, for it imports model files

            stored = StoredFits(Path(self.work), bags, y, weight, self.random_state)
        cv = CrossValidation(
            bags,
            y,
            splits,
            weight,
            self.random_state,
            self.n_jobs,
            budget,
            metric=self.metric,
            race_costly=self.members != "best",
            limited=self.members != "additive",
            stored=stored,
        )
        cv.start_workers()
        by_plan = isinstance(self.members, str) and self.members in PLANS
        members = plan(bags, self.members) if by_plan else members_of(self.members)
        with live_line(self.progress, len(members), cv) as show:
            trials = self._try(cv, members, show)
            self._blend(trials, cv, show)
            self.curve_ = self._curve(trials, cv, show)
        self.seconds_ = budget.elapsed
        return self

    def predict(self, bags) -> np.ndarray:
        """Return one prediction per bag."""
        parts = self.predict_members(bags)
        return sum(self.weights_[name] * part for name, part in parts.items())

    def predict_members(self, bags) -> dict[str, np.ndarray]:
        """Return the predictions of each member in the blend by name; ``predict`` is their weighted sum."""
        bags = self.prepare(bags)
        with one_thread():
            return {
                name: np.mean([np.clip(model.predict(bags), *self.range_) for model in models], axis=0)
                for name, models in self.models_.items()
            }

    def predict_folds(self, bags) -> np.ndarray:
        """Return the predictions of the models fitted without each fold, (folds, bags)."""
        return np.stack([model.predict(bags) for model in self.split_folds()])

    def split_folds(self) -> list[AutoRegressor]:
        """Return one model per fold, which predicts by the members fitted without it."""
        check_is_fitted(self)
        if not self.fold_models_:
            raise ValueError(
                "this model has no models without each fold: a file does not hold them, unless Intervals need them; "
                "fit the model again, or save Intervals around it"
            )
        folds = []
        for limits, *models in zip(self.fold_ranges_, *self.fold_models_.values(), strict=True):
            fold = copy(self)
            fold.range_ = limits
            fold.models_ = {name: [model] for name, model in zip(self.fold_models_, models, strict=True)}
            fold.fold_models_ = {}
            folds.append(fold)
        return folds

    def state_for_file(self) -> dict:
        """Return the state that a model file holds, without the models of folds, so that the file is small."""
        return self.__getstate__() | {"fold_models_": {}}

    def summary(self) -> Text:
        """Return a text of the members tried, their errors, the choice, and what would probably help."""
        check_is_fitted(self)
        return Text(summary_of(self))

    def leaderboard(self, bags=None, y=None):
        """Return the members as a data frame (of pandas, else polars, else a dict), best first, below the blend.

        Parameters
        ----------
        bags, y : optional
            Further bags and their targets (a pandas Series is aligned by bag id), for the column ``new_error``: NaN for
            members that are not in the blend.

        Returns
        -------
        Columns ``member``, ``status``, ``error`` (the metric over all held-out bags, each predicted without its fold),
        ``difference`` to that of the best member and its standard error, ``weight``, ``fit_seconds`` and
        ``predict_seconds`` over all folds, ``why`` (a member was skipped, dropped or failed), ``file_bytes`` (the size
        of its models in a model file: 0 without weight, NaN where no file can hold them).
        """
        check_is_fitted(self)
        if (bags is None) != (y is None):
            raise ValueError("leaderboard needs bags and their targets y together, or neither")
        return leaderboard_of(self, bags, y)

    def _lines(self) -> list[str]:
        weights = sorted(self.weights_.items(), key=lambda pair: -pair[1])
        members = ", ".join(f"{name} {weight:.2f}" for name, weight in weights if weight > 0)
        return [*super()._lines(), f"Members: {members}; summary() and leaderboard() have them all"]

    def _error_text(self) -> str:
        error, mean = self.scores_["error"], self.scores_["mean_error"]
        return f"Held-out {get_metric(self.metric).label} {error:.4g} ({mean:.4g} for the mean of the targets)"

    def paragraph(self) -> str:
        """Return one paragraph for the methods section of a paper."""
        check_is_fitted(self)
        return paragraph_of(self)

    # Fitting ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        """Return the state without the folder of finished fits, so that copies do not write to it."""
        return super().__getstate__() | {"work": None}

    def _check_parameters(self) -> None:
        check_options(self, predictor=("refit", "fold-mean"))
        get_metric(self.metric, point=True)
        seconds = self.time_budget
        if seconds is not None and not (isinstance(seconds, Real) and seconds > 0):
            raise ValueError(f"time_budget must be seconds above zero, or None, not {self.time_budget!r}")
        whole_number(self.repeats, "repeats")

    def _splits(self, bags: Bags) -> list[Folds]:
        """Return the folds of each repeat; given folds and folds in time do not differ between repeats."""
        plain = bags.validation is None or (bags.validation.scheme, bags.validation.folds) == ("random", "auto")
        automatic = isinstance(self.folds, str) and self.folds in ("auto", "random") and plain
        folds = count_folds(bags) if automatic else self.folds
        # Use random folds if given folds have a single label, which happens inside a fold of another method.
        inner = bags.fold is not None and len(set(bags.fold.tolist())) < 2
        seeds = range(self.random_state, self.random_state + self.repeats)
        splits = [split_bags(bags, folds, random_state=seed, inner=inner) for seed in seeds]
        return splits[:1] + [split for split in splits[1:] if not np.array_equal(split.test, splits[0].test)]

    def _try(self, cv: CrossValidation, members: list[Member], show) -> list[Trial]:
        """Try each member on the folds, the mean first; try a transform of the targets on the next two."""

        def run(candidates: list[Member], trials: list[Trial]) -> list[Trial]:
            racing = [member for member in candidates if member.costly and cv.race_costly]
            for member in candidates:
                if member not in racing:
                    show(member.name, trials)
                    trials = [*trials, cv.try_member(member, reserve=refit_seconds(trials))]
            return [*trials, *cv.race(racing, trials, show)]

        trials, later = run(members[: 1 + TRANSFORMED], []), members[1 + TRANSFORMED :]
        transforms = self.transforms and self.members != "additive"
        choice = choose_transform(cv, trials[1:]) if transforms else Choice(None, trials[1:])
        self.transform_, self.transforms_ = choice.formula, [choice.row] if choice.row else []
        if choice.formula is not None:
            later = [transformed(member, choice.formula) for member in later]
        return run(later, [trials[0], *choice.trials])

    def _blend(self, trials: list[Trial], cv: CrossValidation, show) -> None:
        """Set the weights, held-out predictions, scores and models."""
        done = [trial for trial in trials if trial.done]
        if not done:
            raise ValueError(f"no member could be fitted; {trials[0].member.name} {trials[0].status}: {trials[0].why}")
        averaged, Z = (np.column_stack([getattr(trial, part) for trial in done]) for part in ("averaged", "held_out"))
        names = [trial.member.name for trial in done]
        at = cv.held_out
        weight = None if cv.sample_weight is None else cv.sample_weight[at]
        mean = names.index(MEAN) if MEAN in names else None
        result = blend(averaged[at], cv.y[at], cv.fold[at], weight, self.metric, Z[at], mean)
        result = replace(result, held_out=_spread(result.held_out, at), single=_spread(result.single, at))
        weights = dict(zip(names, result.weights.tolist(), strict=True))
        self.weights_ = {trial.member.name: weights.get(trial.member.name, 0.0) for trial in trials}
        self.fold_, self.range_ = cv.fold, cv.limits()
        self.fold_ranges_ = [cv.limits(cv.fold_masks(0, k)[0]) for k in range(cv.n_folds)]
        self.held_out_, self.kind_ = result.held_out, result.kind
        self.trials_ = rows_of(trials, self.weights_, cv)
        self.scores_ = scores_of(names, Z, result, cv)
        chosen = [trial for trial in done if self.weights_[trial.member.name] > 0]
        members = [trial.member for trial in chosen]
        self.models_ = self.fold_models_ = {trial.member.name: trial.models for trial in chosen}
        in_time = refit_seconds(chosen) <= cv.budget.remaining or cv.has_whole(members)
        self.predictor_ = self.predictor if in_time else "fold-mean"
        if self.predictor_ == "refit":
            show(f"fit to all bags, {', '.join(self.models_)}", trials)
            self.models_ = dict(zip(self.models_, ([model] for model in cv.fit_whole(members)), strict=True))

    def _curve(self, trials: list[Trial], cv: CrossValidation, show) -> Curve | None:
        """Return the learning curve of the quickest member that explains at least half of what the best does."""
        losses = [(float(cv.loss(trial.held_out).mean()), trial) for trial in trials if trial.done]
        mean, best = losses[0][0], min(loss for loss, _ in losses)  # the first member predicts the mean
        accurate = [trial for loss, trial in losses if loss < (mean + best) / 2]
        quickest = min(accurate, key=lambda trial: trial.seconds, default=None)
        if quickest is None or 2 * REFIT_FACTOR * quickest.seconds > cv.budget.remaining:
            return None
        show(f"learning curve of {quickest.member.name}", trials)
        try:
            return learning_curve(cv, quickest.member, quickest.held_out)
        except Exception:  # half of the bags may be too few for this member; skip the curve then
            return None

    # Predicting -------------------------------------------------------------------------------------------------

    def prepare(self, bags) -> Bags:
        """Return the bags as the members take them, without instance weights that are equal within each bag.

        Members impute missing values themselves, as declared by their training bags.
        """
        if not isinstance(bags, Bags):
            bags = as_bags(bags, missing="keep" if hasattr(self, "imputation_") else "refuse")
        check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return compared(without_equal_weights(bags))


def _spread(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the values at the positions of a mask, NaN elsewhere."""
    out = np.full(len(at), np.nan)
    out[at] = values
    return out
