"""Saved models: one file that opens without running code."""

from bagwise.model_files.header import describe_training
from bagwise.model_files.model_file import open_model, read_header, save, try_saving

__all__ = ["describe_training", "open_model", "read_header", "save", "try_saving"]
