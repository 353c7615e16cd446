"""Conformal prediction intervals, which cover a given share of new bags, and the coverage of any intervals."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
