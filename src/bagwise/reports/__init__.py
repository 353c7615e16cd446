"""Plots, and the report of a run or a model as one HTML file."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
