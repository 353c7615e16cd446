"""The report of an evaluation: what it found, and what was run (command, data, protocol, versions, seeds, failures)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from bagwise.evaluation import Results
from bagwise.io.table_output import duration
from bagwise.reports import findings
from bagwise.reports.charts import draw_predictions, draw_scores
from bagwise.reports.explorer import choose_bags, chosen_settings, explored, find_data
from bagwise.reports.findings import METRIC_NAMES, HeldOut, held_out
from bagwise.reports.page import blank, sections, write_page
from bagwise.reports.text import Column, counted, filled, is_known, numbers, shortened, shown, texts

UNKNOWN = "not recorded"
MOST_FAILURES = 100  # that are listed; all are counted, and are in results.csv


def describe_data(n_bags: int, sizes, n_features: int, targets) -> str:
    """The data in a sentence."""
    low, high = int(np.min(sizes)), int(np.max(sizes))
    span = counted(low, "instance") if low == high else f"{low:,} to {counted(high, 'instance')}"
    text = f"{counted(n_bags, 'bag')} of {span} ({int(np.sum(sizes)):,} in all), {counted(n_features, 'feature')}"
    known = np.asarray([target for target in targets if is_known(target)], dtype=np.float64)
    if not len(known):
        return text + "."
    return f"{text}; targets from {shown(known.min())} to {shown(known.max())}, deviation {shown(known.std())}."


def _data_text(results) -> str:
    """The data of a run in a sentence; targets as far as cells know them."""
    data = results.record["data"]
    targets: dict[int, float] = {}
    for method in results.methods:
        for cell in (results.cell(method, split) for split in results.splits):
            targets |= dict(zip(cell["bags"], cell["targets"], strict=True)) if cell else {}
        if len(targets) == data["bags"]:
            break
    return describe_data(data["bags"], data["sizes"], data["features"], targets.values())


def facts(results) -> list[tuple[str, str]]:
    """Names and values, in the order in which one would ask."""
    record = results.record
    origin, data = record.get("origin") or {}, record["data"]
    repeats = list(dict.fromkeys(repeat for repeat, _ in results.splits))
    folds = len(results.splits) // max(len(repeats), 1)
    table = results.table()
    seconds = float(np.nansum(table["seconds"])) if table else None
    seed = record.get("random_state")
    seeds = UNKNOWN if seed is None else ", ".join(str(seed + repeat) for repeat in repeats[:12])
    versions = record.get("versions") or {}
    return [
        ("Command", origin.get("command") or UNKNOWN),
        ("Data", f"{data['name']}: {counted(data['bags'], 'bag')}, {counted(data['instances'], 'instance')}"),
        ("Data hash", data["hash"]),
        ("Splits", f"{counted(len(repeats), 'repeat')} of {counted(folds, 'fold')}"),
        ("Selection", results.selection_text()),
        ("Ranked by", METRIC_NAMES[results.metric]),
        ("Seeds", seeds + (", …" if seed is not None and len(repeats) > 12 else "")),
        ("Cells", f"{len(record['cells'])}: {results.missing} to be run, {len(results.failures)} failed"),
        ("Computing", f"{duration(seconds)} in all cells together"),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items()) or UNKNOWN),
        ("Code", record["library"]),
    ]


def methods_run(results) -> list[dict]:
    """Of every method: the estimator with all parameters, and the settings that were chosen."""
    return [
        {
            "method": method,
            "estimator": shortened(what["estimator"], 6000),
            "settings": [(name or "as it comes", times) for name, times in chosen_settings(results, method).items()],
        }
        for method, what in results.record["methods"].items()
    ]


def failures_table(results) -> list[Column]:
    """The cells that failed, and why; the first of many."""
    if not results.failures:
        return []
    methods, repeats, folds, errors = zip(*results.failures[:MOST_FAILURES], strict=True)
    return filled(texts("method", methods), texts("repeat", repeats), texts("fold", folds), texts("error", errors))


def bags_table(ids, held, places, names=("bag", "target")) -> list[Column]:
    """The bags of the explorer, largest error first; ``names`` are those of the id and the target."""
    what = "fitted" if held.in_sample else "held out"
    return [
        texts(names[0], [ids[bag] for bag in held.bag[places].tolist()]),
        numbers("error", np.abs(held.residual[places]), note=f"|{names[1]} − prediction|"),
        numbers(names[1], held.target[places]),
        numbers(what, held.prediction[places], note=f"prediction, {what}"),
        numbers("size", held.size[places], shown=lambda n: f"{n:,.0f}", note="instances in the bag"),
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
    >>> bags, y = bw.testing.contracts.sample(30)
    >>> results = bw.evaluate(bags, y, ["aggregated"], repeats=1)
    >>> write_report(results, tempfile.mkdtemp() + "/report.html", bags=bags, y=y).name
    'report.html'
    """
    results = run if isinstance(run, Results) else Results.load(run)
    ranked = results.ranked()
    found = {row["method"]: held_out(results, row["method"]) for row in ranked}
    held = {method: one for method, one in found.items() if one is not None}
    content = _summarised(results, ranked, held)
    bags, y, why_not = find_data(results, data, bags, y) if explore else (None, None, "")
    if held:
        best = next(iter(held.values()))
        content |= _bags_section(results, best, bags, y, why_not=why_not, model=model, tell=tell)
    content["sections"] = sections(content)
    return write_page(path, content)


