"""The sections of a run that need its data again and a model fitted on all of it; or why they cannot be had."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.reports.drawing import draw_function
from bagwise.reports.explorer import explain_bags, has_learned_function, learned_function
from bagwise.reports.numbers import duration
from bagwise.reports.recalling import is_as_it_was, recall_data, recall_model, refuse_other_data, unfitted
from bagwise.reports.summary import ranked

READING = (ValueError, TypeError, OSError, ImportError)  # what can be wrong with a file


def find_data(results, data, bags, y) -> tuple[Bags | None, np.ndarray | None, str]:
    """Bags and targets of a run, or why they cannot be had; what was given by name and is wrong is refused."""
    if bags is not None:
        refuse_other_data(results.record, bags, y)
        return bags, np.asarray(y, dtype=np.float64), ""
    try:
        return *recall_data(results.record, data), ""
    except READING as error:
        if data is not None:
            raise
        return None, None, f"{error}. Give the data to see inside the bags: bagwise report RUN --data TABLE."


def explored(results, positions: np.ndarray, bags: Bags, y: np.ndarray, *, model, tell) -> tuple[dict, dict | None]:
    """What the explorer shows of the bags at these positions, and the learned function of the best method with one."""
    label = "the model given"
    if model is None:
        try:
            label, model = _fit_best(results, bags, y, tell)
        except Exception as error:  # whatever a method may raise: a report with one section less is better than none
            return {"why_not": f"{error}."}, None
    return _instances(results, label, model, bags[positions]), _function(results, label, model, bags, y, tell)


def _fit_best(results, bags: Bags, y: np.ndarray, tell):
    """The best method of the run that can be made again from its name, fitted on all bags."""
    names = [row["method"] for row in ranked(results)]
    label = next((name for name in names if unfitted(results, name) is not None), None)
    if label is None:
        raise ValueError(
            "no method of the run can be made again from its name; write_report(..., model=...) takes a fitted one"
        )
    return label, _fit(results, label, bags, y, tell)


def _fit(results, label: str, bags: Bags, y: np.ndarray, tell):
    seconds = next(row["seconds"] for row in ranked(results) if row["method"] == label)
    tell(f"Fitting {label} on all {len(bags):,} bags (on a split it took {duration(seconds)})")
    return recall_model(results, label, bags, y)


def _instances(results, label: str, model, bags: Bags) -> dict:
    try:
        told = explain_bags(model, bags)
    except Exception as error:
        return {"why_not": f"{label}: {error}."}
    words = f"Choose a bag to see its instances as {label} sees them, fitted on all bags, this one too.{told['words']}"
    if label in results.methods and not is_as_it_was(results, label):
        words += f" {label} has changed since the run was made: this is how it is now."
    return {"explorer": told | {"what": "held out"}, "more_words": words}


def _function(results, label: str, model, bags: Bags, y: np.ndarray, tell) -> dict | None:
    """h of the model of the explorer, or else of the best method that has one."""
    try:
        if not has_learned_function(model):
            names = (row["method"] for row in ranked(results))
            label = next((name for name in names if has_learned_function(unfitted(results, name))), "")
            if not label:
                return None
            model = _fit(results, label, bags, y, tell)
    except Exception:
        return None
    return function_section(label, model, bags)


def function_section(label: str, model, bags: Bags) -> dict | None:
    """The learned function as a plot; None where there is none, or it cannot be had: the section is left out."""
    try:
        found = learned_function(model, bags)
    except Exception:
        return None
    return draw_function(label, found) if found else None
