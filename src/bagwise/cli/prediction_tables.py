"""Predictions, scores and explanations as columns of plain values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Predicted:
    """What a model predicts: columns with a row per bag, scores against known targets, columns of instances."""

    columns: dict[str, list]
    scores: dict | None = None
    rows: dict[str, list] | None = None


def predictions(model, bags, y=None, *, level: float | None = None, quantiles=()) -> dict[str, list]:
    """Return a row per bag: its id, prediction, interval if the model has one, quantiles, and the known target.

    The id and the target have the names of the user's table. With several targets, each has columns of its own, such as
    ``yield_prediction``.
    """
    from bagwise.io.table_output import own_name

    if len(quantiles) and hasattr(model, "target_names_"):
        raise ValueError("--quantile needs a model of one target, and this one has several; fit one for that target")
    if len(quantiles) and not hasattr(model, "predict_distribution"):
        raise ValueError(
            "this model was fitted without intervals, so it has no quantiles; fit it without --no-intervals"
        )
    models = by_target(model)
    lists = {f"{prefix}prediction": one.predict(bags).tolist() for prefix, one in models.items()}
    for prefix, one in models.items():
        if no_intervals(one, level) is None:
            lower, upper = one.predict_interval(bags, level=level).T
            lists |= {f"{prefix}lower": lower.tolist(), f"{prefix}upper": upper.tolist()}
        elif level is not None:
            raise ValueError("this model was fitted without intervals; fit it again, without --no-intervals")
    if len(quantiles):
        values = model.predict_distribution(bags).quantile(list(quantiles))
        lists |= {f"q{p:g}": column.tolist() for p, column in zip(quantiles, values.T, strict=True)}
    heads = [f"{prefix}{kind}" for prefix in models for kind in ("prediction", "lower", "upper")]
    bag = own_name(bags.id_name, "bag", [*lists, *heads])
    targets: dict[str, list] = {}
    if y is not None:
        columns = np.reshape(y, (len(bags), -1)).T.tolist()
        for name, column in zip(column_names(bags.target_name) or ["target"], columns, strict=True):
            head = own_name(name, "target", [bag, *lists, *targets])
            targets[head] = [None if np.isnan(value) else value for value in column]
    return {bag: list(map(plain, bags.ids))} | lists | targets


def explained(model, bags) -> dict[str, np.ndarray]:
    """Return a row per instance with its part in the prediction; with several targets, in that of each."""
    from bagwise.explanations.explanation import SINGULAR, explain

    if bags.id_name in SINGULAR.values():  # which this table uses for something else
        bags = bags._with(id_name=None)
    rows: dict[str, np.ndarray] = {}
    for prefix, one in by_target(model).items():
        columns = explain(one, bags).as_dict()
        rows |= {prefix + SINGULAR[name] if name in SINGULAR else name: column for name, column in columns.items()}
    return rows


def scores(columns: dict, y: np.ndarray, model, names: list[str]) -> dict:
    """Return the errors against known targets, and the share of targets inside their intervals (``coverage``).

    A model of several targets has scores for the targets in ``names``, in any order.
    """
    from bagwise.intervals import coverage
    from bagwise.metrics import mae, rmse

    targets = getattr(model, "target_names_", None)
    if targets is None and y.ndim == 2:
        raise ValueError(f"the model has one target, not {y.shape[1]}; name the one to compare it with: --target")
    unknown = [name for name in names if targets is not None and name not in targets]
    if unknown:
        raise ValueError(f"the model has no target {unknown[0]!r}; --target takes those it has: {', '.join(targets)}")
    found, prefixes = {}, [""] if targets is None else [f"{name}_" for name in names or targets]
    for prefix, column in zip(prefixes, np.reshape(y, (len(y), -1)).T, strict=True):
        known = ~np.isnan(column)
        target, predicted = column[known], np.asarray(columns[f"{prefix}prediction"])[known]
        errors = {"rmse": rmse(target, predicted), "mae": mae(target, predicted)}
        if f"{prefix}lower" in columns:
            bounds = np.column_stack([columns[f"{prefix}lower"], columns[f"{prefix}upper"]])
            errors["coverage"] = coverage(target, bounds[known])
        found[prefix.removesuffix("_")] = errors
    return found.get("", found)


def by_target(model) -> dict:
    """Return the model of each target by the prefix of its columns."""
    if not hasattr(model, "target_names_"):
        return {"": model}
    return dict(zip((f"{name}_" for name in model.target_names_), model.estimators_, strict=True))


def no_intervals(model, level: float | None) -> str | None:
    """Return why predictions have no intervals; None if they have, or if a level was asked for."""
    if hasattr(model, "target_names_"):
        return next(filter(None, (no_intervals(one, level) for one in model.estimators_)), None)
    if not hasattr(model, "predict_interval"):
        return "the model was fitted without them"
    return model.lacking_ if level is None else None


def column_names(names) -> list[str]:
    """Return the names of one column, several or none as a list."""
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def plain(value):
    """Return a label or number as a plain Python value; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
