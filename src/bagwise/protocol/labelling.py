"""What a reader must know before believing a number: how settings were chosen, and whose mean is of fewer cells."""

from __future__ import annotations

import numpy as np

from bagwise.protocol.metrics import get_metric
from bagwise.protocol.selection import EXPLAINED, SELECTIONS

# Besides the two ways to choose: where the protocol has one setting of a method, it chooses nothing.
LABELS = SELECTIONS | {"none": "none"}
WORDS = EXPLAINED | {
    "none": "nothing is searched; a method is used as it comes, or chooses for itself inside the training bags"
}
_NOT_SEARCHED = "({})"  # how plans that do not count settings describe the one empty setting


def way(results, method: str) -> str:
    """How the setting of a method was chosen: "nested" or "paper" where it had several, "none" where it had one."""
    written = results.record["methods"][method]["settings"]
    found = results.record.get("n_settings", {}).get(method, 1 if written == _NOT_SEARCHED else 2)
    return results.selection if found > 1 else "none"


def label(results, method: str) -> str:
    """The word for it in tables; an optimistic way says that it is."""
    return LABELS[way(results, method)]


def ways(results) -> dict[str, list[str]]:
    """The methods by how their settings were chosen."""
    found: dict[str, list[str]] = {}
    for method in results.methods:
        found.setdefault(way(results, method), []).append(method)
    return found


def explained(results) -> str:
    """How hyperparameters were chosen, in words; of which methods, if not of all in the same way."""
    found = ways(results)
    if len(found) == 1:
        return WORDS[next(iter(found))]
    return "; ".join(f"{WORDS[one]} ({', '.join(methods)})" for one, methods in found.items())


def title(results) -> str:
    """The data set, and how hyperparameters were chosen."""
    kinds = " and ".join(LABELS[one] for one in ways(results))
    return f"{results.record['data']['name']}, selection {kinds}: {explained(results)}"


def notes(results) -> list[str]:
    """Methods whose mean is over fewer splits than that of others, or that have none, and why."""
    return [text for method in results.methods if (text := _note(results, method))]


def _note(results, method: str) -> str:
    metric = results.metric
    done, ran = (sum(of(method, split) is not None for split in results.splits) for of in (results.cell, results.ran))
    known = int((~np.isnan(results.values(method))).sum())
    if done and results.setting(method) is None:
        return f"{method}: no setting has {metric} on every split, so none is the best; {_way_out(metric)}"
    if done and not known:
        return f"{method} has no {metric} on any split and is not ranked; {_way_out(metric)}"
    if 0 < known < ran:
        told = f"{method}: {metric} on {known} of {ran} splits only; its mean is of those"
        return f"{told}, and it is not ranked with methods that have them all."
    return ""


def _way_out(metric: str) -> str:
    if get_metric(metric).needs_std:
        return f"{metric} needs a method that gives standard deviations; or rank by rmse."
    return f"{metric} is not defined where targets or predictions do not vary; rank by rmse."
