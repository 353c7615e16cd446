"""The report of an evaluation or of a fitted model, as one HTML file: template, style sheet and script inside the page.

The report of an evaluation states the results and how they were obtained: command, data, protocol, versions, seeds
and failures.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from bagwise.bags import check_bags, check_fit
from bagwise.bags.folds import units_of
from bagwise.bags.segments import segment_mean
from bagwise.bags.shared_rows import SHARED_ROWS, shares_rows
from bagwise.bags.validation import aligned, counted
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
from bagwise.reports import explorer, findings
from bagwise.reports.figures import draw_predictions, map_of_bags, share_bar
from bagwise.reports.verdict import MEAN, STATUSES, HeldOut, Worth, error_of, held_out_of, judgement, worth

TEMPLATES = Path(__file__).parent / "templates"
# The sections that a page can have, and their titles.
SECTIONS = {"results": "Results", "summary": "Members", "predictions": "Predictions", "profile": "Data"}
SECTIONS |= {"importance": "Features", "novelty": "Unusual bags", "function": "Learned function"}
SECTIONS |= {"values": "Instance values", "bags": "Bags", "run": "What was run"}


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
    """Render the page without sections that have no content. All texts are escaped; figures are markup.

    Control characters in names and ids are escaped, because they could reverse the direction of text. In addition, a
    content security policy allows only our script, identified by its hash, and no external resources.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup, escape

    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["prose"] = lambda text: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 (escaped first)
    environment.filters |= {"at": _place, "ticks": findings.ticks, "percent": percent}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = [name for name in SECTIONS if content.get(name) or name in ("predictions", "run")]
    page = environment.get_template("report.html").render(
        **content,
        sections={name: SECTIONS[name] for name in shown},
        script=script,
        script_hash=f"sha256-{digest}",
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
    )
    return without_controls(page)


def _place(value: float, axis: tuple[float, float] | None = None) -> str:
    """Return the position of a share of the width, or of a number on an axis, clipped to the edges."""
    if axis is not None:
        value = 0.03 + 0.94 * (min(max(value, axis[0]), axis[1]) - axis[0]) / (axis[1] - axis[0])
    return f"{100 * value:.2f}%"


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
        numbers("size", held.size[places], shown="{:,.0f}".format, note="instances in the bag"),
    ]
    lead = f"{predicted.capitalize().replace(' ', '-')} predictions of {held.label}, largest error first."
    if len(places) < len(held.bag):
        lead += f" Of {len(held.bag):,} bags, the {2 * len(places) // 3} with the largest error and a random sample."
    section: dict = {"columns": columns, "lead": lead}
    listed = None if bags is None else bags[held.bag[places]]
    coordinates = None if listed is None else explorer.coordinates_of(listed)  # of the instances, if they were kept
    if coordinates is not None:
        x, y = segment_mean(coordinates[1], listed.offsets).T
        section["map"] = map_of_bags(x, y, held.residual[places], listed.ids.tolist(), coordinates[0])
    return section


def worth_rows(label: str, judged: Worth | None) -> list[dict]:
    """Return the rows of the first chart: errors of the baselines and the model as bars, and the share covered."""
    if judged is None:
        return []
    low, high = max(judged.error - 2 * judged.error_se, 0.0), judged.error + 2 * judged.error_se
    top, rows = max(*judged.baseline_errors.values(), high) or 1.0, []
    for subject, error in {**judged.baseline_errors, label: judged.error}.items():
        text = f"{get_metric(judged.metric).label} of {subject}"
        rows.append({"label": text, "value": shown(error), "title": f"{text}: {shown(error)}", "share": error / top})
    rows[-1]["interval"] = low / top, high / top
    rows[-1]["title"] += f", 95 % interval {shown(low)} to {shown(high)}"
    if judged.covered is not None:
        text, (low, high) = f"inside their {percent(judged.level)} intervals", judged.expected
        place = f"{'inside' if low <= judged.covered <= high else 'outside'} the range of chance"
        title = f"{percent(judged.covered)} of the targets lie {text}, {place}, {percent(low)} to {percent(high)}"
        row = {"label": f"Targets {text}", "value": percent(judged.covered), "title": title}
        rows.append(row | {"share": judged.covered, "chance": judged.expected, "level": judged.level})
    return rows


