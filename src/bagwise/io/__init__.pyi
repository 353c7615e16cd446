from bagwise.io import geo as geo
from bagwise.io.annotated_data import from_anndata as from_anndata, to_anndata as to_anndata
from bagwise.io.array_files import from_folder as from_folder, save_npz as save_npz
from bagwise.io.cube import from_cube as from_cube
from bagwise.io.load import load as load
from bagwise.io.molecules import from_sequences as from_sequences, from_smiles as from_smiles
from bagwise.io.raster import from_raster as from_raster
from bagwise.io.table_report import check_table as check_table

__all__ = [
    "check_table",
    "from_anndata",
    "from_cube",
    "from_folder",
    "from_raster",
    "from_sequences",
    "from_smiles",
    "load",
    "save_npz",
    "to_anndata",
]
