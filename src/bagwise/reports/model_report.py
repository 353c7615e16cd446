"""The report of one fitted model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError

from bagwise.bags import check_fit
from bagwise.bags.folds import units_of
from bagwise.evaluation.fingerprint import describe, of_data, of_library, versions
from bagwise.evaluation.metrics import METRICS, score
from bagwise.explanations.contributions import unwrapped
from bagwise.io.table_output import duration, own_name
from bagwise.reports.charts import draw_predictions
from bagwise.reports.explorer import choose_bags, explain_bags, function_section
from bagwise.reports.findings import METRIC_NAMES, HeldOut, interval_tiles
from bagwise.reports.page import blank, sections, write_page
from bagwise.reports.run_report import bags_table, describe_data
from bagwise.reports.text import Column, counted, filled, numbers, shown, texts


def write_model_report(
    path, model, bags, y, *, held_out=None, fold=None, std=None, name: str = "data", method=None, command=None
) -> Path:
    """Write what a fitted model makes of its training bags as one HTML file that needs nothing else.

    Parameters
    ----------
    path : file to write, .html
    model : fitted bag regressor
    bags, y : what it was fitted on; for a `MultiTarget`, a column of y per target
    held_out : array, optional
        A prediction of every bag by a model that never saw it. Default: ``model.held_out_`` where there is one
        (``bw.method("auto")``). Without, there is no held-out score, and the report states that.
    fold, std : arrays, optional
        The fold of every bag (default ``model.fold_``), and the standard deviation of its prediction if there is one.
    name : what the data set is called
    method : what the model is called
    command : the command that was typed, to be written down

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> bags, y = bw.testing.contracts.sample(30)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> write_model_report(tempfile.mkdtemp() + "/model.html", model, bags, y, method="aggregated").name
    'model.html'
    """
    about = {"name": name, "method": method, "command": command}
    if hasattr(model, "target_names_"):
        content = _several(model, bags, np.asarray(y, dtype=np.float64), held_out, about)
    else:
        content = _content(model, bags, y, held_out=held_out, fold=fold, std=std, **about)
    content["sections"] = sections(content)
    return write_page(path, content)


def _several(model, bags, y: np.ndarray, held_out, about: dict) -> dict:
    """One page for several targets: the plots and scores of each, the bags and instances of the first."""
    if y.shape != (len(bags), len(model.target_names_)):
        raise ValueError(f"y has shape {y.shape}; give a row per bag and a column for each of {model.target_names_}")
    pages = []
    for k, (name, one) in enumerate(zip(model.target_names_, model.estimators_, strict=True)):
        known = ~np.isnan(y[:, k])
        some = bags[known]._with(target_name=name)
        pages.append(
            _content(one, some, y[known, k], held_out=None if held_out is None else held_out[known, k], **about)
        )
    first = pages[0]
    for name, page in zip(model.target_names_, pages, strict=True):
        page["tiles"] = [tile | {"name": f"{name}: {tile['name']}"} for tile in page["tiles"]]
        page["predictions"] = [one | {"label": name} for one in page["predictions"]]
        page["methods"] = [one | {"method": f"{one['method']}, {name}"} for one in page["methods"]]
    texts = [
        f"{name}: {page['verdict']['sentences'][0]}" for name, page in zip(model.target_names_, pages, strict=True)
    ]
    headline = f"was fitted on {counted(len(bags), 'bag')} for {counted(len(pages), 'target')}"
    first["bags"]["lead"] = f"{model.target_names_[0]}: {first['bags']['lead']}"
    joined = {what: [one for page in pages for one in page[what]] for what in ("tiles", "predictions", "methods")}
    return first | joined | {"verdict": first["verdict"] | {"headline": headline, "sentences": texts}}


def _content(model, bags, y, *, held_out=None, fold=None, std=None, name, method, command) -> dict:
    bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
    label = method or type(model).__name__
    held = _held(label, model, bags, y, held_out, fold, std)
    places = choose_bags(held)
    names = own_name(bags.id_name, "bag", ()), held.target_name
    listed = {
        "columns": bags_table(bags.ids.tolist(), held, places, names),
        "more": "",
        "why_not": "",
        "explorer": None,
    }
    listed["lead"] = f"{'Fitted' if held.in_sample else 'Held-out'} predictions of {label}, largest error first."
    return blank() | {
        "kind": "model",
        "title": name,
        "data": describe_data(len(bags), bags.sizes, bags.n_features, y.tolist()),
        "verdict": _verdict(held),
        "tiles": _tiles(held),
        "summary": _summary(model),
        "predictions": [draw_predictions(held, "")],
        "predictions_lead": "In sample: the model saw these bags."
        if held.in_sample
        else "Each bag once, predicted by a model that never saw it.",
        "bags": listed | _instances(label, model, bags[places], held),
        "function": function_section(label, model, bags),
        "facts": _facts(bags, y, label, command),
        "methods": [{"method": label, "estimator": describe(model), "settings": []}],
    }


def _held(label, model, bags, y, held_out, fold, std) -> HeldOut:
    source = model if held_out is not None else _keeper(model, len(y))
    held_out = getattr(source, "held_out_", None) if held_out is None else held_out
    fold = _fold(source, len(y)) if fold is None else np.asarray(fold)
    in_sample = held_out is None
    prediction = np.asarray(model.predict(bags) if in_sample else held_out, dtype=np.float64)
    if prediction.shape != y.shape:
        raise ValueError(f"held_out has shape {prediction.shape} for {len(y)} bags; give one prediction per bag")
    if fold.shape != y.shape:
        raise ValueError(f"fold has shape {fold.shape} for {len(y)} bags; give the fold of every bag")
    std = None if std is None else np.asarray(std, dtype=np.float64)
    unit = units_of(bags)
    return HeldOut(
        label,
        np.arange(len(y)),
        bags.sizes,
        y,
        prediction,
        fold,
        std,
        in_sample=in_sample,
        unit=unit,
        target_name=own_name(bags.target_name, "target", ()),
    )


def _fold(source, n_bags: int) -> np.ndarray:
    """The folds that a model knows of all bags, or one for all: intervals by a split know those of some."""
    fold = getattr(source, "fold_", None)
    return np.asarray(fold) if np.shape(fold) == (n_bags,) else np.zeros(n_bags, dtype=int)


def _keeper(model, n_bags: int):
    """Who has held-out predictions: a method inside intervals, if it was fitted on all bags, or the model itself."""
    inner = unwrapped(model)
    return inner if np.shape(getattr(inner, "held_out_", None)) == (n_bags,) else model


def _verdict(held: HeldOut) -> dict:
    n = counted(len(held.target), "bag")
    if held.in_sample:
        text = "It was scored on no bag that it had not seen: `bagwise evaluate` measures how good it is."
    else:
        rmse = shown(METRICS["rmse"].of(held.target, held.prediction))
        text = f"RMSE {rmse} on bags it never saw, the predictions of all folds taken together."
    return {"best": held.label, "headline": f"was fitted on {n}", "sentences": [text]}


def _tiles(held: HeldOut) -> list[dict]:
    if held.in_sample:
        return []
    found = score(held.target, held.prediction, held.std)
    notes = {"rmse": f"spread of targets {shown(float(held.target.std()))}", "mae": "mean absolute error"}
    notes |= {"r2": "1 is perfect, 0 is the mean target"}
    tiles = [{"name": METRIC_NAMES[m], "value": shown(found[m]), "note": note} for m, note in notes.items()]
    return tiles + interval_tiles(held)


def _summary(model) -> dict | None:
    """What an automatic method compared, also inside intervals: its members as a table, its summary as text."""
    model = unwrapped(model)
    rows = getattr(model, "account_", None)
    summary = getattr(model, "summary", None)
    try:
        text = summary() if callable(summary) else None
    except (NotFittedError, TypeError, AttributeError):
        text = None
    columns = _columns(rows) if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
    return {"columns": columns, "text": text if isinstance(text, str) else None} if columns or text else None


def _columns(rows: list[dict]) -> list[Column]:
    made = []
    for key in rows[0]:
        values = [row.get(key) for row in rows]
        plain = all(value is None or isinstance(value, int | float | np.number) for value in values)
        head = key.replace("_", " ")
        how = {"shown": duration} if key == "seconds" else {}
        made.append(numbers(head, values, **how) if plain else texts(head, ["" if v is None else v for v in values]))
    return filled(*made)


def _instances(label: str, model, bags, held: HeldOut) -> dict:
    try:
        explorer = explain_bags(model, bags) | {"what": "fitted" if held.in_sample else "held out"}
    except Exception as error:  # a report with one section less is better than none
        return {"why_not": f"{label}: {error}."}
    text = f"Choose a bag to see its instances as {label} sees them.{explorer.pop('left_out')}"
    return {"explorer": explorer, "more": text}


def _facts(bags, y, label: str, command) -> list[tuple[str, str]]:
    return [
        ("Command", command or "not recorded"),
        ("Method", label),
        ("Data hash", of_data(bags, y)),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())),
        ("Code", of_library()),
    ]
