"""Bags from outside: data frames, files, folders and URLs, rasters; tables and files written whole or not at all."""

from typing import TYPE_CHECKING

from bagwise.io.array_files import save_npz
from bagwise.io.load import from_table, load

if TYPE_CHECKING:
    from bagwise.io.raster import from_raster
    from bagwise.io.table_report import inspect_table

__all__ = ["from_raster", "from_table", "inspect_table", "load", "save_npz"]


def __getattr__(name):  # what few need is imported when it is used
    if name == "from_raster":
        from bagwise.io.raster import from_raster as found
    elif name == "inspect_table":
        from bagwise.io.table_report import inspect_table as found
    else:
        raise AttributeError(f"module 'bagwise.io' has no attribute {name!r}")
    globals()[name] = found
    return found
