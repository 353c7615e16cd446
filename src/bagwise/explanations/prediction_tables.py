"""Predictions, scores and explanations as columns of plain values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.frames import as_list


@dataclass(frozen=True)
class Predicted:
    """Predictions of a model: a table with a row per bag, scores if targets are known, and a table of instances."""

    columns: dict[str, list]
    scores: dict | None = None
    rows: dict[str, list] | None = None


def prediction_table(model, bags, y=None, *, level: float | None = None, quantiles=()) -> dict[str, list]:
    """Return a table of predictions as a dict of columns: ids, predictions, intervals, quantiles and known targets.

    Columns of ids and targets have the names that they have in the user's table. A model of several targets has columns
    for each of them, such as ``yield_prediction``.
    """
    from bagwise.io.table_output import own_name

    if len(quantiles) and hasattr(model, "target_names_"):
        raise ValueError("--quantile needs a model of one target, and this model has several. Fit one for that target.")
    if len(quantiles) and not hasattr(model, "predict_distribution"):
        raise ValueError(
            "The model was fitted without intervals, so it has no quantiles. Fit it without --no-intervals."
        )
    models = by_target(model)
    lists = {f"{prefix}prediction": target_model.predict(bags).tolist() for prefix, target_model in models.items()}
    for prefix, target_model in models.items():
        if no_intervals(target_model, level) is None:
            lower, upper = target_model.predict_interval(bags, level=level).T
            lists |= {f"{prefix}lower": lower.tolist(), f"{prefix}upper": upper.tolist()}
        elif level is not None:
            raise ValueError("The model was fitted without intervals. Fit it again without --no-intervals.")
    if len(quantiles):
        values = model.predict_distribution(bags).quantile(list(quantiles))
        lists |= {f"q{p:g}": column.tolist() for p, column in zip(quantiles, values.T, strict=True)}
    heads = [f"{prefix}{kind}" for prefix in models for kind in ("prediction", "lower", "upper")]
    bag = own_name(bags.id_name, "bag", [*lists, *heads])
    targets: dict[str, list] = {}
    if y is not None:
        columns = np.reshape(y, (len(bags), -1)).T.tolist()
        for name, column in zip(as_list(bags.target_name or ()) or ["target"], columns, strict=True):
            head = own_name(name, "target", [bag, *lists, *targets])
            targets[head] = [None if np.isnan(value) else value for value in column]
    return {bag: list(map(plain, bags.ids))} | lists | targets


def instance_table(model, bags) -> dict[str, np.ndarray]:
    """Return a table of instances as a dict of columns: the contribution of each to the prediction of each target."""
    from bagwise.explanations.explanation import SINGULAR, explain

    if bags.id_name in SINGULAR.values():  # used as a column name by this table
        bags = bags._with(id_name=None)
    rows: dict[str, np.ndarray] = {}
    for prefix, target_model in by_target(model).items():
        columns = explain(target_model, bags).as_dict()
        rows |= {prefix + SINGULAR[name] if name in SINGULAR else name: column for name, column in columns.items()}
    return rows


def prediction_scores(columns: dict, y: np.ndarray, model, names: list[str]) -> dict:
    """Return RMSE and MAE for known targets, and the share of targets inside their intervals (``coverage``).

    For a model of several targets, return the scores of each target in ``names``, whose order is that of ``y``.
    """
    from bagwise.intervals import coverage
    from bagwise.metrics import mae, rmse

    targets = getattr(model, "target_names_", None)
    if targets is None and y.ndim == 2:
        raise ValueError(f"The model has one target, and {y.shape[1]} were given. Name one of them with --target.")
    unknown = [name for name in names if targets is not None and name not in targets]
    if targets is not None and unknown:
        raise ValueError(f"The model has no target {unknown[0]!r}. Use --target with one of: {', '.join(targets)}")
    errors_by_target, prefixes = {}, [""] if targets is None else [f"{name}_" for name in names or targets]
    for prefix, column in zip(prefixes, np.reshape(y, (len(y), -1)).T, strict=True):
        has_target = ~np.isnan(column)
        target, predicted = column[has_target], np.asarray(columns[f"{prefix}prediction"])[has_target]
        errors = {"rmse": rmse(target, predicted), "mae": mae(target, predicted)}
        if f"{prefix}lower" in columns:
            bounds = np.column_stack([columns[f"{prefix}lower"], columns[f"{prefix}upper"]])
            errors["coverage"] = coverage(target, bounds[has_target])
        errors_by_target[prefix.removesuffix("_")] = errors
    return errors_by_target.get("", errors_by_target)


def by_target(model) -> dict:
    """Return a dict from the prefix of a target's columns to its model."""
    if not hasattr(model, "target_names_"):
        return {"": model}
    return dict(zip((f"{name}_" for name in model.target_names_), model.estimators_, strict=True))


def no_intervals(model, level: float | None) -> str | None:
    """Return why predictions have no intervals, or None; `predict_interval` checks a given level."""
    if hasattr(model, "target_names_"):
        return next(filter(None, (no_intervals(estimator, level) for estimator in model.estimators_)), None)
    if not hasattr(model, "predict_interval"):
        return "the model was fitted without them"
    return model.lacking_ if level is None else None


def plain(value):
    """Return a label or number as a plain Python value; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
