""""""

from bagwise.io.array_files import save_npz
from bagwise.io.load import load
from bagwise.io.raster import from_raster
from bagwise.io.table_report import check_table
from bagwise.io.tables import from_table

__all__ = ["from_raster", "from_table", "check_table", "load", "save_npz"]
