"""`auto` on a scan: methods of sums compared on the same folds of bags, and a blend of those that earn their place."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bagwise.auto import AutoRegressor
from bagwise.auto.blend import SumBlend, blend_sums
from bagwise.auto.members import MEAN, MeanTarget
from bagwise.auto.preparation import Routing
from bagwise.auto.summary import error_columns
from bagwise.bags.checks import remember_range
from bagwise.bags.validation import Parameter, ParameterError
from bagwise.embeddings.kernel_mean import NarrowKernelError
from bagwise.methods import method
from bagwise.out_of_core.checkpoints import open_work
from bagwise.out_of_core.held_out import ErrorSums, Folds, HeldOut, error_sums, limits_of, merged
from bagwise.out_of_core.passes import Passes, Survey, survey
from bagwise.out_of_core.scan_fit import fit_surveyed, samplings
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.table_scan import Scan

# In order of cost. Together they take less than four times as long as the last one alone.
MEMBERS = ("aggregated", "statistics:moments", "input-kme:fourier", "blr:rows", "instance-kme:ridge")
FOLDS, FEW_FOLDS, MANY_BAGS = 5, 3, 10_000  # as in memory


def fit_auto(
    scan: Scan, *, executor=None, random_state: int = 0, work=None, progress=None
) -> tuple[AutoRegressor, Survey]:
    """`AutoRegressor` fitted to a scan, and what was found of the bags.

    The members are those of the catalogue that are sums, `MEMBERS`, and the mean of the targets. There is one survey
    for all. Every member is fitted once, to all bags, and its heads without each fold give the held-out predictions by
    which members are compared and blended (`HeldOut`).
    """
    if scan.covariates:
        raise ParameterError(
            "bag_features",
            "auto takes no covariates of bags on a scan; make them columns of the instances, or name a method such as "
            "'instance-kme:ridge'",
        )
    if scan.bag_weights is not None:
        raise ParameterError(
            "bag_weights",
            "auto takes no weights of bags on a scan, where every bag counts the same in its errors; leave them out, "
            "or name a method such as 'instance-kme:ridge'",
        )
    if scan.missing == "impute":
        drop = Parameter("missing", "drop-instances")
        other = ", or name a method such as 'instance-kme:ridge'"
        raise ParameterError("missing", "auto cannot impute on a scan; drop such rows with ", drop, other)
    started = time.perf_counter()
    unfitted = {name: method(name, random_state=random_state) for name in MEMBERS}
    kept = open_work(work, scan, {"auto": unfitted})
    with Passes(scan, executor, seed=random_state, work=kept, progress=progress) as passes:
        found = survey(passes, *dict.fromkeys(one for model in unfitted.values() for one in samplings(model)))
        fewer = FEW_FOLDS if found.n_bags >= MANY_BAGS else FOLDS
        folds = Folds(passes, found, max(2, min(fewer, found.n_units)))
        models, rows = {MEAN: _mean(passes, found, folds)}, {MEAN: _row(MEAN)}
        for name, one in unfitted.items():
            begun = time.perf_counter()
            try:
                models[name] = _fit(one, name, passes, found, folds)
                rows[name] = _row(name)
            except NarrowKernelError as error:  # the others go on
                rows[name] = _row(name) | {"status": "failed", "why": str(error)[:120]}
            rows[name] |= {key: time.perf_counter() - begun for key in ("seconds", "fit_seconds")}
        errors = error_sums(passes, [_column(name) for name in models])
    model = _assembled(models, rows, errors, found, folds, random_state)
    model.training_["groups"] = None if scan.groups is None else found.n_units
    model.seconds_ = time.perf_counter() - started
    return model, found


def _column(name: str) -> str:
    return f"held-{name.replace(':', '-')}"


def _fit(model, name: str, passes: Passes, found: Survey, folds: Folds):
    held_out = HeldOut(passes, folds, _column(name))
    fitted = fit_surveyed(model, passes, found, held_out)
    held_out.finish()
    return fitted


def _mean(passes: Passes, found: Survey, folds: Folds) -> MeanTarget:
    passes.by_shard(_keep_means, _column(MEAN), {k: float(own.mean[0]) for k, own in folds.without.items()})
    model = MeanTarget()
    model.mean_ = float(found.y.mean[0])
    found.remember(model)
    return model


def _keep_means(shard: Shard, column: str, means: dict[int, float]) -> None:
    from bagwise.out_of_core.held_out import FOLD

    shard.keep(column, np.array([means[k] for k in range(max(means) + 1)])[shard[FOLD]])


def _row(name: str) -> dict[str, Any]:
    blank = dict.fromkeys(("error", "error_se", "difference", "difference_se"), float("nan"))
    seconds = dict.fromkeys(("seconds", "fit_seconds", "predict_seconds"), 0.0)
    return {"member": name, "status": "tried", "why": "", "weight": 0.0} | blank | seconds


def _assembled(models: dict, rows: dict, errors: dict[int, ErrorSums], found: Survey, folds: Folds, seed: int):
    names, total = list(models), merged(errors.values())
    blended = blend_sums([one.products for one in errors.values()])
    weights = dict(zip(names, blended.weights.tolist(), strict=True))
    model = AutoRegressor(list(MEMBERS), transforms=False, random_state=seed)
    model.weights_ = dict.fromkeys(rows, 0.0) | weights
    model.kind_, model.n_folds_, model.predictor_ = blended.kind, folds.n, "refit"
    model.models_ = {name: [models[name]] for name in names if weights[name] > 0}
    model.fold_models_ = {}
    model.range_, model.routing_, model.imputation_ = limits_of(found.y), Routing(np.empty(0, dtype=np.int64)), None
    model.transform_, model.transforms_, model.curve_ = None, [], None
    features = len(found.names)
    model.training_ = {"bags": found.n_bags, "instances": found.columns.n, "features": features, "groups": None}
    squares, n = np.diag(total.products) / total.n, total.n
    best = int(np.argmin(squares))
    for i, name in enumerate(names):
        rows[name] |= _compared(total, squares, i, best)
        rows[name]["weight"] = weights[name]
        rows[name]["status"] = "blended" if weights[name] > 0 else rows[name]["status"]
    model.trials_ = list(rows.values())
    model.scores_ = _scores(blended, list(errors.values()), squares, names, n)
    found.remember(model)
    remember_range(model, found.low, found.high)
    model.profile_ = found.profile()
    return model


def _compared(total: ErrorSums, squares: np.ndarray, i: int, best: int) -> dict[str, float]:
    """The columns of errors of a member."""
    second = total.squares / total.n
    own = second[i, i] - squares[i] ** 2
    gap = second[i, i] - 2 * second[i, best] + second[best, best] - (squares[i] - squares[best]) ** 2
    se, gap_se = (float(np.sqrt(max(value, 0.0) / total.n)) for value in (own, gap if i != best else 0.0))
    return error_columns(float(squares[i]), se, float(squares[best]), gap_se)


def _scores(blended: SumBlend, errors: list[ErrorSums], squares: np.ndarray, names: list[str], n: int) -> dict:
    """As `auto.summary.scores_of`."""

    def rmse(weights: np.ndarray) -> float:
        loss = sum(w @ one.products @ w for w, one in zip(weights, errors, strict=True))
        return float(np.sqrt(max(loss, 0.0) / n))

    best, error = int(np.argmin(squares)), rmse(blended.without)
    worst = float(np.sqrt(squares[names.index(MEAN)]))
    return {
        "metric": "rmse",
        "error": error,
        "single_error": rmse(blended.single),
        "mean_error": worst,
        "best": names[best],
        "rmse": error,
        "best_rmse": float(np.sqrt(squares[best])),
        "mean_rmse": worst,
        "explained": 1.0 - (error / worst) ** 2 if worst > 0 else 0.0,
    }
