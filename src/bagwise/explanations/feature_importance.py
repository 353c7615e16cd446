"""`importance`: how much worse predictions get when a feature is permuted across bags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from bagwise.bags import Bags, bag_folds, check_bags, check_targets, check_weights
from bagwise.bags.checks import compared
from bagwise.bags.folds import count_units, units_of
from bagwise.bags.segments import segment_cumsum, segment_sum
from bagwise.execution.progress import is_watched, progress_display
from bagwise.explanations.explanation import refuse_several_targets, unwrapped
from bagwise.intervals.calibration import keeps_folds
from bagwise.io.table_output import Table, Text
from bagwise.metrics import get_metric

PARTS = ("whole", "mean", "spread")
FOLDS, MOST_FOLDS = 5, 20  # folds for standard errors if the model has none; largest number of folds of the model
CLEAR, SLIGHT = 2.0, 0.05  # a rise matters above CLEAR standard errors and above this share of the error
PATIENCE = 2.0  # seconds above which a progress bar is shown
VALUES_AT_ONCE = 2**24  # predictions of fold models held at a time
EFFECTS = {  # (mean matters, spread matters) -> text
    (True, True): "its mean and its spread matter",
    (True, False): "its mean matters, its spread does not",
    (False, True): "its spread matters, its mean does not",
    (False, False): "no clear effect",
}


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Table):
    """Permutation importance of features and covariates: how much the error rises.

    Attributes
    ----------
    names : names of the permuted features, covariates and groups of them, the most important first
    rises : dict of part -> array (names, folds)
        Increase of the error (or decrease of the score) in each fold; parts are "whole", "mean" and "spread". NaN
        for the mean and the spread of covariates, which have none.
    rise, error : dict of part -> array (names,), the mean rise over folds and its standard error
    baseline : float, the metric of unchanged bags, the mean over folds
    metric : str
    held_out : bool
        Whether each bag was predicted by a fold model fitted without it. If not, pass bags that are new to the model.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(60, instances=20)
    >>> found = bw.importance(bw.Intervals("aggregated").fit(bags, y), bags, y)
    >>> list(found.table())
    ['feature', 'whole', 'whole_error', 'mean', 'mean_error', 'spread', 'spread_error']
    """

    names: tuple[str, ...]
    rises: dict[str, np.ndarray]
    baseline: float
    metric: str
    held_out: bool

    @property
    def rise(self) -> dict[str, np.ndarray]:
        return {part: values.mean(axis=1) for part, values in self.rises.items()}

    @property
    def error(self) -> dict[str, np.ndarray]:
        return {part: v.std(axis=1, ddof=1) / np.sqrt(v.shape[1]) for part, v in self.rises.items()}

    def as_dict(self) -> dict[str, list]:
        """Return the columns of `table`, a row per feature or group: the rise of each part and its standard error.

        None where there is no such part.
        """
        columns: dict[str, list] = {"feature": list(self.names)}
        for part in self.rises:
            for name, values in ((part, self.rise[part]), (f"{part}_error", self.error[part])):
                columns[name] = [None if np.isnan(value) else float(value) for value in values]
        return columns

    def matters(self, part: str = "whole") -> np.ndarray:
        """Return whether the rise of a part exceeds two standard errors and a twentieth of the error, per name."""
        if part not in self.rises:
            raise ValueError(f"the part {part!r} was not measured; there are {', '.join(map(repr, self.rises))}")
        return self.rise[part] > np.maximum(CLEAR * self.error[part], SLIGHT * self.baseline)

    def summary(self) -> Text:
        """Return a line per important name: how much worse the metric gets, and whether mean and spread matter."""
        how = "bags by models that never saw them"
        how = how if self.held_out else "the bags given, which must be new to the model"
        error = f"{get_metric(self.metric).label} {self.baseline:.4g} (mean over folds)"
        lines, part = [f"{error} on {how}; exchanged between bags, it gets worse by"], next(iter(self.rises))
        for j, name in enumerate(self.names[:10]):
            text = f"  {name}: {self.rise[part][j]:.3g} ± {self.error[part][j]:.2g}"
            if set(PARTS) <= set(self.rises) and not np.isnan(self.rise["mean"][j]):
                text += f" ({EFFECTS[bool(self.matters('mean')[j]), bool(self.matters('spread')[j])]})"
            lines.append(text)
        more = [f"  and {len(self.names) - 10} more"] if len(self.names) > 10 else []
        return Text("\n".join([*lines, *more]))

    def __repr__(self) -> str:
        return self.summary()


def importance(
    model,
    bags,
    y,
    *,
    groups: Mapping[str, Any] | None = None,
    parts=PARTS,
    metric: str = "rmse",
    repeats: int = 5,
    sample_weight=None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Importance:
    r"""Measure how much worse predictions get when a column is permuted across bags.

    The columns of a bag are exchanged for those of another bag, the donor. With x the values
    of a column in the bag, m their mean, x' and m' those of the donor, the parts are

    - ``whole``: x' in place of x. Rows of the donor are assigned to those of the bag at random, in proportion to their
      share in the donor. Columns of one group move together, row by row;
    - ``mean``: x - m + m', the mean alone;
    - ``spread``: x' - m' + m, all but the mean, with m' the mean of the assigned rows, so the bag keeps its mean.

    The importance is the rise of the error, averaged over repeats, in every fold of bags; the mean over folds and its
    standard error are reported. All columns are exchanged with the same donors.

    Parameters
    ----------
    model : fitted bag regressor
        If it stores fold models (`Intervals`, ``auto``) and the number of bags is that of its training bags, the bags
        are assumed to be the training bags in the same order, and each is predicted by the model fitted without its
        fold. Any other model predicts the bags directly; pass bags that are new to it.
    bags, y : Bags and their targets
        Covariates have no spread. Missing values travel with their rows. Donors come from other groups, if there are.
    groups : dict of name -> list of columns, optional
        Columns that are exchanged together, by name (or by position if there are no names). Each other column is
        exchanged separately.
    parts : some of "whole", "mean", "spread"
    metric : str, default "rmse"
        Name of a metric of `bagwise.evaluation.METRICS` that needs no standard deviations.
    repeats : int, number of donors per bag
    sample_weight : one number per bag, optional, for the error
    random_state : int
    n_jobs : int, optional
        Number of processes. The results do not depend on it.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, if it will take more than two seconds.

    Returns
    -------
    Importance

    Notes
    -----
    The cost is that of 1 + columns × parts × repeats predictions of all bags, by all fold models for ``auto`` and for
    jackknife+. Of two columns that carry the same information, a model may rely on either, and each alone looks
    unimportant: exchange them as a group. If columns depend on each other, exchanged bags may be unrealistic.

    References
    ----------
    Breiman (2001), Random forests. Fisher, Rudin, Dominici (2019), All models are wrong, but many are useful.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> means = rng.normal(size=(80, 2))
    >>> bags = bw.from_arrays([m + rng.normal(size=(15, 2)) for m in means], feature_names=["red", "nir"])
    >>> model = bw.Intervals("aggregated").fit(bags, means[:, 1])
    >>> found = bw.importance(model, bags, means[:, 1])
    >>> found.names[0], bool(found.matters("mean")[0]), bool(found.matters("spread")[0])
    ('nir', True, False)
    """
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    if not parts or any(part not in PARTS for part in parts):
        raise ValueError(f"parts must be some of {', '.join(map(repr, PARTS))}, not {list(parts)}")
    parts, judge = tuple(part for part in PARTS if part in parts), get_metric(metric, point=True)
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or repeats < 1:
        raise ValueError(f"repeats must be a whole number above zero, not {repeats!r}")
    refuse_several_targets(model, "importance")
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    y, weight = check_targets(y, bags), check_weights(sample_weight, bags)
    if count_units(bags) < 4:
        raise ValueError(f"{count_units(bags)} bags (groups) cannot be exchanged in folds; importance needs at least 4")
    named = _columns(bags, groups)
    predict, fold, held_out = predictor_of(model, bags)
    if isinstance(predict, FoldPredictor) and (fold < 0).any():  # only bags that some fold holds out
        scored = fold >= 0
        bags, y, fold, weight = bags[scored], y[scored], fold[scored], None if weight is None else weight[scored]
        predict = replace(predict, fold=predict.fold[scored])
    masks = [fold == k for k in np.unique(fold)]
    weights = [None if weight is None else weight[mask] for mask in masks]

    def scores(prediction: np.ndarray) -> np.ndarray:
        """Return the metric in each fold of positive weight."""
        scored = [(mask, w) for mask, w in zip(masks, weights, strict=True) if w is None or w.any()]
        return np.array([judge(y[mask], prediction[mask], weight=w) for mask, w in scored])

    started = perf_counter()
    values = scores(predict(bags))  # by a model that warns of what is odd
    baseline = judge.loss(values)
    seconds = perf_counter() - started
    exchange = Exchange(compared(bags), repeats, random_state)
    # covariates have neither mean nor spread
    pairs = [(name, part) for name, (features, _) in named.items() for part in parts if part == "whole" or features]
    tasks = [(named[name], part, repeat) for name, part in pairs for repeat in range(repeats)]
    watch = is_watched() and len(tasks) * seconds > PATIENCE if progress is None else progress
    losses = []
    with progress_display() if watch else nullcontext() as bar:
        if bar is not None:
            bar.add_task("importance", total=len(tasks))
        jobs = (delayed(_predict_exchanged)(predict, exchange, *task) for task in tasks)
        for prediction in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            losses.append(judge.loss(scores(prediction)) - baseline)
            if bar is not None:
                bar.advance(bar.task_ids[0])
    names, means = list(named), np.reshape(losses, (len(pairs), repeats, -1)).mean(axis=1)
    rises = {part: np.full((len(names), len(baseline)), np.nan) for part in parts}
    for (name, part), rise in zip(pairs, means, strict=True):
        rises[part][names.index(name)] = rise
    order = np.argsort(-rises[parts[0]].mean(axis=1), kind="stable").tolist()
    rises = {part: values[order] for part, values in rises.items()}
    return Importance(tuple(names[j] for j in order), rises, float(values.mean()), metric, held_out)


def _columns(bags: Bags, groups: Mapping[str, Any] | None) -> dict[str, tuple[list[int], list[int]]]:
    """Return the positions of the features and of the covariates that are exchanged together, by name."""
    d, n_covariates = bags.n_features, 0 if bags.covariates is None else bags.covariates.shape[1]
    names = list(bags.feature_names or map(str, range(d)))
    names += list(bags.covariate_names or (str(d + j) for j in range(n_covariates)))
    if groups is not None and not isinstance(groups, Mapping):
        raise TypeError(f"groups must be a dict such as {{'bands': ['red', 'nir']}}, not {type(groups).__name__}")
    columns, grouped = {}, set()
    for group, members in (groups or {}).items():
        members = [members] if isinstance(members, str | int) else list(members)
        unknown = [column for column in members if str(column) not in names]
        if unknown or not members:
            problem = f"the unknown column {unknown[0]!r}" if unknown else "no column"
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"the group {group!r} names {problem}; the columns are {shown}")
        columns[str(group)] = [names.index(str(column)) for column in members]
        grouped |= set(columns[str(group)])
    for j, name in enumerate(names):
        if j not in grouped:
            if name in columns:
                raise ValueError(f"the group {name!r} has the name of a column that is not in it; call it otherwise")
            columns[name] = [j]
    return {name: ([j for j in at if j < d], [j - d for j in at if j >= d]) for name, at in columns.items()}


class Exchange:
    """Donors of each bag, drawn once per repeat; a call returns the bags with some columns of their donors."""

    def __init__(self, bags: Bags, repeats: int, random_state: int):
        self.bags, self.means = bags, known_means(bags)
        rng = np.random.default_rng(random_state)
        self.donors = [draw_donors(units_of(bags), rng) for _ in range(repeats)]
        self.rows = [draw_rows(bags, donors, rng) for donors in self.donors]

    def __call__(self, columns: tuple[list[int], list[int]], part: str, repeat: int) -> Bags:
        bags, donors, rows = self.bags, self.donors[repeat], self.rows[repeat]
        instances, covariates, (features, of_bag) = bags.instances.copy(), bags.covariates, columns
        if part == "mean":
            change = self.means[donors][:, features] - self.means[:, features]
            instances[:, features] += bags.expand(change).astype(instances.dtype)
        else:
            instances[:, features] = bags.instances[rows][:, features]
        if part == "spread":  # use the means of the assigned rows, which differ slightly from those of the donor
            assigned = known_means(bags._with(instances=instances[:, features]))
            instances[:, features] += bags.expand(self.means[:, features] - assigned).astype(instances.dtype)
        if covariates is not None and part != "spread":
            of_donors, covariates = covariates[donors], covariates.copy()
            covariates[:, of_bag] = of_donors[:, of_bag]
        return bags._with(instances=instances, covariates=covariates)


def draw_donors(unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a donor for each bag, each bag once, from another unit unless one unit has more than half of the bags.

    Bags are arranged in a circle, unit by unit in random order. The donor of a bag is the bag that follows at a
    distance equal to the size of the largest unit.
    """
    order = np.lexsort((rng.random(len(unit)), rng.permutation(unit.max() + 1)[unit]))
    donors = np.empty_like(order)
    donors[order] = np.roll(order, -int(np.bincount(unit).max()))
    return donors