def _bags_section(results, best: HeldOut, bags, y, *, why_not: str, model, tell) -> dict:
    """The list of bags, and with the data what is inside them and the learned function."""
    places = choose_bags(best)
    listed = _bag_list(results, best, places) | {"why_not": why_not}
    if bags is None:
        return {"bags": listed}
    more, function = explored(results, best.bag[places], bags, y, model=model, tell=tell)
    return {"bags": listed | more, "function": function}


def _summarised(results, ranked: list[dict], held: dict[str, HeldOut]) -> dict:
    metric = findings.METRIC_NAMES[results.metric]
    chart = draw_scores(results, ranked, findings.differences(results))
    tables = {"columns": findings.results_table(results, ranked, held), "metric": metric}
    tables |= {"pairs": findings.pairs_table(results), "metrics": findings.metrics_table(results, ranked)}
    chosen = results.selection_text()
    about = {
        "n_splits": counted(len(set(results.distinct_splits().tolist())), "split"),
        "explained": chosen[0].upper() + chosen[1:] + ".",
    }
    aside = {row["method"]: f"{metric} {shown(row[results.metric])}" for row in ranked}
    return blank() | {
        "kind": "evaluation",
        "title": str(results.record["data"]["name"]),
        "data": _data_text(results),
        "notes": findings.notes(results),
        "verdict": findings.verdict(results, ranked),
        "tiles": findings.tiles(results, ranked, held.get(ranked[0]["method"])),
        "results": about | chart | tables,
        "predictions": [draw_predictions(one, aside[method]) for method, one in list(held.items())[:MOST_METHODS]],
        "predictions_lead": _predictions_lead(held),
        "no_predictions": "No held-out predictions are kept: many settings were scored on the same folds, or no cell "
        "has finished.",
        "facts": facts(results),
        "failures": failures_table(results),
        "n_failures": len(results.failures),
        "methods": methods_run(results),
    }


def _predictions_lead(held: dict[str, HeldOut]) -> str:
    repeats = {one.repeat for one in held.values()}
    which = f" (repeat {repeats.pop()})" if len(repeats) == 1 else ""
    text = f"Each bag once, predicted by a model that never saw it{which}. Open a method to see its plots."
    return text + (f" The best {MOST_METHODS} of {len(held)} methods." if len(held) > MOST_METHODS else "")


def _bag_list(results, best: HeldOut, places) -> dict:
    ids = results.record["data"]["ids"]
    text = f"Held-out predictions of {best.label}, largest error first."
    if len(places) < len(best.bag):
        text += f" Of {len(best.bag):,} bags, the {2 * len(places) // 3} with the largest error and a random sample."
    columns = bags_table(ids, best, places, results.own_names())
    return {"columns": columns, "lead": text, "more": "", "explorer": None}
