"""The report of an evaluation or of a fitted model, as one HTML file: template, style sheet and script inside the page.

That of an evaluation says what it found, and what was run: command, data, protocol, versions, seeds, failures.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.exceptions import NotFittedError

from bagwise.bags import check_fit
from bagwise.bags.segments import segment_mean
from bagwise.bags.shared_rows import shares_rows
from bagwise.bags.validation import counted
from bagwise.evaluation import Results
from bagwise.explanations.explanation import unwrapped
from bagwise.io.atomic_files import replace_file
from bagwise.io.table_output import (
    NONE,
    Column,
    duration,
    filled,
    is_known,
    numbers,
    own_name,
    percent,
    shortened,
    shown,
    texts,
    without_controls,
)
from bagwise.metrics import get_metric, score
from bagwise.model_files.fingerprint import describe, of_data, of_library, versions
from bagwise.reports import findings
from bagwise.reports.charts import draw_predictions, draw_scores, draw_worth, map_of_bags, share_bar
from bagwise.reports.explorer import (
    choose_bags,
    chosen_settings,
    coordinates_of,
    data_section,
    explored,
    find_data,
    function_section,
    instances_section,
    values_section,
)
from bagwise.reports.findings import with_deviation
from bagwise.reports.verdict import MEAN, STATUSES, HeldOut, Worth, error_of, held_out_of, judgement, worth

TEMPLATES = Path(__file__).parent / "templates"
# The sections that a page can have, and their titles.
SECTIONS = {"results": "Results", "summary": "Members", "predictions": "Predictions", "profile": "Data"}
SECTIONS |= {"importance": "Features", "novelty": "Unusual bags", "function": "Learned function"}
SECTIONS |= {"values": "Instance values", "bags": "Bags", "facts": "What was run"}
LISTS = ("notes", "tiles", "worth", "predictions", "coverage", "failures", "methods", "facts")
TEXTS = ("predictions_lead", "no_predictions", "coverage_of", "pooled")


def write_page(path, content: dict) -> Path:
    """Render the content and put it in place in one step."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file, such as {path / 'report.html'}")
    text = render(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
    return path


def render(content: dict) -> str:
    """Render the page without sections that have no content. Texts are escaped, unless `charts.tag` did so.

    Control characters of names and ids, which could turn the text around them, are written out. Beside escaping, the
    page carries a policy that lets the browser run our own script, known by its hash, and nothing else, and load
    nothing from anywhere.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def prose(text) -> Markup:
        """Return a text with HTML escaped, and with the parts between backticks shown as code."""
        return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    environment.filters["prose"] = prose
    content = dict.fromkeys(SECTIONS) | {name: [] for name in LISTS} | dict.fromkeys(TEXTS, "") | content
    shown = [part for part in SECTIONS if content[part] or part == "predictions"]
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html").render(
        **content,
        sections=[(SECTIONS[part], "run" if part == "facts" else part) for part in shown],
        script=script,
        script_hash=f"sha256-{digest}",
        covered=any("Targets inside" in row["label"] for row in content["worth"]),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        as_json=as_json,
    )
    return without_controls(page)


def as_json(value) -> str:
    r"""Return JSON for a <script> element: no character can end the element or is a control character.

    Examples
    --------
    >>> as_json({"bag": "</script>&"})
    '{"bag":"\\u003c/script\\u003e\\u0026"}'
    """
    text = json.dumps(_visible(value), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _visible(value):
    """Return plain data with all texts `without_controls`, as the script of the page shows them unchanged."""
    if isinstance(value, str):
        return without_controls(value)
    if isinstance(value, dict):
        return {_visible(name): _visible(item) for name, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


def describe_data(n_bags: int, sizes, n_features: int, targets, *, n_others: int = 0) -> str:
    """Return a sentence on the data; with a fixed split, on the scored bags, and the number of the others."""
    low, high = int(np.min(sizes)), int(np.max(sizes))
    span = counted(low, "instance") if low == high else f"{low:,} to {counted(high, 'instance')}"
    text = f"{counted(n_bags, 'bag')} of {span} ({int(np.sum(sizes)):,} in all), {counted(n_features, 'feature')}"
    values = np.asarray([target for target in targets if is_known(target)], dtype=np.float64)
    if len(values):
        text += f"; targets from {shown(values.min())} to {shown(values.max())}, deviation {shown(values.std())}"
    return f"{text}. The other {counted(n_others, 'bag')} served for training alone." if n_others else f"{text}."


def list_bags(held: HeldOut, places: np.ndarray, ids: list, names: tuple[str, str], bags=None) -> dict:
    """Return the table of some bags, and their map; ``names`` are those of id and target in the user's table."""
    predicted = "fitted" if held.in_sample else "held out"
    columns = [
        texts(names[0], [ids[bag] for bag in held.bag[places].tolist()]),
        numbers("error", np.abs(held.residual[places]), note=f"|{names[1]} − prediction|"),
        numbers(names[1], held.target[places]),
        numbers(predicted, held.prediction[places], note=f"prediction, {predicted}"),
        numbers("size", held.size[places], shown=lambda n: f"{n:,.0f}", note="instances in the bag"),
    ]
    lead = f"{'Fitted' if held.in_sample else 'Held-out'} predictions of {held.label}, largest error first."
    if len(places) < len(held.bag):
        lead += f" Of {len(held.bag):,} bags, the {2 * len(places) // 3} with the largest error and a random sample."
    listed = bags[held.bag[places]] if bags is not None else None
    coordinates = None if listed is None else coordinates_of(listed)  # of the instances, if they were kept
    drawn = None
    if coordinates is not None:
        x, y = segment_mean(coordinates[1], listed.offsets).T
        drawn = {"svg": map_of_bags(x, y, held.residual[places], listed.ids.tolist(), coordinates[0])}
    return {"columns": columns, "lead": lead, "map": drawn, "more": "", "why_not": "", "explorer": None}


# The report of an evaluation ----------------------------------------------------------------------------------------

UNKNOWN = "not recorded"
MOST_FAILURES = 100  # that are listed; all are counted, and are in results.csv


def run_facts(results) -> list[tuple[str, str]]:
    """Return names and values of the facts of a run."""
    record = results.record
    origin, data = record.get("origin") or {}, record["data"]
    repeats = list(dict.fromkeys(repeat for repeat, _ in results.splits))
    folds = len(results.splits) // max(len(repeats), 1)
    cells = results.rows("table")
    seconds = float(sum(cell["seconds"] or 0.0 for cell in cells)) if cells else None
    seed = record.get("random_state")
    seeds = UNKNOWN if seed is None else ", ".join(str(seed + repeat) for repeat in repeats[:12])
    versions = record.get("versions") or {}
    return [
        ("Command", origin.get("command") or UNKNOWN),
        ("Data", f"{data['name']}: {counted(data['bags'], 'bag')}, {counted(data['instances'], 'instance')}"),
        ("Data hash", data["hash"]),
        ("Splits", f"{counted(len(repeats), 'repeat')} of {counted(folds, 'fold') if folds > 1 else 'one split'}"),
        ("Selection", results.selection_text()),
        ("Ranked by", get_metric(results.metric).label),
        ("Seeds", seeds + (", …" if seed is not None and len(repeats) > 12 else "")),
        ("Cells", f"{len(record['cells'])}: {results.missing} to be run, {len(results.failures)} failed"),
        ("Computing", f"{duration(seconds)} in all cells together"),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items()) or UNKNOWN),
        ("Code", record["library"]),
    ]


