"""The tables that `bagwise predict` writes."""

from __future__ import annotations

import numpy as np

# A row speaks of one instance.
ONE = {"instance_predictions": "prediction", "weights": "weight", "contributions": "contribution", "effects": "effect"}


def predictions(model, bags, y=None, *, level: float | None = None) -> dict[str, list]:
    """A row per bag: its id, prediction, interval where the model gives one, and the known target."""
    columns = {"bag": [_plain(one) for one in bags.ids], "prediction": model.predict(bags).tolist()}
    if getattr(model, "left_out_", None) is not None:
        lower, upper = model.predict_interval(bags, level=level).T
        columns |= {"lower": lower.tolist(), "upper": upper.tolist()}
    elif level is not None:
        raise ValueError("this model was fitted without intervals, or on too few bags for them; fit it again")
    return columns if y is None else columns | {"target": y.tolist()}


def instance_table(model, bags) -> dict[str, list]:
    """A row per instance, with whatever the method can say of it."""
    import bagwise as bw

    columns = bw.explain(model, bags).table()
    return {ONE.get(name, name): [_plain(one) for one in column] for name, column in columns.items()}


def scores(columns: dict, y: np.ndarray) -> str:
    """How the predictions compare with known targets."""
    errors = np.asarray(columns["prediction"]) - y
    text = f"Against the known targets: RMSE {np.sqrt(np.mean(errors**2)):.4g}, MAE {np.mean(np.abs(errors)):.4g}"
    if "lower" not in columns:
        return text
    inside = (np.asarray(columns["lower"]) <= y) & (y <= np.asarray(columns["upper"]))
    return f"{text}; {inside.mean():.0%} of them inside their intervals"


def _plain(value):
    """A label or number as plain Python; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
