"""Bags from outside: tables, files, folders and rasters; reports on tables; files written whole or not at all."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported
from bagwise.io.array_files import save_npz
from bagwise.io.load import load
from bagwise.io.table_report import check_table
from bagwise.io.tables import from_table

if TYPE_CHECKING:
    from bagwise.io.raster import from_raster

__all__ = ["from_raster", "from_table", "check_table", "load", "save_npz"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "raster": ("from_raster",),
    },
)
