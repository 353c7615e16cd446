"""The networks of many cells trained together, ahead of the cells: a GPU has room for all folds of all repeats."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.instances import OutOfFold, bag_folds
from bagwise.instances.network_ahead import TrainedAhead, can_train_ahead, train_ahead
from bagwise.protocol.plan import Cell
from bagwise.protocol.selection import INNER_FOLDS, inner_splits

LARGEST = 2**28  # numbers in the training rows of one group of cells


def with_networks(cells: Iterable[Cell], bags: Bags, y: np.ndarray) -> Iterator[Cell]:
    """The cells; those that begin with out-of-fold networks for a GPU last, with their networks trained in groups.

    A network does not depend on those trained beside it, so every cell has the result that it would have had alone.
    """
    group, size = [], 0
    for cell in cells:
        if not _begins_with_networks(cell):
            yield cell
            continue
        group.append(cell)
        size += bags.sizes[cell.train].sum() * bags.n_features * (1 + INNER_FOLDS * _searches_inside(cell))
        if size >= LARGEST:
            yield from _prepared(group, bags, y)
            group, size = [], 0
    if group:
        yield from _prepared(group, bags, y)


def _begins_with_networks(cell: Cell) -> bool:
    if not isinstance(cell.estimator, Pipeline):
        return False
    name, stage = cell.estimator.steps[0]
    touched = any(key.split("__")[0] == name for setting in cell.settings for key in setting)
    return isinstance(stage, OutOfFold) and can_train_ahead(stage.regressor) and not touched


def _searches_inside(cell: Cell) -> bool:
    return cell.selection == "nested" and len(cell.settings) > 1


def _training_sets(cell: Cell, bags: Bags) -> Iterator[np.ndarray]:
    """The bags that the first step of a cell is fitted on, set by set."""
    yield cell.train
    if _searches_inside(cell):
        for train, _ in inner_splits(bags[cell.train], cell.seed):
            yield cell.train[train]


def _prepared(cells: list[Cell], bags: Bags, y: np.ndarray) -> list[Cell]:
    start = time.perf_counter()
    try:
        asked = [[_asked(cell, bags[train], y[train]) for train in _training_sets(cell, bags)] for cell in cells]
        trained = iter(train_ahead([one for several in asked for one in several]))
    except Exception:  # of one cell, perhaps: left alone, each says what is wrong with it
        return cells
    seconds = (time.perf_counter() - start) / len(cells)
    return [
        _equipped(cell, dict(filter(None, (next(trained) for _ in several))), seconds)
        for cell, several in zip(cells, asked, strict=True)
    ]


def _asked(cell: Cell, bags: Bags, y: np.ndarray) -> tuple:
    stage = cell.estimator.steps[0][1]
    return stage.problem(bags, y, bag_folds(bags, stage.folds, random_state=stage.random_state))


def _equipped(cell: Cell, known: dict, seconds: float) -> Cell:
    """The cell with its networks at hand, and its share of the time they took."""
    name, stage = cell.estimator.steps[0]
    regressor = TrainedAhead.of(stage.regressor, known)
    return replace(cell, estimator=clone(cell.estimator).set_params(**{f"{name}__regressor": regressor}), ahead=seconds)
