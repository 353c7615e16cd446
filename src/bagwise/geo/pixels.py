"""The pixels of one polygon: their values, how much of each is inside, and why there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.geo.covering import centres, covered, fractions, strips


@dataclass(frozen=True)
class Pixels:
    """Instances, the share of each inside the polygon, and how many pixels were inside before the values were seen."""

    values: np.ndarray
    shares: np.ndarray
    n_inside: int = 0
    reason: str = ""  # why there are none


def read_zone(polygon, stack, *, all_touched: bool, weighted: bool, missing: str, coordinates: bool) -> Pixels:
    """The instances under a polygon: pixels inside, not hidden by the mask, with values as ``missing`` wants them."""
    width = len(stack.names) + (2 if coordinates else 0)
    nothing = Pixels(np.empty((0, width), dtype=np.float64 if coordinates else stack.dtype), np.empty(0, dtype=bool))
    reason, parts = _no_shape(polygon), [nothing]
    for window in () if reason else strips(polygon, stack):
        shares = _shares(polygon, window, stack.transform, all_touched, weighted)
        if shares.any():
            parts.append(_read_strip(stack, window, shares, missing, coordinates))
        reason = "holding no pixel centre"
    n_inside = sum(part.n_inside for part in parts)
    values, shares = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "shares"))
    return Pixels(values, shares, n_inside, "all no-data or masked" if n_inside else reason or "outside the raster")


def _no_shape(polygon) -> str:
    if polygon is None or polygon.is_empty:
        return "without a polygon"
    return "" if np.isfinite(polygon.bounds).all() else "beyond the raster's map projection"


def _shares(polygon, window, transform, all_touched: bool, weighted: bool) -> np.ndarray:
    if not weighted:
        return covered(polygon, window, transform, all_touched=all_touched)
    shares = fractions(polygon, window, transform)
    return np.where(shares > 1e-9, shares, 0.0)  # less than a billionth of a pixel is rounding


def _read_strip(stack, window, shares: np.ndarray, missing: str, coordinates: bool) -> Pixels:
    values, shown = stack.read(window)
    inside = shares > 0
    kept = inside & shown & _complete(values, missing)
    instances = values[kept]
    if coordinates:
        instances = np.column_stack([instances, centres(window, kept, stack.transform)])
    return Pixels(instances, shares[kept], np.count_nonzero(inside))


def _complete(values: np.ndarray, missing: str) -> np.ndarray:
    """Which pixels have the values they need; with "refuse", `Bags` is left to name the first that has not."""
    if missing == "drop-instances":
        return np.isfinite(values).all(axis=-1)
    return ~np.isnan(values).all(axis=-1) if missing == "keep" else np.ones(values.shape[:-1], dtype=bool)
