"""Tables larger than memory: a Parquet data set, or a table that is there already, read chunk by chunk."""

from bagwise.lake.chunks import Block, Chunk
from bagwise.lake.scanning import Scan, scan

__all__ = ["Block", "Chunk", "Scan", "scan"]
