"""The plan of an evaluation: methods and estimators on splits of the bags, as independent cells with a key each.

A cell fits a method on the training bags of a split and scores it on the others: a pure function of its key.
Results are kept in a folder with the plan and one small file per finished cell, or in this process's memory.
"""

from __future__ import annotations

import json
import traceback
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.validation import name_bags, one_of, warn_user
from bagwise.evaluation.selection import (
    LABELS,
    SELECTIONS,
    as_settings,
    choose_inside,
    chooses_by_itself,
    fit_settings,
)
from bagwise.evaluation.splits import Split, as_seed
from bagwise.execution.resources import choose_device, one_thread
from bagwise.execution.tasks import Watch
from bagwise.held_out import fit_held_out
from bagwise.methods import method
from bagwise.methods.catalogue import NamedMethod, find
from bagwise.metrics import LEVEL, METRICS, get_metric, score, uncertainty_of
from bagwise.model_files.fingerprint import describe, digest, of_data, of_library, versions
from bagwise.model_files.store import Store


@dataclass(frozen=True)
class Entry(NamedMethod):
    """A name, a function seed -> unfitted estimator, and the settings to search from outside (one empty: none)."""

    settings: tuple[dict, ...] = ({},)


def as_entries(methods, *, tune: bool = True) -> list[Entry]:
    """Return entries from names ("instance-kme:paper"), (label, estimator) or (label, estimator, search space).

    A catalogue method gets the seed, and is searched over the space of its card unless it chooses by itself or ``tune``
    is False; what a preset sets stays as it sets it. An estimator is used as it is, except that a ``random_state`` of
    None becomes the seed.
    """
    methods = [methods] if isinstance(methods, str) or _is_pair(methods) else list(methods)
    if not methods:
        raise ValueError("there is no method to evaluate; give names such as 'aggregated', or (label, estimator)")
    entries = []
    for item in methods:
        if isinstance(item, str):
            item = Entry.of(item, settings=_settings_of_card(item) if tune else ({},))
        elif _is_pair(item):
            label, estimator, *space = item
            item = Entry.of((label, estimator), settings=as_settings(space[0] if space else {}))
        elif not isinstance(item, Entry):
            hint = f"; write ('a label', {type(item).__name__}(...))" if hasattr(item, "fit") else ""
            kinds = "a name, (label, estimator) or (label, estimator, search space)"
            raise TypeError(f"a method is {kinds}, not {shorten(repr(item), 80)}{hint}")
        entries.append(item)
    Entry.check_unique_names(entries, "method")
    return entries


def _settings_of_card(text: str) -> tuple[dict, ...]:
    """Return the settings of the search space that the method does not search, and its preset does not set."""
    card, preset = find(text)
    estimator = method(text, random_state=0)
    if chooses_by_itself(estimator):
        return as_settings({})
    parameters = estimator.get_params(deep=True)
    plain = parameters if preset in card.searched else method(card.name, random_state=0).get_params(deep=True)
    names = [name for name in card.search_space if name in parameters and name in plain]
    free = [name for name in names if describe(parameters[name]) == describe(plain[name])]
    return as_settings({name: card.search_space[name] for name in free})


def _is_pair(item) -> bool:
    if not isinstance(item, tuple) or len(item) not in (2, 3):
        return False
    return isinstance(item[0], str) and hasattr(item[1], "fit") and not isinstance(item[1], type)


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
    items = argument if isinstance(argument, list | tuple) and not _is_pair(argument) else [argument]
    if items and all(isinstance(item, str) or _is_pair(item) or hasattr(item, "fit") for item in items):
        return "methods"
    if isinstance(argument, Bags) or (isinstance(argument, list | tuple) and np.ndim(argument[:1]) > 1):
        return "bags"
    return "targets" if np.ndim(argument) == 1 else "other"


