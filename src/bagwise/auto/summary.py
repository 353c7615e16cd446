"""A live line for those who wait: members done, the best so far.

What was tried and what came of it, as data: a row per member, and the errors to compare.

The account in words: a table for people, a paragraph for papers.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version

import numpy as np

from bagwise.auto.blend import best_member
from bagwise.auto.cross_validation import Screen, Trial
from bagwise.auto.members import MEAN
from bagwise.methods.catalogue import CATALOGUE


def fold_errors(predictions: np.ndarray, screen: Screen) -> np.ndarray:
    """Root mean squared error of every fold."""
    loss, fold, weight = screen.loss(predictions), screen.fold[screen.counted], screen.weight
    return np.array([np.sqrt(loss[fold == k].sum() / weight[fold == k].sum()) for k in np.unique(fold)])


def rows_of(trials: list[Trial], weights: dict[str, float], screen: Screen) -> list[dict]:
    """A row for every member. ``status`` is "blended", "tried" (without weight), "dropped" after the first fold,
    "skipped" for want of time, or "failed"; ``why`` is the reason of the last three.

    ``rmse`` is the mean of the errors of the folds and ``rmse_se`` its standard error; ``difference`` is how much
    larger it is than that of the best member, fold by fold, and ``difference_se`` its standard error.
    """
    done = [trial for trial in trials if trial.done]
    errors = {trial.member.name: fold_errors(trial.held_out, screen) for trial in done}
    Z = np.column_stack([trial.held_out for trial in done])
    best = done[best_member(Z, screen.y, screen.sample_weight)].member.name
    return [_row(trial, errors.get(trial.member.name), errors[best], weights) for trial in trials]


def _row(trial: Trial, errors: np.ndarray | None, best: np.ndarray, weights: dict[str, float]) -> dict:
    name, weight = trial.member.name, weights[trial.member.name]
    status = "blended" if weight > 0 else trial.status
    row = {"member": name, "status": status, "why": trial.why, "weight": weight, "seconds": trial.seconds}
    if errors is None:
        return row | dict.fromkeys(("rmse", "rmse_se", "difference", "difference_se"), float("nan"))
    (rmse, se), (more, more_se) = _mean_and_error(errors), _mean_and_error(errors - best)
    return row | {"rmse": rmse, "rmse_se": se, "difference": more, "difference_se": more_se}


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    spread = values.std(ddof=1) if len(values) > 1 else np.nan
    return float(values.mean()), float(spread / np.sqrt(len(values)))


def scores_of(names: list[str], Z: np.ndarray, held_out: np.ndarray, y: np.ndarray, sample_weight=None) -> dict:
    """Held-out error over all bags of what was chosen, of the best member and of predicting the mean."""

    def rmse(predictions):
        return float(np.sqrt(np.average((predictions - y) ** 2, weights=sample_weight)))

    best = best_member(Z, y, sample_weight)
    mean = rmse(Z[:, names.index(MEAN)])
    explained = 1.0 - (rmse(held_out) / mean) ** 2 if mean > 0 else 0.0
    return {
        "rmse": rmse(held_out),
        "mean_rmse": mean,
        "best": names[best],
        "best_rmse": rmse(Z[:, best]),
        "explained": explained,
    }


COLUMNS = ("member", "RMSE", "above the best", "weight", "seconds", "")


def summary_of(model) -> str:
    """The table, then what was chosen and why, and what would probably help."""
    parts = [as_table(model.account_), "", _choice(model), *map(_transform_line, model.transforms_)]
    if model.curve_ is not None:
        parts.append(model.curve_.says())
    return "\n".join(parts)


def as_table(rows: list[dict]) -> str:
    """The rows as aligned text, the best first, those without an error last."""
    order = sorted(rows, key=lambda row: (row["rmse"] != row["rmse"], row["rmse"]))
    lines = [COLUMNS, *(_cells(row) for row in order)]
    widths = [max(len(line[c]) for line in lines) for c in range(len(COLUMNS) - 1)]
    return "\n".join(_aligned(line, widths) for line in lines)


def _cells(row: dict) -> tuple[str, ...]:
    name, seconds = row["member"], f"{row['seconds']:.1f}"
    if row["rmse"] != row["rmse"]:
        return name, "-", "-", "-", seconds, f"{row['status']}: {row['why']}"
    above = f"{row['difference']:.2g} ± {row['difference_se']:.1g}" if row["difference"] else "best"
    weight = f"{row['weight']:.2f}" if row["weight"] else "-"
    return name, f"{row['rmse']:.4g} ± {row['rmse_se']:.1g}", above, weight, seconds, ""


def _aligned(cells, widths) -> str:
    first, *numbers, note = cells
    padded = [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))]
    return "  ".join([*padded, note]).rstrip()


def _choice(model) -> str:
    scores = model.scores_
    error = f"held-out RMSE {scores['rmse']:.4g}, {scores['mean_rmse']:.4g} for the mean of the targets"
    if model.kind_ == "blend":
        alone = f"{scores['best_rmse']:.4g} for {scores['best']} alone"
        return f"Blend: {_named_weights(model.weights_)} ({error}, {alone})."
    if scores["best"] == MEAN:
        return f"No member predicts better than the mean of the targets, so that is what is predicted ({error})."
    return f"Single best: {scores['best']} ({error}); no blend did better on bags that had no say in it."


def _transform_line(row: dict) -> str:
    what = "kept" if row["kept"] else "not used"
    change = f"{-100 * row['gain']:+.1f} % (± {100 * row['se']:.1f} %)"
    return f"Transform of the targets, {row['transform']}: {what}; it changed the squared error by {change}."


def paragraph_of(model) -> str:
    """One paragraph for a methods section."""
    return " ".join([_setting(model), _chosen(model), _errors(model), *_ending(model)])


def _setting(model) -> str:
    data, tried = model.training_, sum(row["status"] not in ("skipped", "failed") for row in model.account_)
    groups = "" if data["groups"] is None else f", each of the {data['groups']:,} groups being held out as a whole"
    return (
        f"Targets of bags were predicted with the method auto of bagwise {version('bagwise')} (scikit-learn "
        f"{version('scikit-learn')}, seed {model.random_state}): {tried} methods of multiple instance regression were "
        f"compared on {data['bags']:,} training bags ({data['instances']:,} instances, {data['features']:,} features) "
        f"by {model.fold_.max() + 1}-fold cross-validation over bags{groups}."
    )


def _chosen(model) -> str:
    if model.kind_ == "single":
        best = model.scores_["best"]
        return f"The best of them was used alone: {best}{_source(best)}."
    return (
        "Their held-out predictions were blended by non-negative least squares with weights that sum to one, members "
        "without which the held-out error was no larger being dropped; the weights are "
        f"{_named_weights(model.weights_, cite=True)}."
    )


def _errors(model) -> str:
    scores = model.scores_
    judged = " (every fold by a blend that was decided without it)" if model.kind_ == "blend" else ""
    return (
        f"The held-out root mean squared error{judged} was {scores['rmse']:.4g} (R² {scores['explained']:.2f}), "
        f"against {scores['best_rmse']:.4g} for the best single method ({scores['best']}) and "
        f"{scores['mean_rmse']:.4g} for predicting the mean."
    )


def _ending(model) -> list[str]:
    transform = [f"All methods learned the {model.transform_} of the targets."] if model.transform_ else []
    models = "models refitted to all bags" if model.predictor_ == "refit" else "the average of the models of all folds"
    return [*transform, f"New bags are predicted by {models}."]


def _named_weights(weights: dict[str, float], *, cite: bool = False) -> str:
    """The members of a blend with their weights, the heaviest first."""
    chosen = sorted(((weight, name) for name, weight in weights.items() if weight > 0), key=lambda pair: -pair[0])
    return ", ".join(f"{name} {weight:.2f}{_source(name) if cite else ''}" for weight, name in chosen)


def _source(name: str) -> str:
    card = CATALOGUE.get(name.partition(":")[0])
    return f" [{card.cites}]" if card else ""


@contextmanager
def watching(show: bool, total: int):
    """A function to call with the name of what is next, and the best so far; silent unless ``show``."""
    if not show:
        yield lambda name, best="": None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("[bold]members"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.description}", markup=False), transient=True) as progress:
        task, count = progress.add_task("", total=total), iter(range(total + 1))
        yield lambda name, best="": progress.update(task, completed=next(count, total), description=f"{name}  {best}")
