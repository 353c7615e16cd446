"""Saved models: one file that opens without running code."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
