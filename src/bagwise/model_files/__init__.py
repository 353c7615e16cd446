"""Saved models: one file that opens without running code."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.model_files.model_file import describe_training, load_model, read_header, save_model, try_saving

__all__ = ["describe_training", "load_model", "read_header", "save_model", "try_saving"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "model_file": ("describe_training", "load_model", "read_header", "save_model", "try_saving"),
    },
)
