"""Summaries of a fit of `AutoRegressor`: a row per member, a table, a paragraph, and a live line during the fit.

Errors are the metric, pooled over all held-out bags, each predicted without its fold.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import sklearn

import bagwise
from bagwise.auto.blend import Blend, best_member
from bagwise.auto.cross_validation import CrossValidation, Trial
from bagwise.auto.members import MEAN
from bagwise.bags.frames import to_frame
from bagwise.methods.catalogue import CATALOGUE
from bagwise.metrics import absolute, get_metric

NAN = float("nan")


def rows_of(trials: list[Trial], weights: dict[str, float], cv: CrossValidation) -> list[dict]:
    """Return one row per member.

    ``status`` is "blended", "tried" (without weight), "dropped" after the first fold, "skipped" for lack of time, or
    "failed"; ``why`` is the reason of the last three. ``error`` is the metric over all held-out bags, ``difference``
    how much larger it is than that of the best member; standard errors are over bags, those of differences paired by
    bag.
    """
    Z = np.column_stack([trial.held_out for trial in trials if trial.done])
    best = Z[:, _best(Z, cv)]
    return [_row(trial, best, weights, cv) for trial in trials]


def _best(Z: np.ndarray, cv: CrossValidation) -> int:
    weight = None if cv.sample_weight is None else cv.weight
    return best_member(Z[cv.scored], cv.y[cv.scored], weight, cv.metric)


def _row(trial: Trial, best: np.ndarray, weights: dict[str, float], cv: CrossValidation) -> dict:
    name, weight = trial.member.name, weights[trial.member.name]
    row = {"member": name, "status": "blended" if weight > 0 else trial.status, "why": trial.why, "weight": weight}
    seconds = {name: getattr(trial, name) for name in ("seconds", "fit_seconds", "predict_seconds")}
    if not trial.done:
        return row | dict.fromkeys(("error", "error_se", "difference", "difference_se"), NAN) | seconds
    y, held_out, reference = (values[cv.scored] for values in (cv.y, trial.held_out, best))
    weight = None if cv.sample_weight is None else cv.weight
    numbers = get_metric(cv.metric).compare(y, held_out, reference, weight=weight)
    return row | dict(zip(("error", "error_se", "difference", "difference_se"), numbers, strict=True)) | seconds


def scores_of(names: list[str], Z: np.ndarray, result: Blend, cv: CrossValidation) -> dict:
    """Return the held-out errors over all scored bags.

    ``error`` is that of the metric for what was chosen, ``single_error`` for the single best member chosen without the
    fold it predicts, ``mean_error`` for the mean of the targets; ``rmse``, ``best_rmse`` (of the member that is best on
    all folds, and so looks better than it is) and ``mean_rmse`` are root mean squared errors whatever the metric.
    """

    def rmse(predictions):
        return float(np.sqrt(np.average((predictions - cv.y)[cv.scored] ** 2, weights=cv.weight)))

    best, mean = _best(Z, cv), Z[:, names.index(MEAN)]
    worst = rmse(mean)
    return {
        "metric": cv.metric,
        "error": cv.error(result.held_out),
        "single_error": cv.error(result.single),
        "mean_error": cv.error(mean),
        "best": names[best],
        "rmse": rmse(result.held_out),
        "best_rmse": rmse(Z[:, best]),
        "mean_rmse": worst,
        "explained": 1.0 - (rmse(result.held_out) / worst) ** 2 if worst > 0 else 0.0,
    }


def held_out_text(model) -> str:
    """Return the held-out error beside that of the mean of the targets, as a line."""
    scores = model.scores_
    mean = scores["mean_error"]
    return f"Held-out {get_metric(model.metric).label} {scores['error']:.4g} ({mean:.4g} for the mean of the targets)"


ERRORS, SECONDS = ("error", "difference", "difference_se"), ("fit_seconds", "predict_seconds")
COLUMNS = ("member", "status", *ERRORS, "weight", *SECONDS, "why")


def leaderboard_of(model, bags=None, y=None):
    """Return the rows as a data frame, the blend first, then the members by error."""
    error, loss = model.scores_["error"], get_metric(model.metric).loss
    best = min(loss(row["error"]) for row in model.trials_ if row["error"] == row["error"])
    blended = {"member": model.kind_, "status": "chosen", "error": error, "weight": 1.0, "why": ""}
    blended |= {"difference": loss(error) - best, "difference_se": NAN}
    blended |= {name: sum(row[name] for row in model.trials_) for name in SECONDS}
    rows = [blended, *_by_error(model.trials_, model.metric)]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    sizes = {name: _file_bytes(models) for name, models in model.models_.items()}
    columns["file_bytes"] = [sum(sizes.values()), *(sizes.get(row["member"], 0) for row in rows[1:])]
    if bags is not None:
        columns["new_error"] = _new_errors(model, [row["member"] for row in rows[1:]], bags, y)
    return to_frame(columns)


def _file_bytes(models: list) -> float:
    """Return the bytes of models in a model file; NaN if no file can hold them."""
    from bagwise.model_files.plan_nodes import write  # for this alone

    try:
        return sum(map(len, write(models).values()))  # together: what they share is written once
    except ValueError:
        return NAN


def _new_errors(model, names: list[str], bags, y) -> list[float]:
    y = np.asarray(y, dtype=np.float64)
    parts = model.predict_members(bags)
    n_bags = len(next(iter(parts.values())))
    if len(y) != n_bags:
        raise ValueError(f"Got {len(y)} targets for {n_bags} bags; one per bag is required.")
    blended = sum(model.weights_[name] * part for name, part in parts.items())
    metric = get_metric(model.metric)
    return [metric(y, blended), *(metric(y, parts[name]) if name in parts else NAN for name in names)]


def summary_of(model) -> str:
    """Return the table, the choice and its reason, and what would probably help."""
    parts = [as_table(model.trials_, model.metric), "", _choice(model), *map(_transform_line, model.transforms_)]
    if getattr(model, "imputation_", None) is not None:
        parts.append("Missing values were filled in: by the median of the bag, else of the training bags.")
    if model.curve_ is not None:
        parts.append(model.curve_.sentences())
    return "\n".join(parts)


def as_table(rows: list[dict], metric: str = "rmse") -> str:
    """Return the rows as aligned text, the best first, those without an error last."""
    titles = ("member", get_metric(metric).label, "above the best", "weight", "seconds", "")
    lines = [titles, *(_cells(row) for row in _by_error(rows, metric))]
    widths = [max(len(line[c]) for line in lines) for c in range(len(titles) - 1)]
    return "\n".join(_aligned(line, widths) for line in lines)


def _by_error(rows: list[dict], metric: str) -> list[dict]:
    loss = get_metric(metric).loss
    return sorted(rows, key=lambda row: (row["error"] != row["error"], loss(row["error"])))


def _cells(row: dict) -> tuple[str, ...]:
    name, seconds = row["member"], f"{row['seconds']:.1f}"
    if row["error"] != row["error"]:
        return name, "-", "-", "-", seconds, f"{row['status']}: {row['why']}"
    above = f"{row['difference']:.2g} ± {row['difference_se']:.1g}" if row["difference"] else "best"
    weight = f"{row['weight']:.2f}" if row["weight"] else "-"
    return name, f"{row['error']:.4g} ± {row['error_se']:.1g}", above, weight, seconds, ""


def _aligned(cells, widths) -> str:
    first, *numbers, note = cells
    padded = [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))]
    return "  ".join([*padded, note]).rstrip()


def _choice(model) -> str:
    scores = model.scores_
    error = f"held-out {get_metric(model.metric).label} {scores['error']:.4g}"
    mean = f"{scores['mean_error']:.4g} for the mean of the targets"
    if model.kind_ == "blend":
        single = f"{scores['single_error']:.4g} for the single best member, chosen without the fold it predicts"
        return f"Blend: {_named_weights(model.weights_)} ({error}; {single}; {mean})."
    (name,) = (name for name, weight in model.weights_.items() if weight > 0)
    if name == MEAN:
        text = "Neither the blend nor the best member, decided without the held-out fold, beats the mean of the targets"
        return f"{text}, so the model predicts the mean ({error})."
    return f"Single best: {name} ({error}; {mean}); no blend did better on bags that it was not decided on."


def _transform_line(row: dict) -> str:
    if "why" in row:
        return f"Transform of the targets, {row['transform']}: not tried ({row['why']})."
    verdict = "kept" if row["kept"] else "not used"
    change = f"{-100 * row['gain']:+.1f} % (± {100 * row['se']:.1f} %)"
    return f"Transform of the targets, {row['transform']}: {verdict}; it changed the loss by {change}."


def paragraph_of(model) -> str:
    """Return one paragraph for a methods section."""
    return " ".join([_setting(model), _chosen(model), _errors(model), *_ending(model)])


def _setting(model) -> str:
    data, tried = model.training_, sum(row["status"] not in ("skipped", "failed") for row in model.trials_)
    groups = "" if data["groups"] is None else f", each of the {data['groups']:,} groups being held out as a whole"
    return (
        f"Targets of bags were predicted with the method auto of bagwise {bagwise.__version__} (scikit-learn "
        f"{sklearn.__version__}, seed {model.random_state}): {tried} methods of multiple instance regression were "
        f"compared on {data['bags']:,} training bags ({data['instances']:,} instances, {data['features']:,} features) "
        f"by {_how_held_out(model)}{groups}."
    )


def _how_held_out(model) -> str:
    held_out, folds = np.count_nonzero(model.fold_ >= 0), model.fold_.max() + 1
    if held_out == len(model.fold_):
        return f"{folds}-fold cross-validation over bags"
    noun = "fold" if folds == 1 else "folds"
    return f"{folds} {noun} of {held_out:,} held-out bags, each predicted by models fitted to other bags"


def _chosen(model) -> str:
    if model.kind_ == "single":
        (best,) = (name for name, weight in model.weights_.items() if weight > 0)
        if best == MEAN:
            return "None of them predicted held-out bags better than the mean of the targets, which is predicted."
        return f"The best of them was used alone: {best}{_source(best)}."
    kind = "absolute errors" if get_metric(model.metric).bag_loss is absolute else "squares"
    return (
        f"Their held-out predictions were blended by non-negative least {kind} with weights that sum to one, members "
        "without which the held-out error was no larger being dropped; the weights are "
        f"{_named_weights(model.weights_, cite=True)}."
    )


def _errors(model) -> str:
    scores = model.scores_
    judged = " (every fold by a blend that was decided without it)" if model.kind_ == "blend" else ""
    return (
        f"The held-out {get_metric(model.metric).in_full}{judged} was {scores['error']:.4g} "
        f"(R² {scores['explained']:.2f}), against "
        f"{scores['single_error']:.4g} for the best single method chosen in the same way and "
        f"{scores['mean_error']:.4g} for predicting the mean."
    )


def _ending(model) -> list[str]:
    transform = [f"All methods learned the {model.transform_} of the targets."] if model.transform_ else []
    models = "models refitted to all bags" if model.predictor_ == "refit" else "the average of the models of all folds"
    return [*transform, f"New bags are predicted by {models}."]


def _named_weights(weights: dict[str, float], *, cite: bool = False) -> str:
    """Return the members of a blend with their weights as text, the heaviest first."""
    chosen = sorted(((weight, name) for name, weight in weights.items() if weight > 0), key=lambda pair: -pair[0])
    return ", ".join(f"{name} {weight:.2f}{_source(name) if cite else ''}" for weight, name in chosen)


def _source(name: str) -> str:
    card = CATALOGUE.get(name.partition(":")[0])
    return f" [{card.cites}]" if card else ""


@contextmanager
def live_line(show: bool, total: int, cv: CrossValidation):
    """Yield a function of the name of the next member and the trials so far that shows progress if ``show``."""
    if not show:
        yield lambda name, trials: None
        return
    from rich.progress import ProgressColumn
    from rich.text import Text

    from bagwise.execution.progress import progress_display

    class Line(ProgressColumn):
        """The times, then the name of the current member, which a narrow terminal cuts off."""

        def render(self, task) -> Text:
            budget = "" if cv.budget.seconds is None else f" of at most {cv.budget.seconds:.0f} s"
            text = f"{task.completed:.0f}/{total} members  {cv.budget.passed:.0f} s{budget}  {task.description}"
            return Text(text, no_wrap=True, overflow="ellipsis")

    metric = get_metric(cv.metric)
    with progress_display(Line()) as progress:
        task = progress.add_task("", total=total)

        def update(name: str, trials: list[Trial]) -> None:
            done = [(cv.error(trial.held_out), trial.member.name) for trial in trials if trial.done]
            error, leader = min(done, key=lambda pair: metric.loss(pair[0]), default=(0.0, ""))
            best = f"best so far: {leader}, {metric.label} {error:.4g}" if done else ""
            text = "  ".join(filter(None, (best, f"now: {name}")))
            progress.update(task, completed=len(trials), description=text, refresh=True)

        yield update