def draw_rows(bags: Bags, donors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a row of the donor for each instance, in proportion to its share in the donor.

    The rows of the donor are put in random order on the interval [0, 1], each with a length equal to its share; the
    k-th of the L instances of the bag gets the row at (k + 1/2) / L.
    """
    order = np.lexsort((rng.random(bags.n_instances), bags.expand(np.arange(len(bags)))))
    ends = segment_cumsum(bags.shares()[order], bags.offsets)
    first = bags.expand(bags.offsets[:-1])
    place = (np.arange(bags.n_instances) - first + 0.5) / bags.expand(bags.sizes)
    keys = ends + 2.0 * bags.expand(np.arange(len(bags)))
    nearest = np.searchsorted(keys, place + 2.0 * bags.expand(donors))
    return order[np.clip(nearest, bags.expand(bags.offsets[:-1][donors]), bags.expand(bags.offsets[1:][donors] - 1))]


def known_means(bags: Bags) -> np.ndarray:
    """Return the mean of the known values per column and bag, by shares; NaN where there is none."""
    has_value, shares = ~np.isnan(bags.instances), bags.shares()[:, None]
    total = segment_sum(np.where(has_value, bags.instances, 0.0).astype(np.float64) * shares, bags.offsets)
    counted = segment_sum(has_value * shares, bags.offsets)
    return np.divide(total, counted, out=np.full_like(total, np.nan), where=counted > 0)


@dataclass(frozen=True)
class FoldPredictor:
    """Function that predicts each bag by the fold models fitted without it."""

    source: Any
    fold: np.ndarray

    def __call__(self, bags: Bags) -> np.ndarray:
        if hasattr(self.source, "held_out"):  # each model predicts only its fold
            return np.asarray(self.source.held_out(bags, self.fold), dtype=np.float64)
        step, predictions = max(1, VALUES_AT_ONCE // (int(self.fold.max()) + 1)), []
        for start in range(0, len(bags), step):
            fold = self.fold[start : start + step]
            predictions.append(self.source.predict_folds(bags[start : start + step])[fold, np.arange(len(fold))])
        return np.concatenate(predictions)


def predictor_of(model, bags: Bags) -> tuple[Callable[[Bags], np.ndarray], np.ndarray, bool]:
    """Return a function from bags to predictions, the fold of each bag, and whether predictions are held out."""
    for source in (model, unwrapped(model)):
        left_out, calibrated = getattr(source, "left_out_", None), getattr(source, "calibration_", ())
        fold_models = None
        if left_out is not None and np.array_equal(calibrated, np.arange(len(bags))):
            fold_models = left_out
        elif keeps_folds(source, bags):
            fold_models = source
        if fold_models is not None:
            fold = np.asarray(source.fold_)
            few = fold if fold.max() < MOST_FOLDS else bag_folds(bags, FOLDS)
            return FoldPredictor(fold_models, fold), few, True
    if not hasattr(model, "predict"):
        raise TypeError(f"importance needs a fitted model, not {type(model).__name__}")
    return model.predict, bag_folds(bags, min(FOLDS, count_units(bags))), False


def _predict_exchanged(predict: Callable, exchange: Exchange, columns, part: str, repeat: int) -> np.ndarray:
    return np.asarray(predict(exchange(columns, part, repeat)), dtype=np.float64)
