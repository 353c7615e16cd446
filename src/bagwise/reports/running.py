"""What was run, as plain data: the command, the data, the protocol, versions, seeds, seconds, failures."""

from __future__ import annotations

import numpy as np

from bagwise.protocol.labelling import explained
from bagwise.reports.columns import Column, filled, numbers, words
from bagwise.reports.numbers import counted, duration, is_known, shortened, shown
from bagwise.reports.recalling import chosen_settings
from bagwise.reports.summary import METRIC_NAMES

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


def data_words(results) -> str:
    """The data of a run in a sentence; targets as far as cells have told them."""
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
        ("Selection", explained(results)),
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
    return filled(words("method", methods), words("repeat", repeats), words("fold", folds), words("error", errors))


def bags_table(ids, held, places) -> list[Column]:
    """The bags of the explorer, largest error first."""
    what = "fitted" if held.in_sample else "held out"
    return [
        words("bag", [ids[bag] for bag in held.bag[places].tolist()]),
        numbers("error", np.abs(held.residual[places]), note="|target − prediction|"),
        numbers("target", held.target[places]),
        numbers(what, held.prediction[places], note=f"prediction, {what}"),
        numbers("size", held.size[places], shown=lambda n: f"{n:,.0f}", note="instances in the bag"),
    ]
