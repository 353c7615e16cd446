"""The plan of an evaluation: methods and estimators on splits of the bags, as independent cells with a key each.

A cell fits a method on the training bags of a split and scores it on the others: a pure function of its key.
Results are kept in a folder with the plan and one small file per finished cell, or in this process's memory.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.checks import one_of
from bagwise.bags.validation import name_bags
from bagwise.evaluation.selection import (
    LABELS,
    SELECTIONS,
    as_settings,
    choose_inside,
    chooses_by_itself,
    fit_settings,
)
from bagwise.evaluation.splits import Split, as_seed
from bagwise.execution.resources import one_thread, settled
from bagwise.execution.tasks import Watch
from bagwise.held_out import fit_held_out
from bagwise.methods import Card, method
from bagwise.methods.catalogue import NamedMethod, find
from bagwise.metrics import METRICS, get_metric, score, uncertainty_of
from bagwise.model_files.fingerprint import describe, digest, of_data, of_library, versions
from bagwise.model_files.store import Store


@dataclass(frozen=True)
class Entry(NamedMethod):
    """A label, a function seed -> unfitted estimator, and the settings to search from outside (one empty: none)."""

    settings: tuple[dict, ...] = ({},)

    @property
    def label(self) -> str:
        return self.name


def as_entries(methods, *, tune: bool = True) -> list[Entry]:
    """Return entries from names ("instance-kme:paper"), (label, estimator) or (label, estimator, search space).

    A catalogue method gets the seed, and is searched over the space of its card unless it chooses by itself or ``tune``
    is False; what a preset sets stays as it sets it. An estimator is used as it is, except that a ``random_state`` of
    None becomes the seed.
    """
    methods = [methods] if isinstance(methods, str) or _is_pair(methods) else list(methods)
    if not methods:
        raise ValueError("there is no method to evaluate; give names such as 'aggregated', or (label, estimator)")
    entries = [item if isinstance(item, Entry) else _entry(item, tune) for item in methods]
    Entry.refuse_twins(entries, "method")
    return entries


def in_order(name: str, *arguments) -> tuple:
    """Return bags, targets and methods from the positional arguments ``(bags, y, methods)`` or ``(methods, bags, y)``.

    Raise an error that says which argument is which, if they come in another order.
    """
    kinds = [_kind(argument) for argument in arguments]
    if kinds == ["methods", "bags", "targets"]:
        return arguments[1], arguments[2], arguments[0]
    if sorted(kinds) == ["bags", "methods", "targets"] and kinds != ["bags", "targets", "methods"]:
        places = ", ".join(f"{kind} as argument {place}" for place, kind in enumerate(kinds, start=1))
        raise TypeError(f"{name} got {places}; call {name}(bags, y, methods) or {name}(methods, bags, y)")
    return arguments


def _kind(argument) -> str:
    if isinstance(argument, str) or _is_pair(argument) or hasattr(argument, "fit"):
        return "methods"
    if isinstance(argument, list | tuple) and argument and all(_kind(item) == "methods" for item in argument):
        return "methods"
    if isinstance(argument, Bags) or (isinstance(argument, list | tuple) and np.ndim(argument[:1]) > 1):
        return "bags"
    return "targets" if np.ndim(argument) == 1 else "other"


def on_device(entry: Entry, device: str | None) -> Entry:
    """Return the entry with each part that has a ``device`` moved to this one; None changes nothing."""
    if device is None:
        return entry
    settled(device, worth=False)  # refuses a device that is not there, before any cell does

    def make(seed: int):
        estimator = entry.make(seed)
        parts = [name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "device"]
        return estimator.set_params(**dict.fromkeys(parts, device))

    return replace(entry, make=make)


def _entry(item, tune: bool) -> Entry:
    if not isinstance(item, str):
        if not _is_pair(item):
            hint = f"; write ('a label', {type(item).__name__}(...))" if hasattr(item, "fit") else ""
            kinds = "a name, (label, estimator) or (label, estimator, search space)"
            raise TypeError(f"a method is {kinds}, not {shorten(repr(item), 80)}{hint}")
        label, estimator, *space = item
        return Entry.of((label, estimator), settings=as_settings(space[0] if space else {}))
    card, preset = find(item)

    def make(seed: int):
        return method(item, random_state=seed)

    estimator = method(item, random_state=0)
    searched = tune and not chooses_by_itself(estimator)
    free = _free_parameters(card, preset, estimator) if searched else ()
    return Entry(item, make, as_settings({name: card.search_space[name] for name in free}))


def _free_parameters(card: Card, preset: str, estimator) -> list[str]:
    """Return the parameters of the search space that the estimator has and that its preset does not set."""
    parameters = estimator.get_params(deep=True)
    plain = parameters if preset in card.searched else method(card.name, random_state=0).get_params(deep=True)
    names = [name for name in card.search_space if name in parameters and name in plain]
    return [name for name in names if describe(parameters[name]) == describe(plain[name])]


def _is_pair(item) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) in (2, 3)
        and isinstance(item[0], str)
        and hasattr(item[1], "fit")
        and not isinstance(item[1], type)
    )


@dataclass(frozen=True)
class Cell:
    """One method on one split: all that its result depends on, beside the data. ``key`` is the hash of both."""

    key: str
    method: str
    repeat: int
    fold: int | str
    estimator: Any = field(repr=False)
    settings: tuple[dict, ...] = field(repr=False)
    selection: str
    metric: str
    seed: int
    train: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)

    @property
    def about(self) -> dict:
        """What a plan writes down of it."""
        sizes = {"n_train": len(self.train), "n_test": len(self.test)}
        return {"key": self.key, "method": self.method, "repeat": self.repeat, "fold": self.fold} | sizes


@dataclass(frozen=True)
class Plan:
    """Cells, and what they have in common. ``record`` is the part that is written down, as plain values."""

    cells: tuple[Cell, ...] = field(repr=False)
    record: dict


def make_plan(
    bags: Bags,
    y: np.ndarray,
    entries: list[Entry],
    splits: list[Split],
    *,
    selection: str = "nested",
    metric: str = "rmse",
    random_state: int = 0,
    name: str = "data",
    origin: dict | None = None,
    by: dict | None = None,
) -> Plan:
    """Make the cells of each method on each split, repeat by repeat, so that all methods advance together.

    A repeat has its own seed, ``random_state + repeat``, for the methods as for the folds.
    """
    one_of(selection, SELECTIONS, "selection")
    get_metric(metric)
    random_state = as_seed(random_state)
    data, library = of_data(bags, y), of_library()
    estimators = {(e.label, s.repeat): e.make(random_state + s.repeat) for e in entries for s in splits}
    written = {at: describe(estimator) for at, estimator in estimators.items()}
    spaces = {entry.label: describe(entry.settings) for entry in entries}
    cells = []
    for split in splits:
        for entry in entries:
            at, seed = (entry.label, split.repeat), random_state + split.repeat
            parts = (data, written[at], spaces[entry.label], split.train, split.test, selection, metric, seed)
            key = digest(library, entry.label, *parts)
            where = (key, entry.label, split.repeat, split.fold)
            setup = (estimators[at], entry.settings, selection, metric, seed)
            cells.append(Cell(*where, *setup, split.train, split.test))
    ids = [bag_id if isinstance(bag_id, str | int | float) else str(bag_id) for bag_id in bags.ids.tolist()]
    about = {"name": name, "hash": data, "bags": len(bags), "instances": bags.n_instances, "features": bags.n_features}
    about |= {"ids": ids, "sizes": bags.sizes.tolist(), "id_name": bags.id_name, "target_name": bags.target_name}
    record = make_record(
        data=about,
        methods={e.label: {"estimator": written[e.label, 0], "settings": spaces[e.label]} for e in entries},
        n_settings={entry.label: len(entry.settings) for entry in entries},
        selection=selection,
        metric=metric,
        random_state=random_state,
        origin=origin,
        by=by,
        splits=digest(*[part for split in splits for part in (split.train, split.test)]),
        trains=_trains(splits, len(bags)),
        cells=[cell.about for cell in cells],
    )
    return Plan(tuple(cells), record)


def _trains(splits: list[Split], n_bags: int) -> dict[str, list] | None:
    """Return the training bags of each split where they are not all other bags, as in forward folds; else None."""
    if all(len(split.train) + len(split.test) == n_bags for split in splits):
        return None
    return {f"{split.repeat}/{split.fold}": split.train.tolist() for split in splits}


def make_record(**facts) -> dict:
    """Return the record of a plan, which is written to disk."""
    return {"library": of_library(), "versions": versions(), "selection": "nested", "origin": None, "by": None} | facts


def differences(old: dict, new: dict) -> list[str]:
    """Return the reasons why cells of an earlier plan cannot be used for a new one."""
    reasons = []
    if old["data"]["hash"] != new["data"]["hash"]:
        reasons.append("the data set is another one")
    changed = [label for label, method in new["methods"].items() if old["methods"].get(label, method) != method]
    reasons += [f"method {label!r} has changed" for label in changed]
    if old["library"] != new["library"]:
        reasons.append(f"it was made by {old['library']}, not {new['library']}")
    if old["splits"] != new["splits"]:
        reasons.append("the folds are others")
    if old["selection"] != new["selection"]:
        reasons.append(f"hyperparameters were chosen by {LABELS[old['selection']]!r}")
    if old["metric"] != new["metric"]:
        reasons.append(f"the metric was {old['metric']!r}")
    return reasons


def run_cell(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    """Run a cell and return its result as plain values; an error inside it becomes its result.

    ``settings`` are the ones scored and ``scores`` holds, for every metric, a value for each: the one chosen inside
    the training bags (``nested``), or all of them (``paper``; the best is found when every fold is known).
    """
    with one_thread(), Watch() as watch, warnings.catch_warnings():
        # Of held-out bags that is expected, and the score tells what it costs.
        warnings.filterwarnings("ignore", message=".*instance predictions of up to")
        try:
            outcome = _scored(cell, bags, y)
        except (Exception, SystemExit) as error:  # a method that calls exit() ends its cell, not the evaluation
            outcome = {"error": describe_error(error)}
    outcome |= {"seconds": watch.seconds, "memory_mb": watch.memory_mb}
    return finish(cell.about, outcome, selection=cell.selection)


def finish(about: dict, outcome: dict, *, selection: str = "nested") -> dict:
    """Return an outcome with the facts of its cell and all fields."""
    blank = {"selection": selection} | dict.fromkeys(("error", "predictions", "std", "uncertainty"))
    blank |= {"bags": [], "targets": [], "settings": [], "scores": {}}
    return about | blank | {"seconds": float("nan"), "memory_mb": float("nan")} | outcome


def _scored(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    settings = cell.settings
    if cell.selection == "nested":
        how = {"metric": cell.metric, "random_state": cell.seed}
        settings = (choose_inside(cell.estimator, settings, bags[cell.train], y[cell.train], **how),)
    held = fit_held_out(partial(fit_settings, cell.estimator, settings), cell.train, cell.test, bags, y)
    uncertainty = None
    if cell.selection == "nested":
        ((model, _),) = held.model.models
        uncertainty = uncertainty_of(model, bags[cell.test], y[cell.test])
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    for prediction, std in held.predictions:
        _refuse_odd(prediction, std, bags.ids[cell.test])
        for name, value in score(y[cell.test], prediction, std, uncertainty).items():
            scores[name].append(value)
    single = len(settings) == 1  # with hundreds of settings the file would not be small
    return {
        "bags": cell.test.tolist(),
        "targets": y[cell.test].tolist(),
        "predictions": prediction.tolist() if single else None,
        "std": std.tolist() if single and std is not None else None,
        "uncertainty": None if uncertainty is None else uncertainty.as_lists(),
        "settings": [describe_setting(setting) for setting in settings],
        "scores": scores,
    }


def describe_setting(setting: dict) -> str:
    """Return a setting as text: the last part of each parameter name, and the value."""
    return ", ".join(f"{name.split('__')[-1]}={value!r}" for name, value in setting.items())


def describe_error(error: BaseException) -> str:
    """Return the error in one line, then where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}\n(in {last.name}, line {last.lineno} of {Path(last.filename).name})"


