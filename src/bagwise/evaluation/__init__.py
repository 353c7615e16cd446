"""Evaluation one can trust: a plan of independent cells, run by anyone, kept in a folder, summed up in tables."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
