"""Bags from outside: tables, files, folders and URLs, rasters, cubes, AnnData; files written whole or not at all."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported
from bagwise.io.load import from_table, load

if TYPE_CHECKING:
    from bagwise.io.annotated_data import from_anndata, to_anndata
    from bagwise.io.array_files import from_folder, save_npz
    from bagwise.io.cube import from_cube
    from bagwise.io.raster import from_raster
    from bagwise.io.table_report import check_table

__all__ = [
    "check_table",
    "from_anndata",
    "from_cube",
    "from_folder",
    "from_raster",
    "from_table",
    "load",
    "save_npz",
    "to_anndata",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "annotated_data": ("from_anndata", "to_anndata"),
        "array_files": ("from_folder", "save_npz"),
        "cube": ("from_cube",),
        "raster": ("from_raster",),
        "table_report": ("check_table",),
    },
)