def _refuse_odd(prediction: np.ndarray, std: np.ndarray | None, ids: np.ndarray) -> None:
    """Refuse what is no number. A std of 0 is accepted: CRPS and coverage are defined for it, and NLL is NaN."""
    odd = ~np.isfinite(prediction)
    if odd.any():
        raise ValueError(f"{name_bags(ids, odd)} a prediction that is not a finite number")
    odd = np.zeros(len(ids), dtype=bool) if std is None else ~(np.isfinite(std) & (std >= 0))
    if odd.any():
        value = float(std[odd.argmax()])
        raise ValueError(f"{name_bags(ids, odd)} a std of {value}; a finite number that is not negative is needed")


# Where results are kept --------------------------------------------------------------------------------------------

# Entries of each plan, which tell it from other files of that name.
PLAN = {"library": str, "data": dict, "methods": dict, "selection": str, "metric": str, "splits": str, "cells": list}
PLANNED = {"key", "method", "repeat", "fold"}  # entries of each of its cells


def open_plan(store: Store, plan: Plan) -> bool:
    """Write the plan to the store, warn if it held another one, and return whether an evaluation had begun there."""
    old, has_begun = read_plan(store), not store.is_empty()
    if old is not None and has_begun and store.path is not None:
        _warn_of_changes(store.path, old, plan.record)
        _warn_of_dropped(store.path, old, plan.record)
    store.write_record("plan", plan.record)
    return has_begun


