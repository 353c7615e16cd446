"""Readers of tables, files, folders, URLs, rasters, cubes, AnnData, molecules and sequences; atomic writes of files."""

from bagwise.first_use import attach_stub
from bagwise.io.load import load  # noqa: F401 (not at first use: the submodule has the same name)

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
