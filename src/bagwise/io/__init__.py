"""Bags from outside: tables, files, folders and URLs, rasters, cubes, AnnData; files written whole or not at all."""

from bagwise.first_use import attach_stub
from bagwise.io.load import load  # noqa: F401 (not at first use: the submodule has the same name)

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
