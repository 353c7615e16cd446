"""Summaries of a fit of `AutoRegressor`: a row per member, a table, a paragraph, and a progress line.

Errors are values of the metric over all held-out bags, each predicted by models fitted without its fold.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import sklearn

import bagwise
from bagwise.auto.blend import Blend, best_member
from bagwise.auto.cross_validation import CrossValidation, Trial
from bagwise.auto.members import MEAN
from bagwise.bags.checks import check_targets
from bagwise.bags.frames import to_frame
from bagwise.methods.catalogue import CATALOGUE
from bagwise.metrics import absolute, get_metric

NAN = float("nan")
ERRORS, SECONDS = ("error", "difference", "difference_se"), ("fit_seconds", "predict_seconds")
COLUMNS = ("member", "status", *ERRORS, "weight", *SECONDS, "why")


def rows_of(trials: list[Trial], weights: dict[str, float], cv: CrossValidation) -> list[dict]:
    """Return one row per member.

    ``status`` is "blended", "tried" (weight 0), "dropped" after the first fold, "skipped" for lack of time, or
    "failed"; ``why`` has the reason for the last three. ``error`` is the metric over all held-out bags, ``difference``
    the error minus that of the best member. Standard errors are over bags; those of differences are paired.
    """
    Z = np.column_stack([trial.held_out for trial in trials if trial.done])
    best, rows = Z[:, _best_column(Z, cv)][cv.scored], []
    for trial in trials:
        name, weight, numbers = trial.member.name, weights[trial.member.name], (NAN,) * 4
        if trial.done:
            held_out = trial.held_out[cv.scored]
            numbers = get_metric(cv.metric).compare(cv.y[cv.scored], held_out, best, weight=cv.weight)
        row = {"member": name, "status": "blended" if weight > 0 else trial.status, "why": trial.why, "weight": weight}
        row |= zip(("error", "error_se", "difference", "difference_se"), numbers, strict=True)
        rows.append(row | {part: getattr(trial, part) for part in ("seconds", *SECONDS)})
    return rows


def _best_column(Z: np.ndarray, cv: CrossValidation) -> int:
    return best_member(Z[cv.scored], cv.y[cv.scored], cv.weight, cv.metric)


def scores_of(names: list[str], Z: np.ndarray, result: Blend, cv: CrossValidation) -> dict:
    """Return the held-out errors over all scored bags.

    ``error`` is the metric of the chosen model (blend or member), ``single_error`` that of the best member, chosen for
    each fold without this fold, and ``mean_error`` that of the mean of the targets. ``rmse``, ``best_rmse`` (of the
    best member on all folds, which is optimistic) and ``mean_rmse`` are root mean squared errors for any metric.
    """

    def rmse(predictions):
        return float(np.sqrt(np.average((predictions - cv.y)[cv.scored] ** 2, weights=cv.weight)))

    best, mean = _best_column(Z, cv), Z[:, names.index(MEAN)]
    mean_rmse = rmse(mean)
    return {
        "metric": cv.metric,
        "error": cv.error(result.held_out),
        "single_error": cv.error(result.single),
        "mean_error": cv.error(mean),
        "best": names[best],
        "rmse": rmse(result.held_out),
        "best_rmse": rmse(Z[:, best]),
        "mean_rmse": mean_rmse,
        "explained": 1.0 - (rmse(result.held_out) / mean_rmse) ** 2 if mean_rmse > 0 else 0.0,
    }


def leaderboard_of(model, bags=None, y=None):
    """Return a data frame with a row for the chosen model, then the members sorted by error."""
    error, loss, members = model.scores_["error"], get_metric(model.metric).loss, _by_error(model.trials_, model.metric)
    chosen = {"member": model.kind_, "status": "chosen", "error": error, "weight": 1.0, "why": ""}
    chosen |= {"difference": loss(error) - loss(members[0]["error"]), "difference_se": NAN}
    chosen |= {name: sum(row[name] for row in members) for name in SECONDS}
    rows = [chosen, *members]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    sizes = {name: _file_bytes(models) for name, models in model.models_.items()}
    columns["file_bytes"] = [sum(sizes.values()), *(sizes.get(row["member"], 0) for row in rows[1:])]
    if bags is not None:
        bags, metric = model.prepare(bags), get_metric(model.metric)
        parts, y = model.predict_members(bags), check_targets(y, bags)
        blend = sum(model.weights_[name] * part for name, part in parts.items())
        errors = {name: metric(y, part) for name, part in parts.items()}
        columns["new_error"] = [metric(y, blend), *(errors.get(row["member"], NAN) for row in members)]
    return to_frame(columns)


def _file_bytes(models: list) -> float:
    """Return the size of models in a model file in bytes; NaN if they cannot be saved."""
    from bagwise.model_files.plan_nodes import write  # imported late, because fits do not need it

    try:
        return sum(map(len, write(models).values()))  # in one call, so that shared parts are counted once
    except ValueError:
        return NAN


def summary_of(model) -> str:
    """Return a text with the table of members, the choice and its reason, and what would probably help."""
    parts = [as_table(model.trials_, model.metric), "", _choice(model)]
    for row in model.transforms_:
        if "why" in row:
            outcome = f"not tried: it {row['why']}"
        else:
            outcome = "used" if row["kept"] else "not used"
            outcome += f"; it changed the loss by {-100 * row['gain']:+.1f} % (± {100 * row['se']:.1f} %)"
        parts.append(f"Transform of the targets, {row['transform']}: {outcome}.")
    if getattr(model, "imputation_", None) is not None:
        parts.append("Missing values were imputed by the median of the bag or else of the training bags.")
    if model.curve_ is not None:
        parts.append(model.curve_.sentences())
    return "\n".join(parts)


def as_table(rows: list[dict], metric: str = "rmse") -> str:
    """Return the rows as aligned text, sorted by error, rows without an error last."""
    lines = [("member", get_metric(metric).label, "above the best", "weight", "seconds", "")]
    for row in _by_error(rows, metric):
        name, seconds = row["member"], f"{row['seconds']:.1f}"
        if row["error"] != row["error"]:
            lines.append((name, "-", "-", "-", seconds, f"{row['status']}: {row['why']}"))
            continue
        above = f"{row['difference']:.2g} ± {row['difference_se']:.1g}" if row["difference"] else "best"
        weight = f"{row['weight']:.2f}" if row["weight"] else "-"
        lines.append((name, f"{row['error']:.4g} ± {row['error_se']:.1g}", above, weight, seconds, ""))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    return "\n".join(
        "  ".join([name.ljust(widths[0]), *map(str.rjust, numbers, widths[1:]), note]).rstrip()
        for name, *numbers, note in lines
    )


def _by_error(rows: list[dict], metric: str) -> list[dict]:
    loss = get_metric(metric).loss
    return sorted(rows, key=lambda row: (row["error"] != row["error"], loss(row["error"])))


def _choice(model) -> str:
    scores = model.scores_
    error = f"held-out {get_metric(model.metric).label} {scores['error']:.4g}"
    mean = f"{scores['mean_error']:.4g} for the mean of the targets"
    if model.kind_ == "blend":
        single = f"{scores['single_error']:.4g} for the best member, both chosen without the held-out fold"
        return f"Blend: {_named_weights(model.weights_)} ({error}, and {single}; {mean})."
    (name,) = (name for name, weight in model.weights_.items() if weight > 0)
    if name == MEAN:
        text = "Neither the blend nor the best member, chosen without the held-out fold, beats the mean of the targets"
        return f"{text}, so the model predicts the mean ({error})."
    return f"Single best: {name} ({error}; {mean}). No blend, chosen without the held-out fold, had a lower error."


def paragraph_of(model) -> str:
    """Return one paragraph for a methods section: the data, the members, the choice, the errors."""
    data, scores = model.training_, model.scores_
    status = [row["status"] for row in model.trials_ if row["member"] != MEAN]
    tried, dropped = sum(text not in ("skipped", "failed") for text in status), status.count("dropped")
    on_first = f", {dropped} of them on the first fold only" if dropped else ""
    groups = "" if data["groups"] is None else f", with each of the {data['groups']:,} groups in one fold"
    n_held_out, n_folds = np.count_nonzero(model.fold_ >= 0), model.fold_.max() + 1
    how = f"{n_folds}-fold cross-validation over bags"
    if n_held_out < len(model.fold_):
        noun = "fold" if n_folds == 1 else "folds"
        how = f"{n_folds} {noun} of {n_held_out:,} held-out bags, each predicted by models fitted on other bags"
    is_blend = model.kind_ == "blend"
    if is_blend:
        kind = "absolute errors" if get_metric(model.metric).bag_loss is absolute else "squares"
        choice = (
            f"Their held-out predictions were blended by non-negative least {kind} with weights that sum to one. "
            "Members that did not reduce the held-out error were dropped. The weights are "
            f"{_named_weights(model.weights_, cite=True)}."
        )
    else:
        (best,) = (name for name, weight in model.weights_.items() if weight > 0)
        choice = f"The best single method was used: {best}{_source(best)}."
        if best == MEAN:
            choice = "No method predicted held-out bags better than the mean of the targets, so the mean is predicted."
    blends = " (each fold predicted by a blend chosen without it)" if is_blend else ""
    learned = f" All methods were fitted on the {model.transform_} of the targets." if model.transform_ else ""
    models = "models refitted on all bags" if model.predictor_ == "refit" else "the average of the models of all folds"
    return (
        f"Targets of bags were predicted with the method auto of bagwise {bagwise.__version__} (scikit-learn "
        f"{sklearn.__version__}, seed {model.random_state}): {tried} methods of multiple instance regression were "
        f"compared on {data['bags']:,} training bags ({data['instances']:,} instances, {data['features']:,} features) "
        f"by {how}{groups}{on_first}. {choice} The held-out {get_metric(model.metric).in_full}{blends} was "
        f"{scores['error']:.4g} (R² {scores['explained']:.2f}), against {scores['single_error']:.4g} for the best "
        f"single method chosen in the same way and {scores['mean_error']:.4g} for predicting the mean.{learned} "
        f"New bags are predicted by {models}."
    )


def _named_weights(weights: dict[str, float], *, cite: bool = False) -> str:
    """Return the members of a blend with their weights as text, sorted by weight."""
    chosen = sorted(((weight, name) for name, weight in weights.items() if weight > 0), key=lambda pair: -pair[0])
    return ", ".join(f"{name} {weight:.2f}{_source(name) if cite else ''}" for weight, name in chosen)


def _source(name: str) -> str:
    card = CATALOGUE.get(name.partition(":")[0])
    return f" [{card.cites}]" if card else ""


@contextmanager
def live_line(show: bool, total: int, cv: CrossValidation):
    """Yield a function (name of the next member, trials so far) that shows progress if ``show``."""
    if not show:
        yield lambda name, trials: None
        return
    from bagwise.execution.progress import Line, progress_display

    def text(task) -> str:
        budget = "" if cv.budget.seconds is None else f" of at most {cv.budget.seconds:.0f} s"
        return f"{task.completed:.0f}/{total} members  {cv.budget.elapsed:.0f} s{budget}  {task.description}"

    metric = get_metric(cv.metric)
    with progress_display(Line(text)) as progress:
        task = progress.add_task("", total=total)

        def update(name: str, trials: list[Trial]) -> None:
            done = [(cv.error(trial.held_out), trial.member.name) for trial in trials if trial.done]
            error, leader = min(done, key=lambda pair: metric.loss(pair[0]), default=(0.0, ""))
            best = f"best so far: {leader}, {metric.label} {error:.4g}" if done else ""
            text = "  ".join(filter(None, (best, f"now: {name}")))
            progress.update(task, completed=len(trials), description=text, refresh=True)

        yield update
