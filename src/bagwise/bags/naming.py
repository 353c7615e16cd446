"""How an error names bags: the first one, and how many others."""

from __future__ import annotations

import numpy as np


def name_bags(ids: np.ndarray, marked: np.ndarray) -> str:
    """The subject of a sentence about the marked bags, with its verb.

    Examples
    --------
    >>> import numpy as np
    >>> name_bags(np.array(["A1", "B17", "C2"], dtype=object), np.array([False, True, True]))
    "bag 'B17' (and 1 other) has"
    """
    positions = np.flatnonzero(marked)
    others = len(positions) - 1
    rest = "" if not others else f" (and {others:,} other{'s' if others > 1 else ''})"
    return f"bag {label(ids[positions[0]])}{rest} has"


def label(bag) -> str:
    """A bag id as a person would write it: text in quotes, numbers and dates plain."""
    if isinstance(bag, np.datetime64):
        return str(bag)
    return repr(bag.item() if isinstance(bag, np.generic) else bag)
