"""Saved models: one file that opens without running code."""

from bagwise.model_files.header import describe_training
from bagwise.model_files.model_file import load_model, read_header, save_model, try_saving

__all__ = ["describe_training", "load_model", "read_header", "save_model", "try_saving"]