def on_device(entry: Entry, device: str | None) -> Entry:
    """Return the entry with each part that has a ``device`` moved to this one; None changes nothing."""
    if device is None:
        return entry
    choose_device(device, is_large=False)  # raise the error for a missing device before any cell runs

    def make(seed: int):
        estimator = entry.make(seed)
        parts = [name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "device"]
        return estimator.set_params(**dict.fromkeys(parts, device))

    return replace(entry, make=make)


@dataclass(frozen=True)
class Cell:
    """One method on one split: all that its result depends on, beside the data. ``key`` is the hash of both."""

    key: str
    method: str
    repeat: int
    fold: int | str
    estimator: Any
    settings: tuple[dict, ...]
    selection: str
    metric: str
    level: float
    seed: int
    train: np.ndarray
    test: np.ndarray

    @property
    def about(self) -> dict:
        """The part that the plan and the result repeat."""
        sizes = {"n_train": len(self.train), "n_test": len(self.test)}
        return {"key": self.key, "method": self.method, "repeat": self.repeat, "fold": self.fold} | sizes


@dataclass(frozen=True)
class Plan:
    """Cells, and what they have in common. ``record`` is the part that is written down, as plain values."""

    cells: tuple[Cell, ...]
    record: dict


def make_plan(
    bags: Bags,
    y: np.ndarray,
    entries: list[Entry],
    splits: list[Split],
    *,
    selection: str = "nested",
    metric: str = "rmse",
    level: float = LEVEL,
    random_state: int = 0,
    name: str = "data",
    **facts,
) -> Plan:
    """Make the cells of each method on each split, repeat by repeat, so that all methods advance together.

    A repeat has its own seed, ``random_state + repeat``, for the methods as for the folds. Further ``facts``, on which
    no number depends, are written to the record.
    """
    one_of(selection, SELECTIONS, "selection")
    get_metric(metric)
    if not 0 < level < 1:
        raise ValueError(f"level must be a number between 0 and 1, not {level!r}")
    random_state = as_seed(random_state)
    data, library = of_data(bags, y), of_library()
    spaces = {entry.name: describe(entry.settings) for entry in entries}
    made: dict[tuple, tuple] = {}  # each estimator and its description, which all folds of a repeat share
    cells = []
    for split in splits:
        seed = random_state + split.repeat
        for entry in entries:
            at = entry.name, split.repeat
            if at not in made:
                estimator = entry.make(seed)
                made[at] = estimator, describe(estimator)
            estimator, written = made[at]
            parts = (data, written, spaces[entry.name], split.train, split.test, selection, metric, level, seed)
            key = digest(library, entry.name, *parts)
            setup = (estimator, entry.settings, selection, metric, level, seed, split.train, split.test)
            cells.append(Cell(key, entry.name, split.repeat, split.fold, *setup))
    ids = [bag_id if isinstance(bag_id, str | int | float) else str(bag_id) for bag_id in bags.ids.tolist()]
    about = {"name": name, "hash": data, "bags": len(bags), "instances": bags.n_instances, "features": bags.n_features}
    about |= {"ids": ids, "sizes": bags.sizes.tolist(), "id_name": bags.id_name, "target_name": bags.target_name}
    trains = None  # of each split; written only where they are not all other bags, as in forward folds
    if any(len(split.train) + len(split.test) < len(bags) for split in splits):
        trains = {f"{split.repeat}/{split.fold}": split.train.tolist() for split in splits}
    record = make_record(
        data=about,
        methods={e.name: {"estimator": made[e.name, 0][1], "settings": spaces[e.name]} for e in entries},
        n_settings={entry.name: len(entry.settings) for entry in entries},
        selection=selection,
        metric=metric,
        level=level,
        random_state=random_state,
        splits=digest(*[part for split in splits for part in (split.train, split.test)]),
        trains=trains,
        cells=[cell.about for cell in cells],
        **facts,
    )
    return Plan(tuple(cells), record)