def _shared_rows(bags) -> list[str]:
    """Return a note where more than a few percent of the instances occur in several bags."""
    shared, option = shares_rows(bags), f"groups={SHARED_ROWS!r}"
    return [] if shared is None else [f"{shared.describe()}.".replace(option, f"`{option}` (`--groups {SHARED_ROWS}`)")]


# The report of an evaluation ----------------------------------------------------------------------------------------

UNKNOWN = "not recorded"
MOST_FAILURES = 100  # failures listed on the page; results.csv contains all of them
MOST_METHODS = 20  # methods with separate plots


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
    """Write the results of an evaluation as one HTML file that needs nothing else.

    Scores and predictions are of held-out bags. The explorer and the learned function are of one model fitted on all
    bags: the best method of the run, with the setting that its folds chose most often. For this the data is read again
    from its recorded path; if it is missing or has changed, the report states this and omits these sections.

    Parameters
    ----------
    run : Results, or the folder of an evaluation, finished or not
    path : file to write, .html
    data : table, optional
        The current location of the data, if it was moved. The data must be unchanged.
    bags, y : optional
        The data itself, for results that were made in Python.
    model : fitted bag regressor, optional
        A model to explain instead of the best method, which is otherwise fitted again.
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
    n_cells = len(results.record["cells"])
    if results.record.get("learning_curve"):
        raise ValueError("these are the fits of a learning curve, not an evaluation; learning_curve.csv has its table")
    if results.missing == n_cells:
        text = f"the evaluation has no results: {n_cells} of {n_cells} cells have not run, or their files are damaged"
        raise ValueError(f"{text}; run the command that made the folder again, which continues it")
    ranked = results.ranked()
    bags, y, why_not = explorer.find_data(results, data, bags, y)
    if explore and why_not:
        tell(f"Without bag explorer: {why_not}")
    units = None if bags is None else units_of(bags)
    predictions = ((row["method"], findings.held_out(results, row["method"], units)) for row in ranked)
    held = {method: held_out for method, held_out in predictions if held_out is not None}
    if held and bags is not None:
        first = next(iter(held))
        held[first] = held[first].with_baselines(bags, y)
    content = _summarised(results, ranked, held)
    if held:
        best = next(iter(held.values()))
        labels = None if results.by is None else np.asarray(results.by["labels"])[best.bag]
        content |= {"coverage": findings.coverage_table(best, labels), "coverage_of": best.label, "level": best.level}
        places = explorer.choose_bags(best)
        content["bags"] = list_bags(best, places, results.record["data"]["ids"], results.column_names(), bags)
        content["bags"]["why_not"] = explore and why_not
        if bags is not None:
            content["notes"] += _shared_rows(bags)
        if explore and bags is not None:  # what is inside them
            more, function, values = explorer.explored(results, best.bag[places], bags, y, model=model, tell=tell)
            content["bags"] |= more
            content |= {"function": function, "values": values, "profile": explorer.data_section(bags, y)}
    return write_page(path, content)


def _summarised(results, ranked: list[dict], held: dict[str, HeldOut]) -> dict:
    """Return the content of the page that needs the results alone."""
    metric, data, targets = get_metric(results.metric).label, results.record["data"], {}
    for method in results.methods:  # as far as cells know the targets
        for cell in (results.cell(method, split) for split in results.splits):
            targets |= dict(zip(cell["bags"], cell["targets"], strict=True)) if cell else {}
    scored = sorted(targets) or range(data["bags"])
    sizes, n_others = [data["sizes"][bag] for bag in scored], data["bags"] - len(scored)
    chosen, n_splits = results.selection_text(), len(set(results.distinct_splits().tolist()))
    of_splits = ", mean of splits" if n_splits > 1 else ""
    aside = {row["method"]: f"{metric} {shown(row[results.metric])}{of_splits}" for row in ranked}
    failed = zip(*results.failures[:MOST_FAILURES], strict=True)
    settings = {method: explorer.chosen_settings(results, method).items() for method in results.methods}
    first_screen = findings.verdict(results, ranked)
    best = held.get(ranked[0]["method"]) if first_screen["best"] is not None else None
    judged = None if best is None else worth(best)
    if judged is not None:
        verdict = judgement(judged)
        first_screen |= verdict | {"sentences": first_screen["sentences"] + verdict["sentences"][:1]}
    return {
        "kind": "evaluation",
        "title": str(data["name"]),
        "data": describe_data(len(scored), sizes, data["features"], targets.values(), n_others=n_others),
        "notes": findings.notes(results),
        "verdict": {"status": "", "badge": ""} | first_screen,
        "tiles": findings.tiles(results, ranked, best),
        "worth": [] if best is None else worth_rows(best.label, judged),
        "results": {
            "n_splits": n_splits,
            "selection": chosen[0].upper() + chosen[1:],
            "columns": findings.results_table(results, ranked, held),
            "metric": metric,
            "pairs": findings.pairs_table(results),
            "metrics": findings.metrics_table(results, ranked),
            "by": findings.by_table(results, ranked[0]["method"]),
            "chart": findings.score_chart(results, ranked),
        },
        "predictions": [draw_predictions(held[method], aside[method]) for method in list(held)[:MOST_METHODS]],
        "repeats": sorted({held_out.repeat for held_out in held.values()}),
        "n_predicted": len(held),
        "facts": run_facts(results),
        "failures": list(map(texts, ("method", "repeat", "fold", "error"), failed)),
        "n_failures": len(results.failures),
        "methods": [
            {
                "method": method,
                "estimator": shortened(about["estimator"], 6000),
                "settings": [(name or "default settings", n) for name, n in settings[method]],
            }
            for method, about in results.record["methods"].items()
        ],
    }


def run_facts(results) -> list[tuple[str, str]]:
    """Return names and values of the facts of a run."""
    record = results.record
    origin, data = record.get("origin") or {}, record["data"]
    repeats = list(dict.fromkeys(repeat for repeat, _ in results.splits))
    folds = len(results.splits) // max(len(repeats), 1)
    seconds, seed = sum(cell["seconds"] or 0.0 for cell in results.rows("table")), record.get("random_state")
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


# The report of a model ----------------------------------------------------------------------------------------------

MOST_TIMED = 50  # bags that are predicted in one call, to take the time


def write_model_report(
    path, model, bags, y, *, held_out=None, fold=None, std=None, name: str = "data", method=None, command=None
) -> Path:
    """Write a report of a fitted model and its training bags as one self-contained HTML file.

    Parameters
    ----------
    path : file to write, .html
    model : fitted bag regressor
    bags, y : what it was fitted on; for a `MultiTarget`, a column of y per target
    held_out : array, optional
        A prediction of each bag by a model fitted without it. Default: those of intervals, or ``model.held_out_``
        (``bw.method("auto")``). Without them the report has no held-out score, and states this.
    fold, std : arrays, optional
        The fold of every bag (default ``model.fold_``), and the standard deviation of its prediction if there is one.
    name : name of the data set
    method : name of the model
    command : the command line, shown on the page

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> bags, y = bw.testing.contract_checks.sample(30)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> write_model_report(tempfile.mkdtemp() + "/model.html", model, bags, y, method="aggregated").name
    'model.html'
    """
    about = {"name": name, "method": method, "command": command}
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    columns = {"y": y, "held_out": held_out, "fold": fold, "std": std}
    y, held_out, fold, std = (
        None if values is None else np.asarray(aligned(values, bags, role)) for role, values in columns.items()
    )
    if hasattr(model, "target_names_"):
        content = _several(model, bags, y.astype(np.float64), held_out, about)
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
        page["tiles"] = [(f"{name}: {head}", *tile) for head, *tile in page["tiles"]]
        page["worth"] = [row | {"label": f"{name}: {row['label']}"} for row in page["worth"]]
        page["predictions"] = [plots | {"label": name} for plots in page["predictions"]]
        page["methods"] = [row | {"method": f"{row['method']}, {name}"} for row in page["methods"]]
        verdict = page["verdict"]
        verdict["sentences"] = [f"{name}: {verdict['badge'].lower()}. {verdict['sentences'][0]}"]
    first, name = pages[0], model.target_names_[0]
    headline = f"was fitted on {counted(len(bags), 'bag')} for {counted(len(pages), 'target')}"
    for section in ("bags", "importance", "novelty"):
        if first[section]:
            first[section]["lead"] = f"{name}: {first[section]['lead']}"
    first["profile"]["charts"][:1] = [page["profile"]["charts"][0] for page in pages]
    first["profile"]["more"] = f"The target is {name}. {first['profile']['more']}"
    lists = ("tiles", "worth", "predictions", "methods")
    joined: dict = {part: [entry for page in pages for entry in page[part]] for part in lists}
    joined |= {"coverage_of": name, "data": describe_data(len(bags), bags.sizes, bags.n_features, [])}
    # Show one verdict: that of the target with the worst predictions.
    worst = max((page["verdict"] for page in pages), key=lambda verdict: STATUSES.index(verdict["status"]))
    sentences = [page["verdict"]["sentences"][0] for page in pages]
    return first | joined | {"verdict": worst | {"headline": headline, "sentences": sentences}}


def _content(model, bags, y, *, held_out=None, fold=None, std=None, name, method, command) -> dict:
    bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
    label = method or type(model).__name__
    held = held_out_of(label, model, bags, y, held_out=held_out, fold=fold, std=std).with_baselines(bags, y)
    places, judged, scored = explorer.choose_bags(held), worth(held), bags[held.bag]
    names = own_name(bags.id_name, "bag", ()), held.target_name
    measured = findings.importance_section(model, bags, y, held.metric)
    listed = list_bags(held, places, bags.ids.tolist(), names, bags)
    listed |= explorer.instances_section(
        label, model, scored[places], predicted="fitted" if held.in_sample else "held out"
    )
    n_others = len(bags) - len(scored)
    timed, started = scored[places[:MOST_TIMED]], perf_counter()
    model.predict(timed)
    seconds = (perf_counter() - started) / len(timed)
    return {
        "kind": "model",
        "title": name,
        "notes": _shared_rows(bags),
        "data": describe_data(len(scored), scored.sizes, bags.n_features, held.target, n_others=n_others),
        "verdict": _verdict(held, judged),
        "tiles": _tiles(held, judged, seconds),
        "worth": worth_rows(label, judged),
        "summary": _members(model),
        "profile": explorer.data_section(bags, y, measured and measured["order"]),
        "predictions": [draw_predictions(held, "")],
        "in_sample": held.in_sample,
        "coverage": findings.coverage_table(held, scored.groups),
        "level": held.level,
        "importance": measured,
        "novelty": findings.novelty_section(scored, held),
        "bags": listed,
        "function": explorer.function_section(label, model, bags),
        "values": explorer.values_section(label, model, bags, y),
        "facts": [
            ("Command", command or UNKNOWN),
            ("Method", label),
            ("Data hash", of_data(bags, y)),
            ("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())),
            ("Code", of_library()),
        ],
        "methods": [{"method": label, "estimator": describe(model), "settings": []}],
    }


def _verdict(held: HeldOut, judged: Worth | None) -> dict:
    n, parts = counted(len(held.target), "bag"), judgement(judged)
    if judged is None:
        text = "It was scored on no bag that it had not seen: `bagwise evaluate` measures its error."
        return parts | {"best": held.label, "headline": f"was fitted on {n}", "sentences": [text]}
    rival = judged.rival if judged.beats(MEAN) else MEAN
    headline = f"does not predict new bags {'clearly ' if judged.gain > 0 else ''}better than {rival}"
    headline += ", so it predicts that mean" if judged.predicts_mean else ""
    if judged.better:
        headline = f"predicts new bags with {percent(judged.gain)} less error than {rival}"
    elif judged.error > judged.mean_error:
        headline = f"predicts new bags worse than {MEAN}"
    error = f"{get_metric(judged.metric).label} {shown(judged.error)}"
    text = f"{error} on bags it never saw: each of the {n} was predicted by a model fitted without it."
    return parts | {"best": held.label, "headline": headline, "sentences": [text, *parts["sentences"]]}


def _tiles(held: HeldOut, judged: Worth | None, seconds: float) -> list[tuple[str, str, str]]:
    tiles = []
    if judged is not None:
        scores, other = score(held.target, held.prediction), "mae" if judged.metric == "rmse" else "rmse"
        name, weight = f"Typical error ({get_metric(judged.metric).label})", "less" if other == "mae" else "more"
        near = f"± {shown(2 * judged.error_se, 2)} (two standard errors); same unit as the target"
        tiles = [
            (name, shown(judged.error), near),
            (get_metric(other).in_full.capitalize(), shown(scores[other]), f"large errors count {weight}"),
            ("Variance explained (R²)", shown(scores["r2"], 2), "1 is perfect, 0 is the mean"),
        ]
    tiles.append(("Bags", f"{len(held.target):,}", f"{shown(held.size.mean())} instances each on average"))
    return [*tiles, ("Prediction", duration(seconds), "a bag, where this report was written")]


CHOSEN = "chosen: this model"
OUTCOMES = {"blended": "in the blend", "tried": "compared", "dropped": "given up early", "skipped": "not tried"}


def _members(model) -> dict | None:
    """Return members (by error, weights as bars) and summary of an automatic method; None for other methods."""
    model = unwrapped(model)
    if not hasattr(model, "trials_"):
        return None
    rows, metric = model.trials_, get_metric(error_of(model))
    if getattr(model, "kind_", None) == "blend":  # its error is of blends that were decided without the fold
        rows = [*rows, {"member": "the blend", "error": model.scores_["error"], "status": CHOSEN}]
    rows = sorted(rows, key=lambda row: metric.loss(row["error"]) if is_known(row["error"]) else np.inf)

    def of(key: str) -> list:
        return [row.get(key) for row in rows]

    # a member that was not tried took no time
    seconds = {key: [value or None for value in of(key)] for key in ("fit_seconds", "predict_seconds")}
    weights = [weight or 0.0 for weight in of("weight")]
    marks = ["★ best" if row is rows[0] and is_known(row["error"]) else "" for row in rows]
    outcomes = [
        CHOSEN if weight == 1 else OUTCOMES.get(status, status) + (f": {why}" if why else "")
        for status, weight, why in zip(of("status"), weights, of("why"), strict=True)
    ]
    note = "of all held-out bags, each predicted without its fold, ± its standard error"
    columns = filled(
        replace(texts("member", of("member")), marks=marks),
        findings.with_deviation(f"typical error ({metric.label})", of("error"), of("error_se"), note),
        numbers("behind the best", of("difference"), note="typical error minus that of the best member"),
        Column(
            "weight",
            [percent(weight) if weight else NONE for weight in weights],
            weights,
            "share in the prediction of the blend",
            [share_bar(weight) if weight else "" for weight in weights],
        ),
        numbers("time to fit", seconds["fit_seconds"], shown=duration, note="all folds together"),
        numbers("to predict", seconds["predict_seconds"], shown=duration, note="all folds together"),
        texts("outcome", outcomes),
    )
    return {"columns": columns, "text": model.summary()}
