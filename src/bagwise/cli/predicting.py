"""The tables that `bagwise predict` writes."""

from __future__ import annotations

import numpy as np

# A row speaks of one instance.
ONE = {"instance_predictions": "prediction", "weights": "weight", "contributions": "contribution", "effects": "effect"}


def predictions(model, bags, y=None, *, level: float | None = None) -> dict[str, list]:
    """A row per bag: its id, prediction, interval where the model gives one, and the known target."""
    columns = {"bag": [_plain(one) for one in bags.ids], "prediction": model.predict(bags).tolist()}
    if no_intervals(model, level) is None:
        lower, upper = model.predict_interval(bags, level=level).T
        columns |= {"lower": lower.tolist(), "upper": upper.tolist()}
    elif level is not None:
        raise ValueError("this model was fitted without intervals; fit it again, without --no-intervals")
    return columns if y is None else columns | {"target": y.tolist()}


def no_intervals(model, level: float | None) -> str | None:
    """Why the predictions have none; None if they have, or if the level that was asked for decides."""
    if not hasattr(model, "predict_interval"):
        return "the model was fitted without them"
    return model.lacking_ if level is None else None


def instance_table(model, bags) -> dict[str, list]:
    """A row per instance, with whatever the method can say of it."""
    import bagwise as bw

    columns = bw.explain(model, bags).table()
    return {ONE.get(name, name): [_plain(one) for one in column] for name, column in columns.items()}


def scores(columns: dict, y: np.ndarray) -> dict[str, float]:
    """How the predictions compare with known targets; ``coverage`` is the share of those inside their intervals."""
    errors = np.asarray(columns["prediction"]) - y
    found = {"rmse": float(np.sqrt(np.mean(errors**2))), "mae": float(np.mean(np.abs(errors)))}
    if "lower" not in columns:
        return found
    inside = (np.asarray(columns["lower"]) <= y) & (y <= np.asarray(columns["upper"]))
    return found | {"coverage": float(inside.mean())}


def in_words(scores: dict[str, float]) -> str:
    text = f"Against the known targets: RMSE {scores['rmse']:.4g}, MAE {scores['mae']:.4g}"
    return text + (f"; {scores['coverage']:.0%} of them inside their intervals" if "coverage" in scores else "")


def _plain(value):
    """A label or number as plain Python; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
