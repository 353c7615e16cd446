"""Saved models: one file that opens without running code."""

from bagwise.saving.files import open_model, read_header, save, try_saving
from bagwise.saving.header import describe_training

__all__ = ["describe_training", "open_model", "read_header", "save", "try_saving"]