def make_record(**facts) -> dict:
    """Return the record of a plan, which is written to disk."""
    default = {"selection": "nested", "level": LEVEL, "origin": None, "by": None}
    return {"library": of_library(), "versions": versions()} | default | facts


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
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"in {last.name}, line {last.lineno} of {Path(last.filename).name}"
            outcome = {"error": f"{type(error).__name__}: {error}\n({place})"}
    outcome |= {"seconds": watch.seconds, "memory_mb": watch.memory_mb}
    return finish(cell.about, outcome, selection=cell.selection)


def finish(about: dict, outcome: dict, *, selection: str = "nested") -> dict:
    """Return an outcome with the facts of its cell and all fields."""
    blank = {"selection": selection} | dict.fromkeys(("error", "predictions", "std", "uncertainty"))
    blank |= {"bags": [], "targets": [], "settings": [], "scores": {}}
    return about | blank | {"seconds": float("nan"), "memory_mb": float("nan")} | outcome


def _scored(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    settings, uncertainty = cell.settings, None
    if cell.selection == "nested":
        how = {"metric": cell.metric, "random_state": cell.seed, "level": cell.level}
        settings = (choose_inside(cell.estimator, settings, bags[cell.train], y[cell.train], **how),)
    held = fit_held_out(partial(fit_settings, cell.estimator, settings), cell.train, cell.test, bags, y)
    if cell.selection == "nested":
        ((model, _),) = held.model.models
        uncertainty = uncertainty_of(model, bags[cell.test], y[cell.test], cell.level)
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    for prediction, std in held.predictions:
        _refuse_odd(prediction, std, bags.ids[cell.test])
        for name, value in score(y[cell.test], prediction, std, uncertainty, level=cell.level).items():
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

PLANNED = {"library", "data", "methods", "selection", "metric", "level", "splits", "cells"}  # entries of each plan


def read_plan(store: Store) -> dict | None:
    """Return the plan last written to a store; None if there is none that can be read."""
    record = store.read_record("plan")
    return record if record is not None and record.keys() >= PLANNED else None


def open_plan(store: Store, record: dict) -> bool:
    """Write the plan to the store, warn if it held another one, and return whether an evaluation had begun there.

    Cells that both plans share are used, the others are kept unused.
    """
    old, has_begun = read_plan(store), not store.is_empty()
    if old is not None and has_begun:
        reasons = _differences(old, record)
        if reasons:
            text = f"{store.path} holds results of another plan: {'; '.join(reasons)}. Results that do not belong to "
            text += "this plan are kept and not used; give another folder to keep the two apart"
            warn_user(text)
        _warn_of_dropped(store, old, record)
    store.write_record("plan", record)
    return has_begun


def close_plan(store: Store, record: dict) -> None:
    """Write the plan again if another run replaced it, so that it is of the same run as the tables."""
    stored = read_plan(store)
    if store.path is not None and stored != json.loads(json.dumps(record)):
        _warn_of_dropped(store, stored or {"methods": {}}, record)
        store.write_record("plan", record)


def _differences(old: dict, new: dict) -> list[str]:
    """Return the reasons why cells of an earlier plan cannot be used for a new one."""
    reasons = ["the data set is another one"] if old["data"]["hash"] != new["data"]["hash"] else []
    changed = [label for label, method in new["methods"].items() if old["methods"].get(label, method) != method]
    reasons += [f"method {label!r} has changed" for label in changed]
    texts = {
        "library": f"it was made by {old['library']}, not {new['library']}",
        "splits": "the folds are others",
        "selection": f"hyperparameters were chosen by {LABELS[old['selection']]!r}",
        "metric": f"the metric was {old['metric']!r}",
        "level": f"the level of intervals was {old['level']:g}",
    }
    return reasons + [text for name, text in texts.items() if old[name] != new[name]]


def _warn_of_dropped(store: Store, old: dict, new: dict) -> None:
    dropped = [method for method in old["methods"] if method not in new["methods"]]
    if dropped:
        text = f"the tables in {store.path} are of the methods named now, no longer of {', '.join(dropped)}, which "
        text += "another run compared there. Its cells are kept: name all methods together to have them in one table"
        warn_user(text)
