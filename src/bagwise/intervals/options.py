"""What `Intervals` may be asked for, how it deals the bags, and what it says when they are too few."""

from __future__ import annotations

import numpy as np
from sklearn.utils import get_tags

from bagwise import methods
from bagwise.bags import Bags
from bagwise.instances import bag_folds
from bagwise.intervals.left_out import first_step, gives_std
from bagwise.intervals.order_statistics import check_level, units_needed, units_of

# The fewest bags (groups): with some held out, and some of the others too for the scale, two are left to learn from.
FEWEST = {"cv+": 3, "jackknife+": 3, "split": 6}
SCALES = ("bag", "std", "none")


def check_options(intervals) -> None:
    """Refuse an unknown kind, level, scale or refit."""
    check_level(intervals.level)
    if intervals.kind not in FEWEST:
        raise ValueError(f"kind must be one of {', '.join(map(repr, FEWEST))}, not {intervals.kind!r}")
    scale = intervals.scale
    if scale not in SCALES if isinstance(scale, str) else not hasattr(scale, "predict"):
        raise ValueError(f"scale must be 'bag', 'std', 'none' or an object such as BagScale(), not {scale!r}")
    if intervals.refit not in ("auto", True, False):
        raise ValueError(f"refit must be 'auto', True or False, not {intervals.refit!r}")


def method_of(intervals):
    """The method as an estimator that takes bags; one whose standard deviations are asked for must give some."""
    named = isinstance(intervals.method, str)
    method = methods.method(intervals.method, random_state=intervals.random_state) if named else intervals.method
    _refuse_rows(method)
    if isinstance(intervals.scale, str) and intervals.scale == "std" and not gives_std(method):
        raise ValueError(
            "scale='std' needs a method whose predict takes return_std, such as 'blr', 'shrinkage' or 'bdr'; "
            f"{intervals.method if named else type(method).__name__} gives no standard deviations, so take scale='bag'"
        )
    return method


def _refuse_rows(method) -> None:
    """Refuse what is no estimator, and one that begins with a plain part of scikit-learn, which cannot read bags."""
    if not hasattr(method, "fit") or isinstance(method, type):
        raise TypeError(f"method must be a name of the catalogue or a bag regressor, not {method!r}")
    first = first_step(method)
    if _wants_rows(first):
        raise TypeError(
            f"{type(first).__name__} takes rows, not bags; make a row of every bag before it, as in "
            "BagPipeline([('rows', Pool()), ('head', Ridge())]), or take a name of the catalogue"
        )


def _wants_rows(step) -> bool:
    """A part of scikit-learn that holds no other estimator (searches, votes) and looks at what it is given."""
    if not type(step).__module__.startswith("sklearn.") or get_tags(step).no_validation:
        return False
    return not any(hasattr(part, "fit") or isinstance(part, list) for part in step.get_params(deep=False).values())


def deal(intervals, bags: Bags) -> tuple[np.ndarray | None, str | None]:
    """The fold of every bag (for a split the first is held out), and what is lacking for the level, if anything."""
    kind, noun, n_units = intervals.kind, units_noun(bags), count_units(bags)
    if n_units < FEWEST[kind]:
        return None, f"kind={kind!r} needs at least {FEWEST[kind]} {noun}, and there are {n_units}"
    folds = "each" if kind == "jackknife+" else intervals.folds
    if kind == "split" and folds == "auto":
        folds = int(np.clip(n_units // units_needed(intervals.level), 2, 4))
    fold = bag_folds(bags, folds, random_state=intervals.random_state)
    return fold, lacking(intervals.level, count_units(bags[fold == 0] if kind == "split" else bags), noun, kind)


def lacking(level: float, n_units: int, noun: str, kind: str) -> str | None:
    """Why this level has no finite interval with so many scores; None if it has."""
    if n_units >= units_needed(level):
        return None
    highest = np.floor(1000 * n_units / (n_units + 1)) / 1000
    hint = ", or for kind='cv+', which calibrates with all of them" if kind == "split" else ""
    return (
        f"level {level:g} needs at least {units_needed(level)} calibration {noun}, and there are {n_units}; "
        f"get more, or ask for a level of at most {highest:g}{hint}"
    )


def units_noun(bags: Bags) -> str:
    return "bags" if bags.groups is None else "groups"


def count_units(bags: Bags) -> int:
    return int(units_of(bags).max()) + 1
