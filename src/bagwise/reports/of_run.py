"""The report of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bagwise.protocol import Results
from bagwise.protocol.labelling import explained
from bagwise.protocol.summaries import distinct_splits
from bagwise.reports import running, summary, verdict
from bagwise.reports.drawing import draw_predictions, draw_scores
from bagwise.reports.explorer import choose_bags
from bagwise.reports.exploring import explored, find_data
from bagwise.reports.held_out import HeldOut, held_out
from bagwise.reports.numbers import counted, shown
from bagwise.reports.page import blank, sections, write_page

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
    from where the run had it; if it is gone or has changed, the report says so there and shows the rest.

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
    ranked = summary.ranked(results)
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
    metric = summary.METRIC_NAMES[results.metric]
    chart = draw_scores(results, ranked, summary.differences(results))
    tables = {"columns": summary.results_table(results, ranked, held), "metric": metric}
    tables |= {"pairs": summary.pairs_table(results), "metrics": summary.metrics_table(results, ranked)}
    chosen = explained(results)
    told = {
        "n_splits": counted(len(set(distinct_splits(results).tolist())), "split"),
        "explained": chosen[0].upper() + chosen[1:] + ".",
    }
    aside = {row["method"]: f"{metric} {shown(row[results.metric])}" for row in ranked}
    return blank() | {
        "kind": "evaluation",
        "title": str(results.record["data"]["name"]),
        "data": running.data_words(results),
        "notes": verdict.notes(results),
        "verdict": verdict.verdict(results, ranked),
        "tiles": verdict.tiles(results, ranked, held.get(ranked[0]["method"])),
        "results": told | chart | tables,
        "predictions": [draw_predictions(one, aside[method]) for method, one in list(held.items())[:MOST_METHODS]],
        "predictions_words": _prediction_words(held),
        "no_predictions": "No held-out predictions are kept: many settings were scored on the same folds, or no cell "
        "has finished.",
        "facts": running.facts(results),
        "failures": running.failures_table(results),
        "n_failures": len(results.failures),
        "methods": running.methods_run(results),
    }


def _prediction_words(held: dict[str, HeldOut]) -> str:
    repeats = {one.repeat for one in held.values()}
    which = f" (repeat {repeats.pop()})" if len(repeats) == 1 else ""
    words = f"Each bag once, predicted by a model that never saw it{which}. Open a method to see its plots."
    return words + (f" The best {MOST_METHODS} of {len(held)} methods." if len(held) > MOST_METHODS else "")


def _bag_list(results, best: HeldOut, places) -> dict:
    ids = results.record["data"]["ids"]
    words = f"Held-out predictions of {best.label}, largest error first."
    if len(places) < len(best.bag):
        words += f" Of {len(best.bag):,} bags, the {2 * len(places) // 3} with the largest error and some drawn by lot."
    columns = running.bags_table(ids, best, places)
    return {"columns": columns, "words": words, "more_words": "", "explorer": None}
