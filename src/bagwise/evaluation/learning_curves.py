"""Learning curves: the error of a method against the number of bags or of instances per bag, with a power law."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from bagwise.auto.large_data import random_ranks
from bagwise.bags import Bags, check_fit
from bagwise.bags.checks import compared
from bagwise.bags.folds import units_of
from bagwise.bags.validation import one_of
from bagwise.evaluation.evaluation import run_plan
from bagwise.evaluation.plan import Plan, as_entries, in_order, make_plan, on_device
from bagwise.evaluation.results import Results
from bagwise.evaluation.splits import Split, as_seed, make_splits
from bagwise.execution import executor_for
from bagwise.intervals.calibration import gives_std
from bagwise.io.table_output import Table, as_html, as_text, write_table
from bagwise.metrics import LEVEL, Metric, Uncertainty, get_metric
from bagwise.model_files.store import Store

N_SIZES = 6  # default number of sizes
MIN_BAGS, MIN_UNITS = 8, 3  # minimum numbers of bags and groups in the smallest default size
MIN_INSTANCES, MIN_SHARE = 2, 1 / 32  # minimum instances of the median bag, and their share, in the smallest size
MIN_SIZES = 4  # a power law has three parameters
N_DRAWS = 500  # bootstrap samples
EXPONENTS = np.geomspace(0.1, 2.0, 40)
FACTOR_NAMES = {2.0: "Twice", 3.0: "Three times", 4.0: "Four times", 10.0: "Ten times"}


def learning_curve(
    bags,
    y=None,
    method=None,
    *,
    over: str = "bags",
    sizes=None,
    repeats: int = 5,
    folds=5,
    metric: str = "rmse",
    level: float = 0.9,
    out=None,
    n_jobs: int | None = None,
    executor=None,
    device: str | None = None,
    random_state: int = 0,
    name: str = "data",
    origin: dict | None = None,
    progress=None,
    retry_failed: bool = False,
) -> LearningCurve:
    r"""Score a method for increasing numbers of bags (or of instances per bag), and fit a power law to the errors.

    With ``over="bags"``, the method is trained in each fold on random nested subsets of the training bags and scored on
    the same held-out bags. With ``over="instances"``, each training and test bag is reduced to a random share of its
    instances. A power law is then fitted to the mean error per bag e (for the RMSE, the mean squared error):

    .. math:: e(n) = a + b\, n^{-c}, \qquad a, b \ge 0,\; 0.1 \le c \le 2,

    where a is the error that remains with any amount of data. The fit minimises squared relative errors; its
    uncertainty is estimated by a bootstrap over bags (groups) and splits.

    Parameters
    ----------
    bags, y : Bags and one target per bag
        The order (method, bags, y) is also accepted. Groups stay together in subsets of training bags.
    method : name, "name:preset", (label, estimator) or bag regressor
        A method of the catalogue is used with its default settings.
    over : {"bags", "instances"}, default "bags"
        Whether the number of training bags or the number of instances per bag increases.
    sizes : list of at least four numbers, optional
        For "bags", numbers of training bags. Default: six sizes, from an eighth of the training bags of a fold (at
        least 8 bags and three groups) to all of them. For "instances", shares of the instances of each bag. Default:
        six shares, from 1/32 (or the share that leaves two instances of the median bag) to 1.
    repeats, folds, random_state : int, see `make_splits`
        The splits. Each size needs ``repeats * folds`` fits.
    metric : str, default "rmse"
        Name of a metric of `bagwise.evaluation.METRICS` other than "nll".
    level : float, default 0.9
        Level of the intervals of errors and predictions.
    out, n_jobs, executor, device, name, origin, retry_failed
        See `evaluate`.
    progress : bool, function of a `Step`, or None
        Whether to show a progress display; None shows it in a terminal or a notebook.

    Returns
    -------
    LearningCurve

    References
    ----------
    C. Cortes, L. D. Jackel, S. A. Solla, V. Vapnik, J. S. Denker, "Learning curves: asymptotic values and rate of
    convergence", NeurIPS, 1993. T. Viering, M. Loog, "The shape of learning curves: a review", 2023. A. B. Owen, "The
    pigeonhole bootstrap", Annals of Applied Statistics, 2007.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_problem("mean", 120)
    >>> curve = bw.learning_curve(bags, y, "aggregated", repeats=2)
    >>> curve.sentence().startswith("Twice as many bags would lower the RMSE by about")
    True
    """
    bags, y, method = in_order("learning_curve", bags, y, method)
    if y is None or method is None:
        raise TypeError("Bags, targets and a method are required, as in learning_curve(bags, y, 'aggregated').")
    one_of(over, ("bags", "instances"), "over")
    if not np.isfinite(get_metric(metric).best):
        raise ValueError(f"A power law needs a metric with a best value, which {metric} does not have. Use 'crps'.")
    if not 0 < level < 1:
        raise ValueError(f"level must be a number between 0 and 1, not {level!r}")
    bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
    bags, random_state = compared(bags), as_seed(random_state)
    splits = make_splits(bags, repeats=repeats, folds=folds, random_state=random_state)
    if hasattr(method, "fit") and not isinstance(method, type):
        method = [(type(method).__name__, method)]
    entries = as_entries(method, tune=False)
    if len(entries) != 1:
        raise ValueError(f"Got {len(entries)} methods; learning_curve takes one. Call it once per method.")
    entries = [on_device(entries[0], device)]
    estimator = entries[0].make(random_state)
    if get_metric(metric).needs_std and not (gives_std(estimator) or hasattr(estimator, "predict_distribution")):
        raise ValueError(f"The metric {metric} needs a method that predicts standard deviations, such as 'blr'.")
    chosen = _choose_sizes(over, sizes, bags, splits)
    if over == "bags":
        parts, data, target = _parts_of_bags(splits, chosen, units_of(bags), random_state), bags, y
    else:
        data, target = thinned(bags, chosen, random_state), np.tile(y, len(chosen))
        parts = []
        for split in splits:
            for k, share in enumerate(chosen):
                train, test = split.train + k * len(bags), split.test + k * len(bags)
                parts.append(Split(split.repeat, f"{split.fold} of share {share:g}", train, test))
    options = {"metric": metric, "random_state": random_state, "name": name, "origin": origin}
    plan = make_plan(data, target, entries, parts, **options, learning_curve={"over": over, "sizes": chosen})
    if progress is None:
        from bagwise.execution.progress import is_watched

        progress = is_watched()
    results = run_plan(plan, data, target, Store(out), executor or executor_for(n_jobs), progress, retry_failed)
    curve = _curve_of(results, plan, over, chosen, bags, metric, level)
    if out is not None:
        write_table(Path(out) / "learning_curve.csv", curve.as_dict())
    return curve


# Sizes and splits ---------------------------------------------------------------------------------------------------


def _choose_sizes(over: str, sizes, bags: Bags, splits: list[Split]) -> list:
    """Return the sorted numbers of training bags, or shares of the instances of a bag."""
    requested = None if sizes is None else np.ravel(sizes).tolist()
    if over == "bags":
        most, largest_unit = min(len(split.train) for split in splits), int(np.bincount(units_of(bags)).max())
        least = min(max(MIN_BAGS, most // 8, MIN_UNITS * largest_unit), most)
        default = np.unique(np.geomspace(least, most, N_SIZES).round().astype(int)).tolist()
        chosen = default if requested is None else sorted({int(size) for size in requested if size == int(size)})
        is_valid, available = chosen and 2 <= chosen[0] <= chosen[-1] <= most, f"{most} training bags per fold"
        rule = f"different whole numbers from 2 to {most}, the training bags per fold"
    else:
        median = np.median(bags.sizes)
        least = max(MIN_INSTANCES / median, MIN_SHARE)
        shares = np.geomspace(least, 1.0, N_SIZES).tolist() if least < 0.75 else [1.0]
        default = list({int(_n_instances(bags, share).sum()): share for share in shares}.values())
        chosen = default if requested is None else sorted({float(share) for share in requested})
        is_valid, available = chosen and 0 < chosen[0] <= chosen[-1] <= 1, f"bags of {median:g} instances (median)"
        rule = "different shares of a bag's instances, above 0 and up to 1"
    if requested is not None and (not is_valid or len(chosen) != len(requested)):
        raise ValueError(f"sizes over {over} must be {rule}; got {requested}")
    if len(chosen) < MIN_SIZES:
        raise ValueError(f"A power law needs at least {MIN_SIZES} sizes, but {available} give only {len(chosen)}.")
    return chosen


def _parts_of_bags(splits: list[Split], sizes: list[int], unit: np.ndarray, seed: int) -> list[Split]:
    """Return splits whose training sets are nested subsets of each size, made of whole units in random order."""
    parts = []
    for number, split in enumerate(splits):
        rank = np.random.default_rng([seed, number]).permutation(unit.max() + 1)[unit[split.train]]
        order = split.train[np.argsort(rank, kind="stable")]
        ordered_units = unit[order]
        ends = np.flatnonzero(np.append(ordered_units[1:] != ordered_units[:-1], True)) + 1  # end of each unit
        for size in sizes:
            train = np.sort(order[: ends[np.searchsorted(ends, size)]])
            parts.append(Split(split.repeat, f"{split.fold} of {size} bags", train, split.test))
    return parts


def thinned(bags: Bags, shares: list[float], random_state: int) -> Bags:
    """Return a copy of the bags for each share, reduced to this share of the instances; smaller shares are subsets.

    Instances are drawn by a hash of their values, so their order does not matter. Weight zero is dropped first.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.arange(8.0), np.arange(3.0)])
    >>> thinned(bags, [0.25, 1.0], 0).sizes.tolist()
    [2, 1, 8, 3]
    """
    ranks, counts = random_ranks(bags, random_state), [_n_instances(bags, share) for share in shares]
    rows = np.concatenate([np.flatnonzero(ranks < bags.expand(count)) for count in counts])
    repeated = {
        name: None if getattr(bags, name) is None else np.concatenate([getattr(bags, name)] * len(shares))
        for name in ("ids", "groups", "covariates", "time", "fold")
    }
    return bags._with_rows(rows, np.concatenate([[0], np.cumsum(np.concatenate(counts))]), **repeated)


def _n_instances(bags: Bags, share: float) -> np.ndarray:
    return np.ceil(share * bags.sizes - 1e-9).astype(np.int64).clip(1)


# The curve and its power law ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerLaw:
    """Power law e(n) = floor + slope n^-exponent of the mean error per bag; arrays hold one law per bootstrap draw."""

    floor: np.ndarray
    slope: np.ndarray
    exponent: np.ndarray

    def __call__(self, n) -> np.ndarray:
        return self.floor + self.slope * np.asarray(n, dtype=np.float64) ** -self.exponent


def fit_power_law(sizes, errors) -> PowerLaw:
    """Fit a power law to each row of errors (draws, sizes) by least squares of relative errors, with a, b ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = np.array([10, 20, 40, 80, 160])
    >>> law = fit_power_law(sizes, (0.5 + 3.0 / sizes)[None])
    >>> float(law.floor[0].round(1)), float(law(320)[0].round(2))
    (0.5, 0.51)
    """
    sizes, errors = np.asarray(sizes, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    scale = sizes.mean()
    x = (sizes / scale) ** -EXPONENTS[:, None]  # (exponents, sizes)
    w = errors**-2.0  # (draws, sizes)
    total, first, second = w.sum(axis=1), w @ x.T, w @ (x**2).T
    plain, crossed = (w * errors).sum(axis=1), (w * errors) @ x.T
    determinant = total[:, None] * second - first**2
    slope = (total[:, None] * crossed - first * plain[:, None]) / np.maximum(determinant, 1e-300)
    floor = (plain[:, None] - slope * first) / total[:, None]
    # A negative parameter is set to zero, and the other parameter is fitted alone.
    slope, floor = np.where(floor < 0, crossed / second, slope), np.where(floor < 0, 0.0, floor)
    floor, slope = np.where(slope < 0, (plain / total)[:, None], floor), np.where(slope < 0, 0.0, slope)
    gaps = floor[:, :, None] + slope[:, :, None] * x - errors[:, None, :]
    best = (w[:, None, :] * gaps**2).sum(axis=2).argmin(axis=1)
    rows, exponent = np.arange(len(errors)), EXPONENTS[best]
    return PowerLaw(floor[rows, best], slope[rows, best] * scale**exponent, exponent)


@dataclass(frozen=True)
class LearningCurve(Table):
    """Errors at each size, with a power law fitted to them; printed as a table with a conclusion.

    Attributes
    ----------
    over : "bags" or "instances"
    metric : name of the metric of the errors
    level : level of the intervals
    sizes : array, mean number of training bags, or of instances per bag, at each point
    errors : array, the metric at each point
    now : size of the whole data: the number of bags, or the mean number of instances per bag
    law : PowerLaw of the mean error per bag; for the RMSE, of the mean squared error
    draws : PowerLaw of each bootstrap draw
    results : Results of all cells; ``results.failures`` lists the failed ones
    """

    over: str
    metric: str
    level: float
    sizes: np.ndarray
    errors: np.ndarray
    now: float
    law: PowerLaw = field(repr=False)
    draws: PowerLaw = field(repr=False)
    spread: np.ndarray = field(repr=False)  # interval of each error, (sizes, 2)
    results: Results = field(repr=False)

    def predict(self, size: float) -> tuple[float, float, float]:
        """Return the expected metric at a size, and its interval. Extrapolation far beyond the data is unreliable."""
        return self._with_interval(*(_values(law(size), self.metric) for law in (self.law, self.draws)))

    def gain(self, factor: float = 2.0) -> tuple[float, float, float]:
        """Return the relative decrease of the error with ``factor`` times the data, and its interval."""
        if not factor > 0:
            raise ValueError(f"factor must be above 0, not {factor!r}")
        shares = [1 - law(self.now * factor) / law(self.now) for law in (self.law, self.draws)]
        shares = [1 - np.sqrt(1 - share) for share in shares] if get_metric(self.metric).root else shares
        return self._with_interval(*shares)

    def _with_interval(self, value, draws) -> tuple[float, float, float]:
        low, high = np.quantile(draws, [(1 - self.level) / 2, (1 + self.level) / 2])
        return float(np.squeeze(value)), float(low), float(high)

    def sentence(self, factor: float = 2.0) -> str:
        """Return the conclusion, such as "Twice as many bags would lower the RMSE by about 6 % (2 to 9)."."""
        if not factor > 1:
            raise ValueError(f"factor must be above 1 for a sentence about more data, not {factor!r}")
        share, low, high = (100 * value for value in self.gain(factor))
        noun = "bags" if self.over == "bags" else "instances per bag"
        more = f"{FACTOR_NAMES.get(factor, f'{factor:g} times')} as many {noun}"
        metric = get_metric(self.metric)
        name = metric.label if metric.best == 0 else f"distance of the {metric.label} from {metric.best:g}"
        if round(high) <= 0:
            return f"{more} would not lower the {name}, which has stopped falling."
        return f"{more} would lower the {name} by about {share:.0f} % ({low:.0f} to {high:.0f})."

    def as_dict(self) -> dict[str, list]:
        """Return the table as a dict of columns, a row per size: the metric, its interval, and the value of the law."""
        low, high = self.spread.T.tolist()
        columns = {self.over: self.sizes.round(1).tolist(), self.metric: self.errors.tolist()}
        return columns | {"low": low, "high": high, "law": _values(self.law(self.sizes), self.metric).tolist()}

    def notes(self) -> list[str]:
        """Return notes on failed fits and on weak conclusions."""
        caveats, failures = [], self.results.failures
        if failures:
            caveats.append(f"{len(failures)} fits failed and are ignored. The first error: {failures[0][-1]}")
        if np.diff(get_metric(self.metric).loss(self.errors[[0, -1]])) > 0:
            caveats.append("The error does not fall over these sizes. More repeats make the curve less noisy.")
        if self.gain()[2] - self.gain()[1] > 0.2:
            caveats.append("The interval is wide. Use more repeats; if it stays wide, there are too few bags.")
        return caveats

    def _repr_html_(self) -> str:
        return f"{as_html(self.as_dict())}<p>{'<br>'.join(map(escape, [self.sentence(), *self.notes()]))}</p>"

    def __repr__(self) -> str:
        return "\n".join([as_text(self.as_dict()), self.sentence(), *self.notes()])


def _curve_of(
    results: Results, plan: Plan, over: str, requested: list, bags: Bags, metric: str, level: float
) -> LearningCurve:
    """Compute the curve from the finished cells."""
    label, n = results.methods[0], len(bags)
    # By key: with large groups, two sizes may have the same training bags and therefore the same cell.
    finished = {cell["key"]: cell for split in results.splits if (cell := results.cell(label, split))}
    parts, trained = [], [[] for _ in requested]
    for number, planned in enumerate(plan.cells):
        cell, (split, at) = finished.get(planned.key), divmod(number, len(requested))
        if cell is not None:
            trained[at].append(cell["n_train"])
            error = _errors(cell, get_metric(metric))
            place = np.asarray(cell["bags"]) % n if len(error) == len(cell["bags"]) else np.zeros(len(error), dtype=int)
            parts.append((np.full(len(error), at), place, np.full(len(error), split), error))
    if any(not counts for counts in trained):
        first = results.failures[0][-1] if results.failures else "no cell has run"
        raise ValueError(f"{label} has no result at one or more sizes, so no curve can be fitted. First error: {first}")
    at, place, split, error = map(np.concatenate, zip(*parts, strict=True))
    means = mean_errors(at, units_of(bags)[place], split, error)
    mean, draws = means[:1], means[1:]
    if not (mean > 0).all():
        raise ValueError("The method predicts each held-out bag without error, so no power law can be fitted.")
    if over == "bags":
        sizes, now = np.array([np.mean(counts) for counts in trained]), float(n)
    else:
        sizes, now = np.array([_n_instances(bags, share).mean() for share in requested]), float(bags.sizes.mean())
    quantiles = np.quantile(_values(draws, metric), [(1 - level) / 2, (1 + level) / 2], axis=0).T
    laws = fit_power_law(sizes, mean), fit_power_law(sizes, np.maximum(draws, 1e-12 * mean))
    return LearningCurve(over, metric, level, sizes, _values(mean[0], metric), now, *laws, quantiles, results)


def _values(errors, metric: str):
    """Convert mean errors per bag, or distances from the best value, to the metric."""
    measure = get_metric(metric)
    if measure.root:
        return np.sqrt(errors)
    return measure.best - errors if measure.direction == "higher" else errors


def _errors(cell: dict, metric: Metric) -> np.ndarray:
    """Return one error per bag or, for a metric that is not a mean over bags, its distance from the best value."""
    parts = [np.asarray(cell["targets"]), np.asarray(cell["predictions"])]
    if metric.needs_std:
        std, uncertainty = cell["std"], cell["uncertainty"]
        if uncertainty is None and std is None:
            text = f"Fits of small sizes have too few training bags for intervals of level {LEVEL}"
            raise ValueError(f"{text}, so the {metric.label} is missing. Leave out small sizes.")
        parts += [None if std is None else np.asarray(std), uncertainty and Uncertainty.of_lists(uncertainty)]
    if metric.per_bag is not None and metric.best == 0:
        return metric.values(*parts)
    value = metric(*parts)
    return np.zeros(0) if np.isnan(value) else np.array([abs(value - metric.best)])


def mean_errors(at, unit, split, error) -> np.ndarray:
    """Return mean errors (1 + `N_DRAWS`, sizes): of all errors, then of bootstrap samples of units and splits."""
    pairs, pair = np.unique(unit * (split.max() + 1) + split, return_inverse=True)
    unit, split = np.divmod(pairs, split.max() + 1)
    sums, counts = np.zeros((2, len(pairs), at.max() + 1))
    np.add.at(sums, (pair, at), error)
    np.add.at(counts, (pair, at), 1.0)
    means = []
    for seed in (None, *range(N_DRAWS)):
        weights = np.ones(len(pairs))
        if seed is not None:
            rng = np.random.default_rng(seed)
            for codes in (unit, split):
                n = int(codes.max()) + 1
                weights = weights * rng.multinomial(n, np.full(n, 1 / n))[codes]
            weights = weights if weights.any() else np.ones(len(pairs))
        means.append((weights @ sums) / np.maximum(weights @ counts, 1e-300))
    return np.array(means)
