"""Summary of a fit: held-out errors, the verdict, the intervals, and a paragraph for the methods section of a paper."""

from __future__ import annotations

import numpy as np

from bagwise import __version__
from bagwise.methods.catalogue import find
from bagwise.metrics import METRICS, mae, rmse
from bagwise.reports.verdict import FOREST, MEAN, held_out_of, judgement, worth

SCORES = {
    "absolute": "scaled by bag size and spread",
    "quantile": "around quantiles of the error (Romano et al. 2019) given size, spread, prediction and feature means",
}


def summarise_fit(model, name: str, bags, y: np.ndarray) -> dict:
    """Return held-out scores and the verdict, a paragraph for a paper, and the method's own summary if it has one.

    Parameters
    ----------
    model : fitted bag regressor
    name : name of the method
    bags, y : what the model was fitted on; for a `MultiTarget`, a column of y per target

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.testing.contract_checks.sample(30)
    >>> summary = summarise_fit(bw.Intervals("aggregated").fit(bags, y), "aggregated", bags, y)
    >>> summary["verdict"], sorted(summary["held_out"])
    ('Worth using', ['mae', 'metric', 'r2', 'rmse', 'rmse_of_forest', 'rmse_of_mean'])
    """
    if y.ndim == 2:
        return _summarise_targets(model, name, bags, y)
    held = held_out_of(name, model, bags, y).with_baselines(bags, y)
    if held.in_sample:
        summary = summarise_scores(name, len(y), None)
    else:
        error, mean_error = (rmse(held.target, column) for column in (held.prediction, held.baselines[MEAN]))
        r2 = 1 - (error / mean_error) ** 2 if mean_error > 0 else 0.0
        scores = {"rmse": error, "mae": mae(held.target, held.prediction), "r2": r2, "rmse_of_mean": mean_error}
        judged, metric = worth(held), held.metric
        errors = {f"{metric}_of_mean": judged.mean_error, f"{metric}_of_forest": judged.baseline_errors[FOREST]}
        summary = summarise_scores(name, len(y), scores | {"metric": metric, metric: judged.error} | errors)
        summary["verdict"] = judgement(judged)["badge"]
    return add_texts(summary, model)


def _summarise_targets(model, name: str, bags, y: np.ndarray) -> dict:
    """Return a summary per target, and their texts below each other."""
    targets = {}
    for target, estimator, column in zip(model.target_names_, model.estimators_, y.T, strict=True):
        has_target = ~np.isnan(column)
        targets[target] = summarise_fit(estimator, name, bags[has_target], column[has_target])
    texts = {}
    for text in ("paragraph", "summary"):
        titled = [f"{target}: {summary[text]}" for target, summary in targets.items() if text in summary]
        texts |= {text: "\n\n".join(titled)} if titled else {}
    return {"method": name, "bags": len(y), "targets": targets} | texts


def summarise_scores(name: str, n_bags: int, scores: dict | None) -> dict:
    """Return a summary made of the errors on held-out bags alone."""
    text = f"The method {name} ({find(name)[0].cites}) was fitted on {n_bags:,} bags with bagwise {__version__}."
    if scores is not None:
        text += (
            f" Bags held out in turn were predicted with a root mean squared error of {scores['rmse']:.4g} "
            f"(R² {scores['r2']:.2f}), where the mean of the targets has {scores['rmse_of_mean']:.4g}."
        )
    return {"method": name, "bags": n_bags, "held_out": scores, "paragraph": text}


def add_texts(summary: dict, model) -> dict:
    """Add the paragraph and summary of the method itself, and the level of the intervals (None without intervals)."""
    method = getattr(model, "method_", model)
    paragraph = method.paragraph() if hasattr(method, "paragraph") else summary["paragraph"]
    level = None
    if getattr(model, "lacking_", "no intervals at all") is None:
        level = model.level
        paragraph += (
            f" Prediction intervals at level {level:g} are conformal: {model.kind} (Barber et al. 2021) over folds "
            f"of bags, {SCORES[model.scores]}."
        )
    texts = {"paragraph": paragraph, "level": level}
    return summary | texts | ({"summary": method.summary()} if hasattr(method, "summary") else {})


def first_line(summary: dict) -> str:
    """Return the typical error, the verdict, the errors of the baselines, and the level of the intervals, as a line.

    Examples
    --------
    >>> scores = {"rmse": 2.084, "rmse_of_mean": 1.93, "rmse_of_forest": 1.87}
    >>> print(first_line({"held_out": scores, "verdict": "Worse than the mean", "level": None}).partition("; ")[0])
    Typical error 2.084, worse than the mean (RMSE of held-out bags
    """
    if "targets" in summary:
        return "\n".join(f"{target}: {first_line(part)}" for target, part in summary["targets"].items())
    level = summary.get("level")
    intervals = "no intervals" if level is None else f"intervals at level {level:g}"
    scores = summary["held_out"]
    if scores is None:
        return f"The error is not known, because no bag was held out; {intervals}"
    metric = scores.get("metric", "rmse")
    error, mean_error = scores[metric], scores[f"{metric}_of_mean"]
    baselines = f"{mean_error:.4g} for the mean of the targets"
    if f"{metric}_of_forest" in scores:
        baselines += f", {scores[f'{metric}_of_forest']:.4g} for bag means + forest"
    verdict = f", {summary['verdict'][0].lower()}{summary['verdict'][1:]}" if "verdict" in summary else ""
    return f"Typical error {error:.4g}{verdict} ({METRICS[metric].label} of held-out bags; {baselines}), {intervals}"