def close_plan(store: Store, plan: Plan, write_tables: Callable[[Path], None]) -> None:
    """Write the tables, and the plan again if another run replaced it, so that both are of the same run."""
    if store.path is None:
        return
    stored = read_plan(store)
    if stored != json.loads(json.dumps(plan.record)):
        _warn_of_dropped(store.path, stored or {"methods": {}}, plan.record)
        store.write_record("plan", plan.record)
    write_tables(store.path)


def read_plan(store: Store) -> dict | None:
    """Return the plan last written to a store; None if there is none that can be read."""
    record = store.read_record("plan")
    try:
        whole = record is not None and all(isinstance(record[name], kind) for name, kind in PLAN.items())
        return record if whole and all(cell.keys() >= PLANNED for cell in record["cells"]) else None
    except (KeyError, AttributeError):
        return None


def _warn_of_changes(path: Path, old: dict, new: dict) -> None:
    """Warn of results of another plan; cells that both plans share are used, the others are kept unused."""
    try:
        reasons = differences(old, new)
    except (KeyError, TypeError):
        reasons = ["its plan is of another version"]
    if reasons:
        warnings.warn(
            f"{path} holds results of another plan: {'; '.join(reasons)}. Results that do not belong to this plan are "
            "kept and not used; give another folder to keep the two apart",
            UserWarning,
            stacklevel=4,
        )


def _warn_of_dropped(path: Path, old: dict, new: dict) -> None:
    dropped = [method for method in old["methods"] if method not in new["methods"]]
    if dropped:
        warnings.warn(
            f"the tables in {path} are of the methods named now, no longer of {', '.join(dropped)}, which another run "
            "compared there. Its cells are kept: name all methods together to have them in one table",
            UserWarning,
            stacklevel=4,
        )
