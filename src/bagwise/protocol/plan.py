"""The plan of an evaluation: what is compared on which bags, as independent cells with a key each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.protocol.describing import describe
from bagwise.protocol.entries import Entry
from bagwise.protocol.fingerprints import digest, of_data, of_library, versions
from bagwise.protocol.metrics import get_metric
from bagwise.protocol.selection import SELECTIONS
from bagwise.protocol.splits import Split, as_seed


@dataclass(frozen=True)
class Cell:
    """One method on one split: all that its result depends on, beside the data. ``key`` is the hash of both.

    ``ahead`` are seconds spent on it before it is run (see `with_networks`).
    """

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
    ahead: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Cells, and what they have in common. ``record`` is the part that is written down, as plain values."""

    cells: tuple[Cell, ...] = field(repr=False)
    record: dict

    def __repr__(self) -> str:
        methods, splits = self.record["methods"], len(self.cells) // len(self.record["methods"])
        return f"Plan: {len(methods)} methods on {splits} splits of {self.record['data']['name']}"


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
) -> Plan:
    """The cells of every method on every split, repeat by repeat, so that all methods advance together.

    A repeat has its own seed, ``random_state + repeat``, for the methods as for the folds.
    """
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be 'nested' or 'paper', not {selection!r}")
    get_metric(metric)
    random_state = as_seed(random_state)
    data, library = of_data(bags, y), of_library()
    made = {(e.label, s.repeat): e.make(random_state + s.repeat) for e in entries for s in splits}
    written = {at: describe(estimator) for at, estimator in made.items()}
    spaces = {entry.label: describe(entry.settings) for entry in entries}
    cells = []
    for split in splits:
        for entry in entries:
            at, seed = (entry.label, split.repeat), random_state + split.repeat
            parts = (data, written[at], spaces[entry.label], split.train, split.test, selection, metric, seed)
            key = digest(library, entry.label, *parts)
            where = (key, entry.label, split.repeat, split.fold)
            what = (made[at], entry.settings, selection, metric, seed)
            cells.append(Cell(*where, *what, split.train, split.test))
    record = {
        "library": library,
        "data": {"name": name, "hash": data, "bags": len(bags), "instances": bags.n_instances} | _bag_list(bags),
        "methods": {e.label: {"estimator": written[e.label, 0], "settings": spaces[e.label]} for e in entries},
        "n_settings": {entry.label: len(entry.settings) for entry in entries},
        "selection": selection,
        "metric": metric,
        "random_state": random_state,
        "versions": versions(),
        "origin": origin,
        "splits": digest(*[part for split in splits for part in (split.train, split.test)]),
        "cells": [_written(cell) for cell in cells],
    }
    return Plan(tuple(cells), record)


def differences(old: dict, new: dict) -> list[str]:
    """What makes the cells of an earlier plan useless for a new one, in words; nothing if they are still good."""
    found = []
    if old["data"]["hash"] != new["data"]["hash"]:
        found.append("the data set is another one")
    changed = [label for label, what in new["methods"].items() if old["methods"].get(label, what) != what]
    found += [f"method {label!r} has changed" for label in changed]
    if old["library"] != new["library"]:
        found.append(f"it was made by {old['library']}, not {new['library']}")
    if old["splits"] != new["splits"]:
        found.append("the folds are others")
    if old["selection"] != new["selection"]:
        found.append(f"hyperparameters were chosen by {SELECTIONS[old['selection']]!r}")
    if old["metric"] != new["metric"]:
        found.append(f"the metric was {old['metric']!r}")
    return found


def _bag_list(bags: Bags) -> dict:
    ids = [one if isinstance(one, str | int | float) else str(one) for one in bags.ids.tolist()]
    return {"features": bags.n_features, "ids": ids, "sizes": bags.sizes.tolist()}


def _written(cell: Cell) -> dict:
    sizes = {"n_train": len(cell.train), "n_test": len(cell.test)}
    return {"key": cell.key, "method": cell.method, "repeat": cell.repeat, "fold": cell.fold} | sizes
