"""Bags from outside: data frames, files, folders and URLs, rasters; tables and files written whole or not at all."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported
from bagwise.io.array_files import save_npz
from bagwise.io.load import from_table, load

if TYPE_CHECKING:
    from bagwise.io.raster import from_raster
    from bagwise.io.table_report import check_table

__all__ = ["check_table", "from_raster", "from_table", "load", "save_npz"]

__getattr__, __dir__ = exported(__name__, {"raster": ("from_raster",), "table_report": ("check_table",)})
