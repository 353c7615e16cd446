"""Held-out predictions of one method, their intervals, and how often those cover the targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from bagwise.intervals.order_statistics import conformal_quantile, unit_shares, units_needed

LEVEL = 0.9  # of the intervals that are drawn
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))


@dataclass(frozen=True)
class HeldOut:
    """One prediction per bag by a model that never saw it: arrays of one entry per bag, and a label.

    ``bag`` is the position of the bag in the data, ``std`` is None for a method that gives no standard deviation,
    ``repeat`` tells which round of folds it was. ``in_sample`` marks predictions of the bags the model was trained on.
    ``unit`` is the group of the bag (0, 1, ...); None where every bag is on its own, or groups are not known.
    """

    label: str
    bag: np.ndarray
    size: np.ndarray
    target: np.ndarray
    prediction: np.ndarray
    fold: np.ndarray
    std: np.ndarray | None = None
    repeat: int | None = None
    in_sample: bool = False
    unit: np.ndarray | None = None

    @property
    def residual(self) -> np.ndarray:
        return self.target - self.prediction

    def half_widths(self, level: float = LEVEL) -> np.ndarray:
        """Half the width of the central interval of every bag; infinite where too few bags tell.

        With standard deviations, those of the normal distribution. Else cross-conformal: with R the absolute residuals
        of the n bags of the other folds (of the other bags or groups, where there is one fold only), the
        ceil((n + 1) level)-th smallest of R; of grouped bags the `conformal_quantile` in which every group counts
        the same. If bags (groups) are exchangeable, that covers a new one with about the probability ``level``.
        """
        if self.std is not None:
            return norm.ppf((1 + level) / 2) * self.std
        errors = np.abs(self.residual)
        unit = _numbered(np.arange(len(errors)) if self.unit is None else self.unit)
        fold = _numbered(self.fold)
        fold = fold if fold.any() else unit
        if fold.max() == unit.max() == len(errors) - 1:
            return _left_out_quantile(errors, level)
        others = (fold != one for one in range(fold.max() + 1))
        return np.array([_quantile(errors[rest], unit[rest], level) for rest in others])[fold]

    def covered(self, level: float = LEVEL) -> np.ndarray:
        """Whether the target of every bag lies in its interval."""
        return np.abs(self.residual) <= self.half_widths(level)

    def calibration(self) -> list[tuple[float, float]]:
        """(nominal, empirical) coverage at many levels; those at which every interval is finite."""
        return [
            (level, float(self.covered(level).mean())) for level in LEVELS if np.isfinite(self.half_widths(level)).all()
        ]


def _quantile(errors: np.ndarray, unit: np.ndarray, level: float) -> float:
    """The conformal quantile of the errors of some bags; infinite where they are of too few units.

    Examples
    --------
    >>> import numpy as np
    >>> _quantile(np.arange(1.0, 10.0), np.arange(9), 0.9), _quantile(np.arange(1.0, 9.0), np.arange(8), 0.9)
    (9.0, inf)
    """
    if len(np.unique(unit)) < units_needed(level):
        return math.inf
    return float(conformal_quantile(errors[None], unit_shares(_numbered(unit)), level)[0])


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Labels as numbers 0, 1, ..."""
    return np.unique(labels, return_inverse=True)[1]


def _left_out_quantile(errors: np.ndarray, level: float) -> np.ndarray:
    """The quantile of the errors without each in turn: one sort for all of them."""
    rank = math.ceil(len(errors) * level - 1e-9)  # of n - 1 errors
    if rank > len(errors) - 1:
        return np.full(len(errors), np.inf)
    ordered = np.sort(errors)
    # Leaving out one of the `rank` smallest moves the next one up into its place.
    return np.where(errors <= ordered[rank - 1], ordered[rank], ordered[rank - 1])


def held_out(results, method: str) -> HeldOut | None:
    """The held-out predictions of a method in one repeat, the first that holds most bags; None if none are kept."""
    table = {name: np.array(column) for name, column in results.predictions(method).items() if name != "bag"}
    if not table:
        return None
    repeats, counts = np.unique(table["repeat"], return_counts=True)
    repeat = repeats[np.argmax(counts)]
    here = table["repeat"] == repeat
    std = table["std"][here]
    cells = [results.cell(method, split) for split in results.splits if split[0] == repeat]
    bag = np.concatenate([cell["bags"] for cell in cells if cell and cell["predictions"]])
    return HeldOut(
        label=method,
        bag=bag.astype(int),
        size=table["size"][here],
        target=table["target"][here],
        prediction=table["prediction"][here],
        fold=table["fold"][here],
        std=None if np.isnan(std).any() else std,
        repeat=int(repeat),
    )


def size_fifths(held: HeldOut) -> list[dict]:
    """The root mean squared residual of bags from the smallest fifth to the largest (fewer parts if sizes repeat)."""
    edges = np.unique(np.quantile(held.size, np.linspace(0, 1, 6), method="nearest"))
    part = np.clip(np.searchsorted(edges, held.size, side="right") - 1, 0, max(len(edges) - 2, 0))
    rows = []
    for k in np.unique(part).tolist():
        inside = held.size[part == k]
        error = float(np.sqrt(np.mean(held.residual[part == k] ** 2)))
        rows.append({"low": int(inside.min()), "high": int(inside.max()), "bags": len(inside), "rmse": error})
    return rows
