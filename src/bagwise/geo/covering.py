"""Which pixels a polygon covers, and how much of each; always inside a window, never over the whole raster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import shapely
from rasterio import Affine
from rasterio.features import geometry_mask
from rasterio.windows import Window
from scipy.ndimage import binary_dilation

STRIP = 1 << 22  # numbers read at a time


def strips(polygon, stack) -> Iterator[Window]:
    """The window of a polygon inside the raster, cut into strips of rows that hold about ``STRIP`` numbers.

    A pixel wider on all sides, so that what lies exactly on a pixel's edge is judged as over the whole raster.
    None at all when the polygon lies outside.
    """
    west, south, east, north = polygon.bounds
    x, y = np.array([west, west, east, east]), np.array([south, north, south, north])
    columns, rows = place(~stack.transform, x, y)  # four corners: the grid may be rotated
    height, width = stack.shape
    top, bottom = _clip(rows, height)
    left, right = _clip(columns, width)
    if left >= right:
        return
    step = max(1, STRIP // ((right - left) * len(stack.names)))
    for row in range(top, bottom, step):
        yield Window(left, row, right - left, min(step, bottom - row))


def covered(polygon, window: Window, transform, *, all_touched: bool) -> np.ndarray:
    """Which pixels of a window have their centre in the polygon, or (``all_touched``) any part of them."""
    x, y = place(transform, window.col_off, window.row_off)
    there = Affine(transform.a, transform.b, x, transform.d, transform.e, y)
    return geometry_mask([polygon], (window.height, window.width), there, all_touched=all_touched, invert=True)


def fractions(polygon, window: Window, transform) -> np.ndarray:
    """The share of every pixel's area that lies in the polygon; exact, and computed only along its boundary."""
    inside = covered(polygon, window, transform, all_touched=True)
    # An edge along the side of a pixel belongs to both its pixels, also when one lies in the next strip.
    around = Window(window.col_off - 1, window.row_off - 1, window.width + 2, window.height + 2)
    edge = covered(polygon.boundary, around, transform, all_touched=True)
    edge = binary_dilation(edge, np.ones((3, 3)))[1:-1, 1:-1]
    share = inside.astype(np.float64)
    rows, columns = np.nonzero(edge)
    share[edge] = _exact(polygon, _cells(columns + window.col_off, rows + window.row_off, transform), rows)
    return share


def centres(window: Window, pixels: np.ndarray, transform) -> np.ndarray:
    """x and y of the centres of the marked pixels, row by row."""
    rows, columns = np.nonzero(pixels)
    return np.column_stack(place(transform, columns + window.col_off + 0.5, rows + window.row_off + 0.5))


def place(transform, columns, rows) -> tuple[np.ndarray, np.ndarray]:
    """Where an affine transform puts the points (columns, rows)."""
    a, b, c, d, e, f = tuple(transform)[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


def _clip(positions: np.ndarray, size: int) -> tuple[int, int]:
    """First and one-past-last pixel, one wider on both sides, inside the raster."""
    low, high = np.floor(positions.min()) - 1, np.ceil(positions.max()) + 1
    return int(np.clip(low, 0, size)), int(np.clip(high, 0, size))


def _cells(columns: np.ndarray, rows: np.ndarray, transform) -> np.ndarray:
    corners = [place(transform, columns + right, rows + down) for right, down in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return shapely.polygons(np.stack([np.column_stack(corner) for corner in corners], axis=1))


def _exact(polygon, cells: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The share of each cell in the polygon; ``rows`` says which cells lie in one row, and rises."""
    shapely.prepare(polygon)
    share = shapely.covers(polygon, cells).astype(np.float64)
    cut = np.flatnonzero(shapely.intersects(polygon, cells) & (share == 0))
    for one in np.split(cut, np.flatnonzero(np.diff(rows[cut])) + 1) if len(cut) else ():
        # first the polygon's part in this row, so that its many vertices are walked once, not once per cell
        part = shapely.intersection(polygon, shapely.box(*shapely.total_bounds(cells[one])))
        share[one] = shapely.area(shapely.intersection(cells[one], part)) / shapely.area(cells[one])
    return share
