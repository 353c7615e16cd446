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
    first, others = ids[positions[0]], len(positions) - 1
    label = repr(first.item() if isinstance(first, np.generic) and first.dtype.kind not in "mM" else first)
    if isinstance(first, np.datetime64):
        label = str(first)
    rest = "" if not others else f" (and {others:,} other{'s' if others > 1 else ''})"
    return f"bag {label}{rest} has"