MOST_METHODS = 20  # with plots of their own


def write_report(
    run,
    path,
    *,
    data=None,
    bags=None,
    y=None,
    model=None,
    explore: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write what an evaluation found as one HTML file that needs nothing else.

    Three steps that never mix: what the run found becomes plain data, plain data becomes plots, both fill a template.
    Scores and predictions are of held-out bags. The explorer and the learned function are of one model fitted on all
    bags: the best method of the run, with the setting that its folds chose most often. For that the data is read again
    from where the run had it; if it is gone or has changed, the report states it there and shows the rest.

    Parameters
    ----------
    run : Results, or the folder of an evaluation, finished or not
    path : file to write, .html
    data : table, optional
        Where the data is now, if it moved. It must be the same data.
    bags, y : optional
        The data itself, for results that were made in Python.
    model : fitted bag regressor, optional
        What to explain instead of the best method fitted again.
    explore : bool
        Whether to fit a model for the explorer at all.
    tell : function of a text, called before anything that takes time

    Returns
    -------
    Path of the file

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> bags, y = bw.testing.contract_checks.sample(30)
    >>> results = bw.evaluate(bags, y, ["aggregated"], repeats=1)
    >>> write_report(results, tempfile.mkdtemp() + "/report.html", bags=bags, y=y).name
    'report.html'
    """
    results = run if isinstance(run, Results) else Results.load(run)
    if results.record.get("learning_curve"):
        raise ValueError("these are the fits of a learning curve, not an evaluation; learning_curve.csv has its table")
    ranked = results.ranked()
    predictions = ((row["method"], findings.held_out(results, row["method"])) for row in ranked)
    held = {method: held_out for method, held_out in predictions if held_out is not None}
    bags, y, why_not = find_data(results, data, bags, y)
    if explore and why_not:
        tell(f"Without bag explorer: {why_not}")
    why_not = why_not if explore else ""
    if held and bags is not None:
        first = next(iter(held))
        held[first] = held[first].with_baselines(bags, y)
    content = _summarised(results, ranked, held)
    if held:
        best = next(iter(held.values()))
        labels = None if results.by is None else np.asarray(results.by["labels"])[best.bag]
        content |= {"coverage": findings.coverage_table(best, labels), "coverage_of": best.label}
        places = choose_bags(best)
        listed = list_bags(best, places, results.record["data"]["ids"], results.own_names(), bags)
        content["bags"] = listed | {"why_not": why_not}
        if bags is not None:
            content["notes"] += _shared_rows(bags)
        if explore and bags is not None:  # what is inside them
            more, function, values = explored(results, best.bag[places], bags, y, model=model, tell=tell)
            content["bags"] |= more
            content |= {"function": function, "values": values, "profile": data_section(bags, y)}
    return write_page(path, content)


def _summarised(results, ranked: list[dict], held: dict[str, HeldOut]) -> dict:
    metric, data, targets = get_metric(results.metric).label, results.record["data"], {}
    for method in results.methods:  # as far as cells know the targets
        for cell in (results.cell(method, split) for split in results.splits):
            targets |= dict(zip(cell["bags"], cell["targets"], strict=True)) if cell else {}
    chosen, n_splits = results.selection_text(), len(set(results.distinct_splits().tolist()))
    lead = "Every method was trained on the same bags and scored on the same others"
    if n_splits > 1:
        lead = f"Every method was trained and scored on the same {n_splits} splits of bags"
    lead += f". {chosen[0].upper()}{chosen[1:]}."
    about = {
        "lead": f"{lead} Scores are means of splits, ± their standard deviation." if n_splits > 1 else lead,
        "several": n_splits > 1,
        "columns": findings.results_table(results, ranked, held),
        "metric": metric,
        "pairs": findings.pairs_table(results),
        "metrics": findings.metrics_table(results, ranked),
        "by": findings.by_table(results, ranked[0]["method"]),
    }
    repeats = {held_out.repeat for held_out in held.values()}
    which = f" (repeat {repeats.pop()})" if len(repeats) == 1 else ""
    which_bags = f"Each bag once, predicted by a model that never saw it{which}. Open a method to see its plots."
    which_bags += f" The best {MOST_METHODS} of {len(held)} methods." if len(held) > MOST_METHODS else ""
    of_splits = ", mean of splits" if n_splits > 1 else ""
    aside = {row["method"]: f"{metric} {shown(row[results.metric])}{of_splits}" for row in ranked}
    pooled = " Errors here are over all bags of one repeat together; the table below has means of splits."
    failed = zip(*results.failures[:MOST_FAILURES], strict=True)
    heads = ("method", "repeat", "fold", "error")
    return {
        "kind": "evaluation",
        "title": str(data["name"]),
        "data": _describe_scored(data, targets),
        "notes": findings.notes(results),
        **_first_screen(results, ranked, held.get(ranked[0]["method"])),
        "results": about | draw_scores(results, ranked, findings.differences(results)),
        "predictions": [draw_predictions(held[method], aside[method]) for method in list(held)[:MOST_METHODS]],
        "predictions_lead": which_bags,
        "pooled": pooled if n_splits > 1 else "",
        "no_predictions": "No held-out predictions are kept: many settings were scored on the same folds, or no cell "
        "has finished.",
        "facts": run_facts(results),
        "failures": [texts(*column) for column in zip(heads, failed, strict=False)],
        "n_failures": len(results.failures),
        "methods": [
            {
                "method": method,
                "estimator": shortened(about_method["estimator"], 6000),
                "settings": [(name or "default settings", n) for name, n in chosen_settings(results, method).items()],
            }
            for method, about_method in results.record["methods"].items()
        ],
    }


def _describe_scored(data: dict, targets: dict) -> str:
    """Return the sentence on the data: on all bags, or on those that were scored where some never are."""
    scored = sorted(targets) if targets else range(data["bags"])
    sizes = [data["sizes"][bag] for bag in scored] if data["sizes"] else data["sizes"]
    return describe_data(len(scored), sizes, data["features"], targets.values(), n_others=data["bags"] - len(scored))


def _shared_rows(bags) -> list[str]:
    """Return a note where more than a few percent of the instances occur in several bags."""
    shared = shares_rows(bags)
    return [] if shared is None else [str(shared.describe())]


def _first_screen(results, ranked: list[dict], best: HeldOut | None) -> dict:
    """Return the verdict, the large numbers, and the chart of the best method beside the baselines."""
    parts = findings.verdict(results, ranked)
    comparison = worth(best) if best is not None and parts["best"] is not None else None
    judged = judgement(comparison) if comparison else {"status": "", "badge": "", "sentences": []}
    if comparison is not None:
        parts["sentences"] += judged["sentences"][:1]
    return {
        "verdict": parts | {"status": judged["status"], "badge": judged["badge"]},
        "tiles": findings.tiles(results, ranked, best),
        "worth": draw_worth(best.label, comparison) if best is not None and comparison else [],
    }


# The report of a model ----------------------------------------------------------------------------------------------


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
        A prediction of every bag by a model that never saw it. Default: those of intervals, or ``model.held_out_``
        (``bw.method("auto")``). Without, there is no held-out score, and the report states that.
    fold, std : arrays, optional
        The fold of every bag (default ``model.fold_``), and the standard deviation of its prediction if there is one.
    name : what the data set is called
    method : what the model is called
    command : the command that was typed, to be written down

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> bags, y = bw.testing.contract_checks.sample(30)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> write_model_report(tempfile.mkdtemp() + "/model.html", model, bags, y, method="aggregated").name
    'model.html'
    """
    about = {"name": name, "method": method, "command": command}
    if hasattr(model, "target_names_"):
        content = _several(model, bags, np.asarray(y, dtype=np.float64), held_out, about)
    else:
        content = _content(model, bags, y, held_out=held_out, fold=fold, std=std, **about)
    return write_page(path, content)


def _several(model, bags, y: np.ndarray, held_out, about: dict) -> dict:
    """Return one page for several targets: plots and scores of each, bags and instances of the first."""
    if y.shape != (len(bags), len(model.target_names_)):
        raise ValueError(f"y has shape {y.shape}; give a row per bag and a column for each of {model.target_names_}")
    pages = []
    for k, (name, estimator) in enumerate(zip(model.target_names_, model.estimators_, strict=True)):
        has_target = ~np.isnan(y[:, k])
        part, held = bags[has_target]._with(target_name=name), None if held_out is None else held_out[has_target, k]
        page = _content(estimator, part, y[has_target, k], held_out=held, **about)
        pages.append(page)
        page["tiles"] = [tile | {"name": f"{name}: {tile['name']}"} for tile in page["tiles"]]
        page["worth"] = [row | {"label": f"{name}: {row['label']}"} for row in page["worth"]]
        page["predictions"] = [plots | {"label": name} for plots in page["predictions"]]
        page["methods"] = [row | {"method": f"{row['method']}, {name}"} for row in page["methods"]]
        page["verdict"]["sentences"] = [f"{name}: {page['verdict']['sentences'][0]}"]
    first, texts = pages[0], [page["verdict"]["sentences"][0] for page in pages]
    headline = f"was fitted on {counted(len(bags), 'bag')} for {counted(len(pages), 'target')}"
    first["bags"]["lead"] = f"{model.target_names_[0]}: {first['bags']['lead']}"
    lists = ("tiles", "worth", "predictions", "methods")
    joined = {name: [entry for page in pages for entry in page[name]] for name in lists}
    targets = [page["profile"]["charts"][0] for page in pages]
    joined["profile"] = first["profile"] | {"charts": targets + first["profile"]["charts"][1:]}
    # One word for all: that of the target that is predicted worst.
    worst = max((page["verdict"] for page in pages), key=lambda verdict: STATUSES.index(verdict["status"]))
    return first | joined | {"verdict": worst | {"headline": headline, "sentences": texts}}


def _content(model, bags, y, *, held_out=None, fold=None, std=None, name, method, command) -> dict:
    bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
    label = method or type(model).__name__
    held = held_out_of(label, model, bags, y, held_out=held_out, fold=fold, std=std).with_baselines(bags, y)
    places, comparison, scored = choose_bags(held), worth(held), bags[held.bag]
    shared = shares_rows(bags)
    names = own_name(bags.id_name, "bag", ()), held.target_name
    measured = findings.importance_section(model, bags, y, held.metric)
    listed = list_bags(held, places, bags.ids.tolist(), names, bags)
    listed |= instances_section(label, model, scored[places], predicted="fitted" if held.in_sample else "held out")
    return {
        "kind": "model",
        "title": name,
        "notes": _shared_rows(bags),
        "data": describe_data(
            len(scored), scored.sizes, bags.n_features, held.target, n_others=len(bags) - len(scored)
        ),
        "verdict": _verdict(held, comparison),
        "tiles": _tiles(held, comparison, _seconds_per_bag(model, scored[places])),
        "worth": draw_worth(label, comparison) if comparison else [],
        "summary": _summary(model),
        "profile": data_section(bags, y, measured and measured["order"]),
        "predictions": [draw_predictions(held, "")],
        "predictions_lead": "In sample: the model saw these bags."
        if held.in_sample
        else "Each bag once, predicted by a model that never saw it." + (f" {shared.figures()}." if shared else ""),
        "coverage": findings.coverage_table(held, scored.groups),
        "importance": measured,
        "novelty": findings.novelty_section(scored, held),
        "bags": listed,
        "function": function_section(label, model, bags),
        "values": values_section(label, model, bags, y),
        "facts": [
            ("Command", command or UNKNOWN),
            ("Method", label),
            *([("Shared rows", str(shared.describe()))] if shared else []),
            ("Data hash", of_data(bags, y)),
            ("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())),
            ("Code", of_library()),
        ],
        "methods": [{"method": label, "estimator": describe(model), "settings": []}],
    }


MOST_TIMED = 50  # bags that are predicted to take the time


def _seconds_per_bag(model, bags) -> float:
    """Measure the time to predict a bag, over some of the bags in one call."""
    timed = bags[:MOST_TIMED]
    start = perf_counter()
    model.predict(timed)
    return (perf_counter() - start) / len(timed)


def _verdict(held: HeldOut, comparison: Worth | None) -> dict:
    n, parts = counted(len(held.target), "bag"), judgement(comparison)
    if comparison is None:
        text = "It was scored on no bag that it had not seen: `bagwise evaluate` measures its error."
        return parts | {"best": held.label, "headline": f"was fitted on {n}", "sentences": [text]}
    rival = comparison.rival if comparison.beats(MEAN) else MEAN
    headline = f"does not predict new bags better than {rival}"
    headline += ", so it predicts that mean" if comparison.predicts_mean else ""
    if comparison.better:
        headline = f"predicts new bags with {percent(comparison.gain)} less error than {rival}"
    elif comparison.error > comparison.mean_error:
        headline = f"predicts new bags worse than {MEAN}"
    error = f"{get_metric(comparison.metric).label} {shown(comparison.error)}"
    text = f"{error} on bags it never saw: each of the {n} was predicted by a model fitted without it."
    return parts | {"best": held.label, "headline": headline, "sentences": [text, *parts["sentences"]]}


def _tiles(held: HeldOut, comparison: Worth | None, seconds: float) -> list[dict]:
    sizes = f"{shown(float(held.size.mean()))} instances each on average"
    tiles = [{"name": "Bags", "value": f"{len(held.target):,}", "note": sizes}]
    if comparison is not None:
        scores = score(held.target, held.prediction, held.std)
        other, weight = ("mae", "large errors count less")
        if comparison.metric != "rmse":
            other, weight = ("rmse", "large errors count more")
        label = get_metric(comparison.metric).label
        near = f"± {shown(2 * comparison.error_se, 2)} (two standard errors); same unit as the target"
        tiles = [
            {
                "name": f"Typical error ({label})",
                "value": shown(comparison.error),
                "note": near,
            },
            {"name": get_metric(other).in_full.capitalize(), "value": shown(scores[other]), "note": weight},
            {"name": "Variance explained (R²)", "value": shown(scores["r2"], 2), "note": "1 is perfect, 0 is the mean"},
            *tiles,
        ]
    return [*tiles, {"name": "Prediction", "value": duration(seconds), "note": "a bag, where this report was written"}]


def _summary(model) -> dict | None:
    """Return members and summary of an automatic method, also inside intervals; None for other methods."""
    model = unwrapped(model)
    rows = getattr(model, "trials_", None)
    summary = getattr(model, "summary", None)
    try:
        text = summary() if callable(summary) else None
    except (NotFittedError, TypeError, AttributeError):
        text = None
    columns = None
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        if getattr(model, "kind_", None) == "blend" and "error" in getattr(model, "scores_", {}):
            # its error is of blends that were decided without the fold
            rows = [*rows, {"member": "the blend", "error": model.scores_["error"], "status": "chosen: this model"}]
        columns = members_table(rows, error_of(model))
    return {"columns": columns, "text": text if isinstance(text, str) else None} if columns or text else None


# What the columns of members are called: the key of a row, the head, and a note.
MEMBERS = {
    "member": ("member", ""),
    "error": ("typical error ({})", "of all held-out bags, each predicted without its fold, ± its standard error"),
    "difference": ("behind the best", "typical error minus that of the best member"),
    "weight": ("weight", "share in the prediction of the blend"),
    "fit_seconds": ("time to fit", "all folds together"),
    "predict_seconds": ("to predict", "all folds together"),
    "seconds": ("time", "all folds together"),
    "status": ("outcome", ""),
}
OUTCOMES = {"blended": "in the blend", "tried": "compared", "dropped": "given up early", "skipped": "not tried"}


def members_table(rows: list[dict], metric: str = "rmse") -> list[Column]:
    """Return the members by error, the best first and marked, weights as bars; ``metric`` is that of the error."""
    first = rows[0]
    loss = get_metric(metric).loss
    rows = sorted(rows, key=lambda row: loss(row["error"]) if is_known(row.get("error")) else np.inf)
    fixed = [key for key in MEMBERS if key in first and not (key == "seconds" and "fit_seconds" in first)]
    extra = [key for key in first if key not in {*MEMBERS, "error_se", "difference_se", "why"}]
    columns = [_member_column(key, rows, get_metric(metric).label) for key in fixed + extra]
    if is_known(rows[0].get("error")):
        columns[0] = replace(columns[0], marks=["★ best" if row is rows[0] else "" for row in rows])
    return [column for column in filled(*columns) if column.values is not None or any(column.texts)]


def _member_column(key: str, rows: list[dict], label: str) -> Column:
    head, note = MEMBERS.get(key, (key.replace("_", " "), ""))
    head = head.format(label)
    values = [row.get(key) for row in rows]
    if key == "weight":
        shares = [value or 0.0 for value in values]
        drawings = [share_bar(min(max(share, 0.0), 1.0)) if share else "" for share in shares]
        return Column(head, [percent(share) if share else NONE for share in shares], shares, note, drawings)
    if key == "status":
        reasons = [row.get("why") for row in rows]
        pairs = zip(values, reasons, strict=True)
        return texts(head, [": ".join(filter(None, (OUTCOMES.get(value, value), why))) for value, why in pairs])
    if key == "member" or any(isinstance(value, str) for value in values):
        return texts(head, [value or "" for value in values])
    if key == "error":
        return with_deviation(head, values, [row.get("error_se") for row in rows], note)
    how = {"shown": duration} if key.endswith("seconds") else {}
    return numbers(head, values, note=note, **how)
